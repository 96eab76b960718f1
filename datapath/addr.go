package datapath

import (
	"net/netip"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// setAddresses takes notice of the addresses that the interface itself has now,
// and of none on top of it.
func (d *Device) setAddresses(addrs []netip.Addr) error {
	d.mu.Lock()
	index := d.link.index
	d.mu.Unlock()
	list := make([]ownAddr, len(addrs))
	for i, a := range addrs {
		list[i].place = place{addr: a, oif: index}
	}
	return d.setOwn(list)
}

// setOwn takes notice of the addresses that there are now: GID table, XDP program
// and paths follow, and GID_CHANGE is reported. One goroutine at a time calls it.
func (d *Device) setOwn(list []ownAddr) error {
	d.mu.Lock()
	if !d.link.gone {
		list = append(list, staticAddrs(d.opts.VLANAddrs)...)
	}
	added, removed := d.gids.update(list)
	d.tags.Store(newTagSet(d.gids.entries))
	gone := removed[:0:0]
	for _, p := range removed {
		if !d.gids.has(p.addr) {
			gone = append(gone, p)
		}
	}
	d.mu.Unlock()
	var first error
	for _, p := range gone {
		if err := d.steer.DelAddress(p.addr); err != nil && first == nil {
			first = err
		}
	}
	// What the XDP program could not be told before, it is told now.
	want := d.unsteered
	d.unsteered = nil
	for _, p := range added {
		want = append(want, p.addr)
	}
	for _, a := range want {
		if slices.ContainsFunc(gone, func(p place) bool { return p.addr == a }) {
			continue
		}
		if err := d.steer.AddAddress(a); err != nil {
			d.unsteered = append(d.unsteered, a)
			if first == nil {
				first = err
			}
		}
	}
	d.followAddresses()
	if len(added)+len(removed) != 0 {
		d.wantReroute()
		d.reportPort(ibv.EventGIDChange)
	}
	return first
}
