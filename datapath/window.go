package datapath

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// What all queue pairs have in flight together stays below half of a ring, so
// that it finds frames to be received into at a peer with rings like ours: with
// more connections each has a smaller window.

// setConnected says whether q may have packets in flight.
func (d *Device) setConnected(q *qp, connected bool) {
	d.mu.Lock()
	if q.connected == connected {
		d.mu.Unlock()
		return
	}
	q.connected = connected
	if connected {
		d.connected++
	} else {
		d.connected--
	}
	d.mu.Unlock()
	d.setWindows()
}

// setWindows applies the limits that follow from the number of connections and
// the size of packets.
func (d *Device) setWindows() {
	d.windowing.Lock() // whoever computes last also applies last
	defer d.windowing.Unlock()
	d.mu.Lock()
	window, keep := d.windows()
	d.mu.Unlock()
	for _, w := range d.workers {
		if w.acquire() != nil {
			return
		}
		w.env.Window, w.env.KeepBudget = window, keep
		w.release(controller)
	}
}

// windows computes the limits. The device's lock is held.
func (d *Device) windows() (window, keep int) {
	n := max(d.connected, 1)
	buffers := 1 // that a full packet is received into
	if d.activeMTU().Bytes()+maxFrame-ibv.MTU4096.Bytes() > d.umem.RxCapacity() {
		buffers = (maxFrame + d.umem.RxCapacity() - 1) / d.umem.RxCapacity()
	}
	window = min(d.opts.Window, max(minWindow, d.opts.RingSize/2/buffers/n))
	keep = min(d.opts.KeepBudget, d.opts.Frames/4/buffers/n)
	return window, keep
}
