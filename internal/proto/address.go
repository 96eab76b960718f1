package proto

import (
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Addr is an address.
type Addr struct {
	IP     [16]byte // of an IPv4 address the first four
	Family uint8    // 0: none; 4; 6
	Pad    [3]uint8
	Scope  uint32 // of a link-local IPv6 address, index of the interface where the daemon is; 0: none
}

// AddrPort is an address and a port.
type AddrPort struct {
	IP     [16]byte
	Family uint8
	Pad    uint8
	Port   uint16
	Scope  uint32 // as that of Addr
}

// AddrOf is a as it travels; a zone that is a name does not, see ZoneName.
func AddrOf(a netip.Addr) (out Addr) {
	out.IP, out.Family = split(a)
	out.Scope = ibv.Scope(a)
	return out
}

// ZoneName is the interface that a request names: iface, or a zone that is no index. Two
// names are an error, as nobody but the daemon could tell that they are of one interface.
func ZoneName(iface string, addrs ...netip.Addr) (string, error) {
	for _, a := range addrs {
		switch zone := a.Zone(); {
		case zone == "" || ibv.Scope(a) != 0 || zone == iface:
		case iface == "":
			iface = zone
		default:
			return "", fmt.Errorf("two interfaces are named, %s and %s", iface, zone)
		}
	}
	if len(iface) >= Name {
		return "", fmt.Errorf("no interface has a name as long as %q", iface)
	}
	return iface, nil
}

func split(a netip.Addr) (ip [16]byte, family uint8) {
	switch {
	case a.Is4():
		b := a.As4()
		copy(ip[:], b[:])
		return ip, 4
	case a.Is6():
		return a.As16(), 6
	}
	return ip, 0
}

func join(ip [16]byte, family uint8, scope uint32) netip.Addr {
	switch family {
	case 4:
		return netip.AddrFrom4([4]byte(ip[:4]))
	case 6:
		a := netip.AddrFrom16(ip)
		if scope != 0 && !a.Is4In6() {
			a = ibv.WithScope(a, scope)
		}
		return a
	}
	return netip.Addr{}
}

// Netip is the address, not valid when there is none.
func (a Addr) Netip() netip.Addr { return join(a.IP, a.Family, a.Scope) }

// AddrPortOf is a as it travels.
func AddrPortOf(a netip.AddrPort) (out AddrPort) {
	out.IP, out.Family = split(a.Addr())
	out.Port, out.Scope = a.Port(), ibv.Scope(a.Addr())
	return out
}

// Netip is the address and port.
func (a AddrPort) Netip() netip.AddrPort {
	return netip.AddrPortFrom(join(a.IP, a.Family, a.Scope), a.Port)
}
