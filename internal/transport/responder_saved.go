package transport

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// savedFlags describe a saved result.
type savedFlags uint8

const (
	savedValid   savedFlags = 1 << iota // the slot has been used
	savedPending                        // a response is to be sent
	savedStarted                        // READ: the first response of this round was sent
	savedAgain                          // the last response answered a duplicate
	savedCredit                         // it counts against the peer's limit until it is answered
)

// savedResult is a READ, atomic, FLUSH or ATOMIC WRITE that was accepted: what
// its response needs, and what a duplicate of it is answered with (IBTA vol. 1,
// 9.7.5.1.4). Like responderState it has a fixed layout and no pointers.
type savedResult struct {
	va    uint64
	orig  uint64  // atomics: the word before the operation; READ: the protection domain
	first psn.PSN // of the request
	count uint32  // PSNs that it uses
	rkey  uint32
	size  uint32 // READ: bytes of the request
	from  uint32 // READ: offset at which this round of responses begins
	pos   uint32 // READ: offset of the next response
	stop  uint32 // READ: offset at which this round ends
	op    wire.Opcode
	flags savedFlags
	_     [2]byte
}

func (s *savedResult) has(f savedFlags) bool { return s.flags&f != 0 }

// The ring of saved results remembers the newest requests, those that are still
// to be answered among them. It has twice the places that the peer may use,
// so that FLUSHes, which take no credit, find room between them.

// respLimit is how many READs and atomics the peer may have outstanding: the
// number agreed, rounded up to a power of two because rdma_rxe as requester
// does so.
func (q *QP) respLimit() uint32 {
	n := uint32(q.attr.MaxDestRDAtomic)
	if n == 0 {
		return 0
	}
	return 1 << bits.Len32(n-1)
}

// growSaved makes the ring hold want results, a power of two, and keeps those it
// has. It allocates when the limit has grown: with the first request of a
// connection that needs it, for few connections ever get one.
func (r *responder) growSaved(want uint32) {
	old := uint32(len(r.saved))
	if old >= want {
		return
	}
	ring := make([]savedResult, want)
	for i := r.st.savedNext - old; i != r.st.savedNext; i++ {
		ring[i&(want-1)] = *r.slot(i)
	}
	r.saved = ring
}

func (r *responder) slot(i uint32) *savedResult { return &r.saved[i&uint32(len(r.saved)-1)] }

// respRoom reports whether the next place of the ring is free. The answer to a
// duplicate so old that nobody can still wait for it makes way.
func (q *QP) respRoom() bool {
	q.resp.growSaved(2 * max(q.respLimit(), 1))
	s := q.resp.slot(q.resp.st.savedNext)
	if s.has(savedPending) && s.has(savedAgain) {
		q.respServed(s) // the oldest place, so the one at serve
	}
	return !s.has(savedPending)
}

// respCredit reports whether the peer may have one more READ or atomic.
func (q *QP) respCredit() bool {
	return q.resp.st.pending < q.respLimit() && q.respRoom()
}

// respSave takes the next place for the request x, to be answered.
func (q *QP) respSave(x *respPacket, flags savedFlags) *savedResult {
	r := &q.resp
	q.respDue(x.now)
	s := r.slot(r.st.savedNext)
	r.st.savedNext++
	if flags&savedCredit != 0 {
		r.st.pending++
	}
	*s = savedResult{first: x.psn, count: 1, op: x.p.Opcode, flags: savedValid | savedPending | flags}
	return s
}

// respFind is the index of the saved request that used PSN p, newest first.
func (q *QP) respFind(p psn.PSN) (i uint32, ok bool) {
	r := &q.resp
	for n := range uint32(len(r.saved)) {
		i = r.st.savedNext - 1 - n
		s := r.slot(i)
		if !s.has(savedValid) {
			return 0, false
		}
		if p.In(s.first, int(s.count)) {
			return i, true
		}
	}
	return 0, false
}

// respAgain has the saved request i answered once more. Responses that were
// under way for later requests start over after it, so that PSNs keep rising.
func (q *QP) respAgain(x *respPacket, i uint32) {
	r := &q.resp
	q.respDue(x.now)
	s := r.slot(i)
	s.flags &^= savedStarted
	if !s.has(savedPending) {
		s.flags |= savedPending | savedAgain
	}
	if r.st.savedNext-i > r.st.savedNext-r.st.serve {
		r.st.serve = i
	}
	for j := i + 1; j != r.st.savedNext; j++ {
		if l := r.slot(j); l.has(savedPending) {
			l.pos = l.from
			l.flags &^= savedStarted
		}
	}
}

// respServed ends the responses of the saved request s at serve and finds the
// next one to answer.
func (q *QP) respServed(s *savedResult) {
	q.respUnsave(s)
	q.respNextServe()
}

// respUnsave takes s off the requests to be answered; it stays remembered.
func (q *QP) respUnsave(s *savedResult) {
	if s.has(savedCredit) {
		q.resp.st.pending--
	}
	s.flags &= savedValid | savedAgain
}

func (q *QP) respNextServe() {
	st := &q.resp.st
	for st.serve != st.savedNext && !q.resp.slot(st.serve).has(savedPending) {
		st.serve++
	}
}

// respCancel gives up the responses of all requests.
func (q *QP) respCancel() {
	q.respClearPatches()
	for st := &q.resp.st; st.serve != st.savedNext; st.serve++ {
		if s := q.resp.slot(st.serve); s.has(savedPending) {
			q.respUnsave(s)
		}
	}
}
