package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// heldWQE is the receive work request in use: a private copy, made once. The
// element of the ring, which a client may overwrite at any time, is not read
// again and is given back when the request completes.
type heldWQE struct {
	held  bool
	wrid  uint64
	total uint32 // bytes of all entries
	sges  []heldSGE
	n     int    // entries in use
	cur   int    // entry that takes the next byte
	off   uint32 // bytes of it that are taken
}

type heldSGE struct {
	queue.SGE
	region *memory.Region // as found when the request was taken
}

func (w *heldWQE) init(elem int) {
	w.sges = make([]heldSGE, min(queue.RecvMaxSGE(elem), ibv.MaxSGE))
}

// rewind makes the request as good as new: the message that it was for has been
// abandoned.
func (w *heldWQE) rewind() { w.cur, w.off = 0, 0 }

// drop forgets the request. The region pointers go too, so that memory that has
// been deregistered is not held on to.
func (w *heldWQE) drop() {
	clear(w.sges[:w.n])
	w.held, w.n = false, 0
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
	return q.env.Mem.Access(g.LKey, q.cfg.PD, ibv.AccessLocalWrite, g.Addr+uint64(off), uint64(n))
}

// respReleaseWQE gives the element of the completed request back.
func (q *QP) respReleaseWQE() {
	q.resp.wqe.drop()
	q.resp.rq.Release(1)
}
