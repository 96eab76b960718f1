package datapath

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// What all queue pairs have in flight together stays below half of a ring, so
// that it finds frames to be received into at a peer with rings like ours. They
// share it as they need it: an idle connection takes nothing from the others.

// setConnected says whether q may have packets in flight.
func (d *Device) setConnected(q *qp, connected bool) {
	d.mu.Lock()
	if q.connected == connected {
		d.mu.Unlock()
		return
	}
	q.connected = connected
	n := 1
	if !connected {
		n = -1
	}
	d.connected += n
	q.w.connected += n
	d.mu.Unlock()
	d.setWindows()
}

// setWindows applies the limits that follow from the number of connections and
// the size of packets.
func (d *Device) setWindows() {
	d.windowing.Lock() // whoever computes last also applies last
	defer d.windowing.Unlock()
	for _, w := range d.workers {
		d.mu.Lock()
		l := d.limits(w)
		d.mu.Unlock()
		if w.limits == l {
			continue
		}
		w.limits = l
		err := w.control(func() {
			w.env.Window, w.budget, w.env.KeepBudget = l.window, l.budget, l.keep
			w.divide()
		})
		if err != nil {
			return
		}
	}
}

// limits are those of a worker, in packets.
type limits struct {
	window, budget int // in flight of one queue pair, and of all
	keep           int // out of order, of one queue pair
}

// limits computes those of w. The device's lock is held.
func (d *Device) limits(w *worker) limits {
	buffers := 1 // that a full packet is received into
	if d.activeMTU().Bytes()+maxFrame-ibv.MTU4096.Bytes() > d.umem.RxCapacity() {
		buffers = (maxFrame + d.umem.RxCapacity() - 1) / d.umem.RxCapacity()
	}
	budget := d.opts.RingSize / 2 / buffers
	if d.connected > 0 && len(d.workers) > 1 {
		budget = max(minWindow, budget*w.connected/d.connected)
	}
	return limits{
		window: min(d.opts.Window, budget), budget: budget,
		keep: min(d.opts.KeepBudget, d.opts.Frames/keptPart/buffers),
	}
}
