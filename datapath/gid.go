package datapath

import (
	"net/netip"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// gidTableLen is the length of the GID table, as Linux has it.
const gidTableLen = 1024

// gidTable gives addresses their indices, in Linux's order: link-local first,
// then the others as the interface lists them. An index keeps its address as
// long as that lives; what it leaves is a hole, which the next new address takes.
type gidTable struct {
	entries []netip.Addr // invalid: a hole
}

// update makes the table that of addrs, and returns what has come and gone.
// Addresses beyond the table's length are left out.
func (t *gidTable) update(addrs []netip.Addr) (added, removed []netip.Addr) {
	for i, have := range t.entries {
		if have.IsValid() && !slices.Contains(addrs, have) {
			removed = append(removed, have)
			t.entries[i] = netip.Addr{}
		}
	}
	for _, linkLocal := range []bool{true, false} {
		for _, a := range addrs {
			if a.Is6() && a.IsLinkLocalUnicast() == linkLocal || a.Is4() && !linkLocal {
				if !slices.Contains(t.entries, a) && t.insert(a) {
					added = append(added, a)
				}
			}
		}
	}
	return added, removed
}

func (t *gidTable) insert(a netip.Addr) bool {
	if i := slices.Index(t.entries, netip.Addr{}); i >= 0 {
		t.entries[i] = a
		return true
	}
	if len(t.entries) == gidTableLen {
		return false
	}
	t.entries = append(t.entries, a)
	return true
}

// at is the address at an index; false for a hole.
func (t *gidTable) at(i int) (netip.Addr, bool) {
	if i < 0 || i >= len(t.entries) || !t.entries[i].IsValid() {
		return netip.Addr{}, false
	}
	return t.entries[i], true
}

// has reports whether a is one of the device's addresses.
func (t *gidTable) has(a netip.Addr) bool { return a.IsValid() && slices.Contains(t.entries, a) }

// gidOf is an address as a GID: IPv4 as ::ffff:a.b.c.d.
func gidOf(a netip.Addr) ibv.GID { return ibv.GID(a.As16()) }

// addrOf is a GID as an address, IPv4 as such.
func addrOf(g ibv.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// guid is the EUI-64 of a MAC address (as rxe makes its node GUID).
func guid(mac [6]byte) uint64 {
	var v uint64
	for _, b := range []byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]} {
		v = v<<8 | uint64(b)
	}
	return v
}
