package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// gidTableLen is the length of the GID table, as Linux has it.
const gidTableLen = 1024

// ownAddr is an address of the device.
type ownAddr struct {
	place
	mac [6]byte // of its frames; zero: the device's
}

// place tells an address from the same one elsewhere.
type place struct {
	addr netip.Addr
	oif  int    // index of the interface that has it: the device's, or one on top; 0: none (Options.VLANAddrs)
	vlan uint16 // 0: its frames are untagged
}

// gidTable gives addresses their indices, in Linux's order: link-local first,
// then the others as the interface lists them. An index keeps its address as
// long as that lives; what it leaves is a hole, which the next new address takes.
type gidTable struct {
	entries []ownAddr // without address: a hole
}

// update makes the table that of list, and returns what has come and gone.
// Addresses beyond the table's length are left out.
func (t *gidTable) update(list []ownAddr) (added, removed []place) {
	for i, have := range t.entries {
		if !have.addr.IsValid() {
			continue
		}
		k := slices.IndexFunc(list, func(a ownAddr) bool { return a.place == have.place })
		if k >= 0 {
			t.entries[i].mac = list[k].mac
			continue
		}
		removed = append(removed, have.place)
		t.entries[i] = ownAddr{}
	}
	for _, linkLocal := range []bool{true, false} {
		for _, a := range list {
			if a.addr.Is6() && a.addr.IsLinkLocalUnicast() == linkLocal || a.addr.Is4() && !linkLocal {
				if _, ok := t.find(a.place); !ok && t.insert(a) {
					added = append(added, a.place)
				}
			}
		}
	}
	return added, removed
}

func (t *gidTable) insert(a ownAddr) bool {
	if i := slices.Index(t.entries, ownAddr{}); i >= 0 {
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
func (t *gidTable) at(i int) (ownAddr, bool) {
	if i < 0 || i >= len(t.entries) || !t.entries[i].addr.IsValid() {
		return ownAddr{}, false
	}
	return t.entries[i], true
}

// find is the entry of a place.
func (t *gidTable) find(p place) (ownAddr, bool) {
	for _, e := range t.entries {
		if e.place == p && p.addr.IsValid() {
			return e, true
		}
	}
	return ownAddr{}, false
}

// has reports whether a is one of the device's addresses, wherever.
func (t *gidTable) has(a netip.Addr) bool {
	return a.IsValid() && slices.ContainsFunc(t.entries, func(e ownAddr) bool { return e.addr == a })
}

// describe lists the table for an error.
func (t *gidTable) describe() string {
	var b strings.Builder
	for i, e := range t.entries {
		if e.addr.IsValid() {
			fmt.Fprintf(&b, " %d: %s", i, e.addr)
		}
		if e.vlan != 0 {
			fmt.Fprintf(&b, " in VLAN %d", e.vlan)
		}
	}
	if b.Len() == 0 {
		return "no address at all: add one with ip address add"
	}
	return b.String()[1:]
}

// gidOf is an address as a GID: IPv4 as ::ffff:a.b.c.d.
func gidOf(a netip.Addr) ibv.GID { return ibv.GID(a.As16()) }

// addrOf is a GID as an address, IPv4 as such.
func addrOf(g ibv.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// list is the table as it is shown; addresses without an interface of their own are the
// device's, whose interface has the index.
func (t *gidTable) list(index int) []verbs.GIDEntry {
	list := make([]verbs.GIDEntry, len(t.entries))
	for i, e := range t.entries {
		list[i] = verbs.GIDEntry{Index: i, IfIndex: index, VLAN: e.vlan}
		if e.addr.IsValid() {
			list[i].GID, list[i].Valid = gidOf(e.addr), true
		}
		if e.oif != 0 {
			list[i].IfIndex = e.oif
		}
	}
	return list
}
