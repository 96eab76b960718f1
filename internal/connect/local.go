package connect

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// GID chooses the source address: the entry at index, or, when index is
// negative, the one of the address prefer if the device has it, else the
// device's default.
func GID(dev *verbs.Context, index int, prefer netip.Addr) (verbs.GIDEntry, error) {
	if index >= 0 {
		return dev.QueryGID(index)
	}
	if prefer.IsValid() {
		if i, err := dev.GIDIndex(prefer); err == nil {
			return dev.QueryGID(i)
		}
	}
	return dev.DefaultGID()
}

// InterfaceOf names the network interface that has an address.
func InterfaceOf(addr netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list network interfaces: %w", err)
	}
	for _, ifc := range all {
		if ifc.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := ifc.Addrs()
		if err != nil {
			return "", fmt.Errorf("addresses of %s: %w", ifc.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == addr {
				return ifc.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no network interface but loopback has the address %s: name the interface with -d", addr)
}

// LocalAddr is the own address of the TCP connection.
func (c *Channel) LocalAddr() netip.Addr {
	if tcp, ok := c.conn.LocalAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
