package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/connect"
)

// way is how the client gets to the server.
type way struct {
	ifname string
	local  netip.Addr // not valid: any of the interface's
	remote netip.AddrPort
}

// toServer finds the server's address and the interface that leads there.
func (o *Options) toServer(ctx context.Context) (w way, err error) {
	if o.Address == "" {
		return w, fmt.Errorf("%w: the server's address (-a) is needed", ErrOptions)
	}
	addr, err := lookUp(ctx, o.Address)
	if err != nil {
		return w, err
	}
	if addr.IsUnspecified() || addr.IsMulticast() {
		return w, fmt.Errorf("%w: address (-a) %s is not that of one host", ErrOptions, o.Address)
	}
	w.remote = netip.AddrPortFrom(addr, uint16(o.Port))
	if o.Source != "" {
		if w.local, err = netip.ParseAddr(o.Source); err != nil {
			return w, fmt.Errorf("%w: source address (-I): %w", ErrOptions, err)
		}
		w.local = w.local.Unmap()
	}
	w.ifname, err = o.interfaceTo(addr, w.local)
	return w, err
}

// interfaceTo names the interface that leads to an address.
func (o *Options) interfaceTo(addr, local netip.Addr) (string, error) {
	switch {
	case o.Interface != "":
		return o.Interface, nil
	case addr.Zone() != "":
		return addr.Zone(), nil
	case local.IsValid():
		return connect.InterfaceOf(local.WithZone(""))
	case addr.IsLinkLocalUnicast():
		return "", fmt.Errorf("%w: every interface leads to %s: name one, as %s%%eth0 or with --device", ErrOptions, addr, addr)
	}
	// Nothing is sent: the kernel only chooses its source address.
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(o.Port))))
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without talk of UDP
	}
	if err != nil {
		return "", fmt.Errorf("no way to %s: %w: check the address, and the routes with ip route get %s", addr, err, addr)
	}
	defer c.Close()
	from, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return "", err
	}
	return connect.InterfaceOf(from.Addr().Unmap().WithZone(""))
}

func lookUp(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("address (-a): %w", err)
	}
	return all[0].Unmap(), nil
}

// listenAddr is the interface that a server uses, and where it listens there.
func (o *Options) listenAddr(ctx context.Context) (ifname, address string, err error) {
	port := strconv.Itoa(o.Port)
	if o.Address == "" {
		ifname, err = o.onlyInterface()
		return ifname, ":" + port, err
	}
	addr, err := lookUp(ctx, o.Address)
	if err != nil {
		return "", "", err
	}
	if addr.IsMulticast() {
		return "", "", fmt.Errorf("%w: address (-a) %s is not that of one host", ErrOptions, addr)
	}
	address = net.JoinHostPort(addr.String(), port)
	switch {
	case addr.IsUnspecified():
		ifname, err = o.onlyInterface()
	case o.Interface != "":
		ifname = o.Interface
	case addr.Zone() != "":
		ifname = addr.Zone()
	default:
		ifname, err = connect.InterfaceOf(addr)
	}
	return ifname, address, err
}

// onlyInterface is the interface of a server that is told no address: the one that
// there is.
func (o *Options) onlyInterface() (string, error) {
	if o.Interface != "" {
		return o.Interface, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list network interfaces: %w", err)
	}
	var names []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			names = append(names, i.Name)
		}
	}
	switch len(names) {
	case 0:
		return "", errors.New("no network interface but loopback is up")
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("%w: there are several interfaces (%s): name one with --device, or its address with -a",
		ErrOptions, strings.Join(names, ", "))
}
