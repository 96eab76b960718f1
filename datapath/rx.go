package datapath

import (
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// receive takes what has come in, from this device's own queue pairs, from other
// workers and from the port, and runs it. It reports whether there was anything.
func (w *worker) receive(now mono.Time) bool {
	did := w.takeBack()
	if len(w.loop) != 0 {
		did = true
		// What these frames cause to be looped back is for the next round.
		w.loop, w.loopNext = w.loopNext[:0], w.loop
		for i := range w.loopNext {
			w.frame(now, w.loopNext[i:i+1])
		}
	}
	if w.inbox.Load() != 0 {
		did = w.takeHanded(now) || did
	}
	n := w.port.Receive(w.descs)
	w.rxMore, w.received = n >= batchSize, n
	if n != 0 {
		did = true
		w.frames(now, w.descs[:n])
		w.unfilled += n
	}
	if w.unfilled != 0 {
		w.refill()
	}
	return did
}

// frames runs the frames that descs describe.
func (w *worker) frames(now mono.Time, descs []xsk.Desc) {
	start := 0
	for i := range descs {
		if descs[i].Options&xsk.Continued == 0 {
			w.frame(now, descs[start:i+1])
			start = i + 1
		}
	}
	if start < len(descs) { // a frame longer than a whole batch
		w.discard(descs[start:], wire.DropSegments)
	}
}

// frame runs one frame and frees its memory, unless another worker takes it over
// or its queue pair keeps it.
func (w *worker) frame(now mono.Time, descs []xsk.Desc) {
	if len(descs) > wire.MaxSegments {
		w.discard(descs, wire.DropSegments)
		return
	}
	segs := w.segs[:len(descs)]
	for i := range descs {
		if segs[i] = w.bytes(descs[i]); segs[i] == nil {
			w.count(ctrBadDescriptor)
			w.freeAll(descs)
			return
		}
	}
	if len(w.dev.workers) > 1 {
		if t := w.dev.workerOf(segs[0]); t != nil && t != w {
			w.handOver(t, descs)
			return
		}
	}
	p := &w.pkt
	var reason wire.DropReason
	if descs[0].Options&alsoSent == 0 {
		reason = p.Parse(segs...)
	} else {
		reason = p.ParseReadOnly(segs...)
	}
	if reason != wire.Accept {
		w.discard(descs, reason)
		return
	}
	dest := p.Hdr().DestQP()
	q := w.dev.table.get(dest)
	if q == nil || q.w != w {
		if dest == wire.MulticastQP {
			w.multicast(now, descs)
			return
		}
		w.count(ctrUnknownQPN)
		w.freeAll(descs)
		return
	}
	if p.VLAN|p.OuterVLAN != 0 && !w.dev.tagFits(q, p) {
		w.count(ctrVLAN)
		w.freeAll(descs)
		return
	}
	q.flush.hear(p)
	keep := w.deliver(now, q, descs)
	w.activate(q)
	if !keep {
		w.freeAll(descs)
	}
}

// deliver gives the packet, whose frame is descs, to its queue pair and reports
// whether that keeps it.
func (w *worker) deliver(now mono.Time, q *qp, descs []xsk.Desc) (keep bool) {
	if home, ok := w.dev.share.home(w.id, descs[0].Addr); ok && w.kept.takes(q.keeper, home, len(descs)) {
		w.pkt.Ref = w.kept.next()
		if keep = q.t.HandlePacket(now, &w.pkt) == transport.Keep; keep {
			w.kept.hold(q.keeper, home, descs)
		}
		return keep
	}
	budget := w.env.KeepBudget
	w.env.KeepBudget = 0
	_ = q.t.HandlePacket(now, &w.pkt) // nothing is kept without a budget
	w.env.KeepBudget = budget
	return false
}

// bytes are the bytes of a descriptor, nil if it reaches outside of the memory.
// A slot to send from is several frames long, so frames do not bound it.
func (w *worker) bytes(d xsk.Desc) []byte {
	end := d.Addr + uint64(d.Len)
	if end > uint64(len(w.mem)) || end < d.Addr {
		return nil
	}
	return w.mem[d.Addr:end:end]
}

// discard drops a frame for a reason of its own.
func (w *worker) discard(descs []xsk.Desc, reason wire.DropReason) {
	w.drops[reason]++
	w.freeAll(descs)
}

func (w *worker) freeAll(descs []xsk.Desc) {
	for i := range descs {
		w.free(descs[i].Addr)
	}
}

// free gives a buffer back to the worker that it belongs to.
func (w *worker) free(addr uint64) {
	s := &w.dev.share
	off := addr - uint64(w.id)*s.perWorker
	switch {
	case off < s.rxBytes:
		w.rx.Put(addr)
	case off < s.perWorker:
		w.tx.done(addr)
	default:
		w.giveBack(addr)
	}
}

// refill lends free frames to the port, as many as it has room for.
func (w *worker) refill() {
	for w.unfilled != 0 {
		n := w.rx.Get(w.addrs[:min(w.unfilled, len(w.addrs))])
		taken := w.port.Fill(w.addrs[:n])
		w.rx.PutAll(w.addrs[taken:n])
		w.unfilled -= taken
		if taken < len(w.addrs) {
			break
		}
	}
	// Other workers have the frames that are wanting: their return must wake
	// this worker, to which nothing comes in meanwhile.
	if short := w.unfilled != 0 && len(w.dev.workers) > 1; short != w.giveFlag {
		w.giveFlag = short
		w.hungry.Store(short)
	}
	if w.port.NeedFillWakeup() {
		if err := w.port.WakeFill(); err != nil {
			w.count(ctrFillErrors)
		}
	}
}
