package transport

import "github.com/roce-xdp/roce-xdp/internal/psn"

// Parts of READs. What is missing of a READ is asked for by a request for that range
// of its responses. The specification lets a responder serve any part of a READ again,
// but some serve its end only, and rdma_rxe forgets what lies before the part that it
// served last. So of each READ request one part at a time is asked for, the first that
// is missing: what lies behind it waits. A responder that does not answer is
// asked for whole ends from then on.
//
// What lies before a part that was asked for must never be missing again: of each
// READ request the responses up to the first that is missing stay until their turn
// comes, whatever else is given up.

// noPSN is no PSN.
const noPSN = psn.PSN(1 << 24)

// mayPart reports whether the n responses of w from p on may be asked for now, and
// notes that they are.
func (r *requester) mayPart(w *sendWQE, p psn.PSN, n int) bool {
	if w.kind != kindRead {
		return true
	}
	f := &r.fix
	off := w.offset(p)
	chunk := w.first.Add(int(off - off%w.chunk))
	if p != r.una && (chunk == f.chunk || r.una.Sub(chunk) > 0) {
		return false
	}
	f.chunk = chunk
	if p == r.una && off+uint32(n) < w.chunkEnd(off) {
		f.part, f.partEnd = true, p.Add(n)
	}
	return true
}

// partAnswered takes notice that una has moved by a response.
func (r *requester) partAnswered() {
	if f := &r.fix; f.part && !r.una.Less(f.partEnd) {
		f.part = false
		f.ranges.yes()
	}
}

// reqPartRefused reports whether a part that was asked for, and is overdue, is taken
// for one that the responder does not serve. Then no more is kept than needs be, so
// that the end of the READ is asked for.
func (q *QP) reqPartRefused() bool {
	r := &q.req
	f := &r.fix
	if !f.part || !r.una.Less(f.partEnd) {
		return false
	}
	f.part = false
	if f.ranges.no(); f.ranges.try() {
		return false
	}
	q.releaseEnds()
	return true
}

// releaseEnds lets go of the responses of every READ request that lie behind the
// first that is missing.
func (q *QP) releaseEnds() {
	r := &q.req
	next := noPSN // the response of a READ request of which all before it is here
	q.leaveKept(&r.kept, func(p psn.PSN) bool {
		w := r.find(p)
		if w == nil || w.kind != kindRead {
			return true
		}
		if off := w.offset(p); off%w.chunk != 0 && p != next {
			return false
		}
		next = p.Next()
		return true
	})
}

// executed reports whether the responder is known to have the READ request that p
// is of: then a part of it may be asked for, else it must be the request again.
func (r *requester) executed(w *sendWQE, p psn.PSN) bool {
	return p.Less(r.acked) || w.kind == kindRead && w.offset(p)%w.chunk != 0
}
