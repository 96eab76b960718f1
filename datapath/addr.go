package datapath

import (
	"net/netip"

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
// and paths follow, and GID_CHANGE is reported.
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
	for _, p := range added {
		if err := d.steer.AddAddress(p.addr); err != nil && first == nil {
			first = err
		}
	}
	d.followAddresses()
	if len(added)+len(removed) != 0 {
		d.wantReroute()
		d.reportPort(ibv.EventGIDChange)
	}
	return first
}
