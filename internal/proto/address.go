package proto

import "net/netip"

// Addr is an address. Zones do not travel: the daemon's are not the client's.
type Addr struct {
	IP     [16]byte // of an IPv4 address the first four
	Family uint8    // 0: none; 4; 6
	Pad    [7]uint8
}

// AddrPort is an address and a port.
type AddrPort struct {
	IP     [16]byte
	Family uint8
	Pad    [5]uint8
	Port   uint16
}

// AddrOf is a as it travels.
func AddrOf(a netip.Addr) (out Addr) {
	out.IP, out.Family = split(a)
	return out
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

func join(ip [16]byte, family uint8) netip.Addr {
	switch family {
	case 4:
		return netip.AddrFrom4([4]byte(ip[:4]))
	case 6:
		return netip.AddrFrom16(ip)
	}
	return netip.Addr{}
}

// Netip is the address, not valid when there is none.
func (a Addr) Netip() netip.Addr { return join(a.IP, a.Family) }

// AddrPortOf is a as it travels.
func AddrPortOf(a netip.AddrPort) (out AddrPort) {
	out.IP, out.Family = split(a.Addr())
	out.Port = a.Port()
	return out
}

// Netip is the address and port.
func (a AddrPort) Netip() netip.AddrPort { return netip.AddrPortFrom(join(a.IP, a.Family), a.Port) }
