package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

// headroomMTU is what a packet needs of the link MTU beyond its payload, as
// Linux's rxe reckons.
const headroomMTU = 80

// activeMTU is the largest path MTU that fits a link, 0 when none does.
func activeMTU(linkMTU int) ibv.MTU {
	for m := ibv.MTU4096; m >= ibv.MTU256; m-- {
		if m.Bytes()+headroomMTU <= linkMTU {
			return m
		}
	}
	return 0
}

// activeMTU is the port's. The device's lock is held.
func (d *Device) activeMTU() ibv.MTU { return activeMTU(d.link.mtu) }

// checkThere refuses what needs the interface when that is gone.
func (d *Device) checkThere() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link.gone {
		return fmt.Errorf("%w: %s is gone: close the device, and open it again when the interface is back", ErrInterface, d.link.name)
	}
	return nil
}

// checkMTU refuses a path MTU that the link cannot carry.
func (d *Device) checkMTU(m ibv.MTU) error {
	if !m.Valid() {
		return nil // the engine says what is wrong with it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if active := d.activeMTU(); m > active {
		return fmt.Errorf("%w: %d bytes on %s, whose MTU of %d carries %d: use that, or set the MTU to %d at both ends",
			ErrMTU, m.Bytes(), d.link.name, d.link.mtu, active.Bytes(), m.Bytes()+headroomMTU)
	}
	return nil
}

// setLink takes notice of what the interface is now.
func (d *Device) setLink(now linkInfo) {
	d.mu.Lock()
	was := d.link
	if now.speed == 0 { // a link that is down has none
		now.speed = was.speed
	}
	d.link = now
	d.mu.Unlock()
	switch {
	case now.gone && !was.gone:
		d.reportPort(ibv.EventDeviceFatal)
		d.failAll()
	case now.running && !was.running:
		d.reportPort(ibv.EventPortActive)
	case !now.running && was.running:
		d.reportPort(ibv.EventPortErr)
		d.countLinkDown()
	}
	if now.name != was.name {
		select {
		case d.renamed <- struct{}{}:
		default: // nobody has taken the last one
		}
	}
	if now.speed != was.speed {
		d.reportPort(ibv.EventSpeedChange)
	}
	if now.mac != was.mac {
		d.followAddresses()
	}
	if now.mtu != was.mtu {
		d.setWindows()
		d.setPortMTUs()
	}
	if now.running && !was.running {
		d.retryAll()
	}
}

// setPortMTUs tells workers what the link carries now, and queue pairs how long a
// datagram can be. A connection keeps its path MTU, to which both ends have
// agreed: packets for which the link is too small are not sent, so that it goes
// on if that passes soon, and else fails as over a path that loses them.
func (d *Device) setPortMTUs() {
	d.mu.Lock()
	link, mtu := d.link.mtu, d.activeMTU().Bytes()
	d.mu.Unlock()
	list := keysOf(d, d.qps)
	for _, w := range d.workers {
		_ = w.control(func() { w.mtu = link }) // as below
	}
	for _, q := range list {
		// An error says that the device is closed.
		_ = q.w.control(func() { q.t.SetPortMTU(mtu) })
	}
}

// failAll moves all queue pairs to ERR, as the interface is gone: what is posted
// to them is flushed, and nothing goes to the port any more.
func (d *Device) failAll() {
	for _, w := range d.workers {
		w.lost.Store(true)
	}
	for _, q := range keysOf(d, d.qps) {
		_ = q.w.control(func() { // an error says that the device is closed
			// RESET, where nothing is posted, has no way to ERR.
			_ = q.t.Modify(clock(), &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState, ibv.GID{}, ibv.GID{})
			q.w.activate(q)
		})
	}
}

// retryAll has every worker try again what a link that was down has stopped.
func (d *Device) retryAll() {
	for _, w := range d.workers {
		// An error says that the device is closed.
		_ = w.control(func() { w.retryAt = 0 })
	}
}

// countLinkDown counts a loss of the link, under the name that rxe gives it.
func (d *Device) countLinkDown() {
	w := d.workers[0]
	if w.acquire() == nil {
		w.env.Counters[transport.LinkDowned]++
		w.release(controller)
	}
}
