package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// heldWQE is the receive work request in use: a private copy, made once. The
// element of the ring, which a client may overwrite at any time, is not read
// again and is given back when the request completes; that of a shared queue, of
// which others take the next one, as soon as a packet has been accepted.
type heldWQE struct {
	held    bool
	claimed bool // of a shared queue: the element was given back
	wrid    uint64
	total   uint32 // bytes of all entries
	sges    []heldSGE
	n       int    // entries in use
	cur     int    // entry that takes the next byte
	off     uint32 // bytes of it that are taken
}

type heldSGE struct {
	queue.SGE
	region *memory.Region // as found when the request was taken
}

func (w *heldWQE) init(elem int) {
	w.sges = make([]heldSGE, min(queue.RecvMaxSGE(elem), ibv.MaxSGE))
}

// fit makes as many places as elements of that size have, of those that there are;
// no request is held.
func (w *heldWQE) fit(elem int) {
	w.sges = w.sges[:min(queue.RecvMaxSGE(elem), cap(w.sges))]
}

// rewind makes the request as good as new: the message that it was for has been
// abandoned.
func (w *heldWQE) rewind() { w.cur, w.off = 0, 0 }

// drop forgets the request. The region pointers go too, so that memory that has
// been deregistered is not held on to.
func (w *heldWQE) drop() {
	clear(w.sges[:w.n])
	w.held, w.claimed, w.n = false, false, 0
}

// load copies the element at slot and reports whether it is a possible one.
func (w *heldWQE) load(slot []byte) bool {
	var h queue.RecvWQE
	queue.GetRecv(slot, &h)
	w.held, w.wrid = true, h.WRID
	w.n, w.cur, w.off, w.total = 0, 0, 0, h.Length
	if int(h.NumSGE) > len(w.sges) {
		return false
	}
	sum := uint64(0)
	for i := range int(h.NumSGE) {
		w.sges[i] = heldSGE{SGE: queue.RecvSGE(slot, i)}
		sum += uint64(w.sges[i].Length)
	}
	w.n = int(h.NumSGE)
	return sum == uint64(h.Length)
}

// respTakeWQE copies the next posted receive work request, unless an abandoned
// message has left one. For a SEND its entries are checked now, all of them,
// before a byte is placed; a WRITE with immediate does not use them.
func (q *QP) respTakeWQE(x *respPacket) respState {
	r := &q.resp
	if r.rq == nil {
		return respErrRNR
	}
	n, ok := r.rq.Avail()
	switch {
	case !ok:
		return respErrCorrupt
	case r.wqe.held:
	case n == 0:
		if r.srq != nil {
			r.srq.watch(q.env)
		}
		return respErrRNR
	case !r.wqe.load(r.rq.Slot(0)):
		return respErrMalformedWQE
	}
	if x.p.Info.Write {
		return respChkLength
	}
	for i := range r.wqe.n {
		g := &r.wqe.sges[i]
		if g.Length == 0 {
			continue
		}
		if g.region, ok = q.respLocal(g, 0, g.Length); !ok {
			return respErrLKey
		}
	}
	x.fresh = true
	return respChkLength
}

// respLocal is the region of n bytes at offset off of entry g.
func (q *QP) respLocal(g *heldSGE, off, n uint32) (*memory.Region, bool) {
	pd := q.cfg.PD
	if s := q.resp.srq; s != nil {
		pd = s.pd
	}
	return q.env.Mem.Access(g.LKey, pd, ibv.AccessLocalWrite, g.Addr+uint64(off), uint64(n))
}

// respClaim takes the request in use from a shared queue for good: the message is
// this queue pair's now, however it ends.
func (q *QP) respClaim() {
	w := &q.resp.wqe
	if q.resp.srq == nil || !w.held || w.claimed {
		return
	}
	w.claimed = true
	q.resp.srq.take(q.env)
}

// respUnclaim leaves a request that was looked at, but not claimed, to whoever
// takes the next one of a shared queue.
func (q *QP) respUnclaim() {
	if w := &q.resp.wqe; q.resp.srq != nil && w.held && !w.claimed {
		w.drop()
	}
}

// respReleaseWQE gives the element of the completed request back.
func (q *QP) respReleaseWQE() {
	q.resp.wqe.drop()
	if q.resp.srq == nil {
		q.resp.rq.Release(1)
	}
}
