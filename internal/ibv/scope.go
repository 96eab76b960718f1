package ibv

import (
	"net/netip"
	"strconv"
)

// WithScope is a as an address of the interface with an index: link-local IPv6
// addresses, which are others on every link, have that as their zone (RFC 4007, 11).
// All others, and index 0, have no zone.
func WithScope(a netip.Addr, index uint32) netip.Addr {
	a = a.Unmap().WithZone("")
	if index == 0 || !scoped(a) {
		return a
	}
	return a.WithZone(strconv.FormatUint(uint64(index), 10))
}

// Scope is the index that WithScope has given an address, 0 without.
func Scope(a netip.Addr) uint32 {
	if !scoped(a) {
		return 0
	}
	n, err := strconv.ParseUint(a.Zone(), 10, 31)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// PlainAddr is a as connections are told apart by: IPv4 not mapped, and with a zone only
// where that is an interface's index and tells two addresses apart.
func PlainAddr(a netip.Addr) netip.Addr { return WithScope(a, Scope(a)) }

func scoped(a netip.Addr) bool {
	return a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast())
}
