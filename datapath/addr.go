package datapath

import (
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// setAddresses takes notice of the addresses that the interface has now: GID
// table and XDP program follow, and GID_CHANGE is reported.
func (d *Device) setAddresses(addrs []netip.Addr) error {
	d.mu.Lock()
	added, removed := d.gids.update(addrs)
	d.mu.Unlock()
	var first error
	for _, a := range removed {
		if err := d.steer.DelAddress(a); err != nil && first == nil {
			first = err
		}
	}
	for _, a := range added {
		if err := d.steer.AddAddress(a); err != nil && first == nil {
			first = err
		}
	}
	if len(added)+len(removed) != 0 {
		d.followAddresses()
		d.reportPort(ibv.EventGIDChange)
	}
	return first
}
