package cm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// parse reads "10.0.0.2:7471", "[fe80::1]:7471" or "host:7471", which is looked
// up. Without a host it is the unspecified address.
func parse(ctx context.Context, s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(plain(a.Addr()), a.Port()), nil
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
	return netip.AddrPortFrom(plain(all[0]), uint16(port)), nil
}

// plain is an address as the connection manager has it: without zone, IPv4 not
// mapped.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// gidIndex is the index of an own address in a VLAN, 0 being none.
func gidIndex(dev *verbs.Context, a netip.Addr, vlan uint16) (int, error) {
	gids, err := dev.GIDs()
	if err != nil {
		return 0, err
	}
	want := ibv.GIDOf(a)
	for _, g := range gids {
		if g.GID == want && g.VLAN == vlan {
			return g.Index, nil
		}
	}
	return 0, fmt.Errorf("%w: %s does not have the address %s in VLAN %d any more", ErrNoSource, dev.Name(), a, vlan)
}
