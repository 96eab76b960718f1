package ibv

import "net/netip"

// GIDOf is the GID of an address: an IPv4 address becomes ::ffff:a.b.c.d. Zone
// and validity of a are not looked at; the zero Addr gives the zero GID.
func GIDOf(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// Addr is the address that g stands for, an IPv4 address when it is IPv4-mapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// Is4 reports whether g stands for an IPv4 address.
func (g GID) Is4() bool { return netip.AddrFrom16(g).Is4In6() }

// IsZero reports whether g is the reserved GID ::, which no port has.
func (g GID) IsZero() bool { return g == GID{} }

// String is the address as tools print GIDs: "fe80::1", "::ffff:10.0.0.1".
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// EUI64 is the EUI-64 of a MAC address, which rxe has as its node GUID.
func EUI64(mac [6]byte) uint64 {
	var v uint64
	for _, b := range []byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]} {
		v = v<<8 | uint64(b)
	}
	return v
}
