package cm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// parse reads "10.0.0.2:7471", "[fe80::1]:7471" or "host:7471", which is looked
// up. Without a host it is the unspecified address.
func parse(ctx context.Context, s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
	}
	host, service, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, invalid("%q is no address with a port: %v", s, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return netip.AddrPort{}, invalid("%q is no port: 0 to 65535", service)
	}
	if host == "" {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(all[0].Unmap(), uint16(port)), nil
}

// ownAddr is an own address as the connection manager of a device has it: the zone of a
// link-local address is the interface's index, which the device knows by its name.
// Errors: those of verbs.Context.Resolve.
func ownAddr(dev *verbs.Context, a netip.Addr) (netip.Addr, error) {
	a = a.Unmap()
	if a.Zone() == "" {
		return a, nil
	}
	if a.WithZone("").IsUnspecified() {
		return a, invalid("%s: the addresses of one interface are listened at one by one, those of all without a zone", a)
	}
	// To itself from itself, nobody else is asked.
	r, err := dev.Resolve(context.Background(), &verbs.ResolveRequest{Src: a, Dst: a})
	if err != nil {
		return a, err
	}
	return ibv.WithScope(a, uint32(r.IfIndex)), nil
}

// gidIndex is the index of an own address in a VLAN, 0 being none.
func gidIndex(dev *verbs.Context, a netip.Addr, vlan uint16) (int, error) {
	gids, err := dev.GIDs()
	if err != nil {
		return 0, err
	}
	if i := cmengine.IndexOf(gids, a, vlan); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: %s does not have the address %s in VLAN %d any more", ErrNoSource, dev.Name(), a, vlan)
}
