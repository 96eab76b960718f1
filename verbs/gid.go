package verbs

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// GIDs are the valid entries of the GID table, in index order.
func (c *Context) GIDs() ([]GIDEntry, error) {
	all, err := c.p.GIDs()
	if err != nil {
		return nil, opErr("query gids", c.Name(), err)
	}
	valid := all[:0:0]
	for _, e := range all {
		if e.Valid {
			valid = append(valid, e)
		}
	}
	return valid, nil
}

// QueryGID is the entry at index of the GID table.
func (c *Context) QueryGID(index int) (GIDEntry, error) {
	all, err := c.GIDs()
	if err != nil {
		return GIDEntry{}, err
	}
	for _, e := range all {
		if e.Index == index {
			return e, nil
		}
	}
	return GIDEntry{}, opErr("query gid", c.Name(), invalid("no GID at index %d: %s", index, listGIDs(all)))
}

// GIDIndex is the index of an address of the interface, or of one on top of it: of
// several that have a link-local address, the one that its zone names, else the first.
func (c *Context) GIDIndex(addr netip.Addr) (int, error) {
	if addr.Zone() != "" {
		// Who knows the names of interfaces is where the device is.
		r, err := c.Resolve(context.Background(), &ResolveRequest{Src: addr, Dst: addr})
		return r.SGIDIndex, err
	}
	all, err := c.GIDs()
	if err != nil {
		return 0, err
	}
	want := ibv.GIDOf(addr)
	for _, e := range all {
		if e.GID == want {
			return e.Index, nil
		}
	}
	return 0, opErr("find gid", c.Name(), invalid("the interface does not have the address %s: %s", addr, listGIDs(all)))
}

// DefaultGID is the entry that tools use when none is named: the first IPv4
// address, else the first global IPv6 address, else the link-local one.
func (c *Context) DefaultGID() (GIDEntry, error) {
	all, err := c.GIDs()
	if err != nil {
		return GIDEntry{}, err
	}
	best, rank := GIDEntry{}, 0
	for _, e := range all {
		a := netip.AddrFrom16(e.GID)
		r := 2
		switch {
		case a.Is4In6():
			r = 3
		case a.IsLinkLocalUnicast():
			r = 1
		}
		if r > rank {
			best, rank = e, r
		}
	}
	if rank == 0 {
		return GIDEntry{}, opErr("find gid", c.Name(), fmt.Errorf("the interface has no address: add one (ip address add ... dev %s) and bring it up", c.Name()))
	}
	return best, nil
}

func listGIDs(all []GIDEntry) string {
	if len(all) == 0 {
		return "it has no address at all"
	}
	var b strings.Builder
	b.WriteString("it has")
	for _, e := range all {
		fmt.Fprintf(&b, " %d: %s", e.Index, netip.AddrFrom16(e.GID).Unmap())
	}
	return b.String()
}
