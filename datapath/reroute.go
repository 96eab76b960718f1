package datapath

import (
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reroutePause is how long changes of routes gather before they are followed: one
// of a link brings many messages.
const reroutePause = 20 * time.Millisecond

// leg is what a route is looked up by.
type leg struct {
	oif      int // index of the interface that packets leave by
	src, dst netip.Addr
}

func (r *route) leg() leg { return leg{r.from.oif, r.from.addr, addrOf(r.fields.DstGID)} }

// wantReroute has followRoutes called soon.
func (d *Device) wantReroute() {
	d.hops.forget()
	select {
	case d.rerouting <- struct{}{}:
	default: // it is wanted already
	}
}

// reroute calls followRoutes when it is wanted, until the device is closed. It
// may wait for next hops to answer, for which the monitor has no time.
func (d *Device) reroute(ended chan<- struct{}) {
	defer close(ended)
	for {
		select {
		case <-d.rerouting:
		case <-d.done:
			return
		}
		select {
		case <-time.After(reroutePause):
		case <-d.done:
			return
		}
		d.followRoutes()
	}
}

// followRoutes looks up again how the peers of queue pairs and address handles
// are reached, and takes those that have another next hop over to it. Where there
// is no way now, or nobody answers, the old one stays: the link may be down.
func (d *Device) followRoutes() {
	for l, hop := range d.legs() {
		now, err := d.routes.hop(l)
		if err != nil || now == hop {
			continue
		}
		next, err := d.routes.resolve(lifetime(d.hurry), l)
		if err != nil {
			continue
		}
		d.rebuildPaths(func(r *route) bool {
			if r.local || r.group || r.leg() != l {
				return false
			}
			r.hop, r.fields.DstMAC = next.addr, next.mac
			return true
		})
	}
}

// legs are the pairs of addresses between which packets go through a next hop,
// with that.
func (d *Device) legs() map[leg]netip.Addr {
	all := map[leg]netip.Addr{}
	add := func(r *route) {
		if r.set && !r.local && !r.group && r.from.oif != 0 {
			all[r.leg()] = r.hop
		}
	}
	walk(d, keysOf(d, d.qps), func(q *qp) { add(&q.route) })
	walk(d, keysOf(d, d.handles), func(handle uint32) {
		if h := d.handles[handle]; h != nil {
			add(&h.route)
		}
	})
	return all
}

// followAddresses has paths follow the addresses that the device has now. From an
// address that it has no more nothing is sent: it may be another host's. Peers
// that were reached within the device, and those that are from now on, change
// their ways.
func (d *Device) followAddresses() {
	d.rebuildPaths(func(r *route) bool {
		before, dst := *r, addrOf(r.fields.DstGID)
		own, ok := d.gids.find(r.from)
		r.mute, r.local = !ok, d.gids.has(dst)
		if ok {
			r.fields.SrcMAC = d.macOf(own)
		}
		switch {
		case r.local:
			r.hop, r.fields.DstMAC = dst, r.fields.SrcMAC
		case before.local:
			// Whoever has the address now is to be asked for its own.
			r.hop, r.fields.DstMAC = netip.Addr{}, [6]byte{}
		}
		return *r != before
	})
}

// macOf is the link-layer address of an own one. The device's lock is held.
func (d *Device) macOf(a ownAddr) [6]byte {
	if a.mac == [6]byte{} {
		return d.link.mac
	}
	return a.mac
}

// whereabouts are what a worker needs of a route.
type whereabouts struct {
	path  wire.Path
	local bool // the peer is on this device
	mute  bool // nothing may be sent
	vlan  uint16
}

// lay makes the headers of a route. It fails for a route that is not one.
func (w *whereabouts) lay(r *route) error {
	w.local, w.mute, w.vlan = r.local, r.mute || !r.local && r.fields.DstMAC == [6]byte{}, r.from.vlan
	fields := r.fields
	if r.local {
		fields.Tagged = false // between two VLANs the tag would not fit
	}
	return w.path.Set(&fields)
}
