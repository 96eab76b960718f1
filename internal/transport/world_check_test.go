package transport_test

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// checkEnd is what must be true when all programs have ended and nothing is under
// way any more.
func (w *world) checkEnd() {
	for _, h := range w.hosts {
		for _, q := range h.qps {
			q.checkState()
			q.checkArea()
			q.checkKeys()
			q.checkWritten()
		}
		h.checkAdds()
		h.checkLocks(w.answered(h))
		h.checkCounters()
		h.checkKept()
	}
}

// checkKept wants that no frame is kept whose turn has come, or has passed: there
// is none else when all that the peer has asked for is done.
func (h *worldHost) checkKept() {
	for ref, q := range h.keepers {
		if q.peer.failed == ibv.WCSuccess && !q.peer.closed {
			h.w.failf("%v: has had all requests, and keeps frame %d", q, ref)
		}
	}
}

// answered reports whether every atomic on words of h has had its answer.
func (w *world) answered(h *worldHost) bool {
	for _, q := range h.qps {
		if q.peer.closed || q.peer.failed != ibv.WCSuccess {
			return false
		}
	}
	return true
}

// checkState compares the state with what the queue pair has been through.
func (q *worldQP) checkState() {
	want := ibv.QPStateRTS
	switch {
	case q.closed:
		want = ibv.QPStateReset
	case q.stopped, q.reliable() && q.failed != ibv.WCSuccess, q.spoiled != ibv.WCSuccess:
		want = ibv.QPStateErr
	case q.refuses() && q.qp.State() == ibv.QPStateErr:
		want = ibv.QPStateErr
	case !q.reliable() && q.failed != ibv.WCSuccess:
		want = ibv.QPStateSQE // the program has nothing more to post
	}
	if got := q.qp.State(); got != want {
		q.h.w.failf("%v: ends in %v, want %v", q, got, want)
	}
	if d := q.qp.NextDeadline(); d != mono.Never {
		q.h.w.failf("%v: idle, but due in %v", q, d.Sub(q.h.w.now))
	}
	// Both ends have the same view of what has arrived.
	if q.reliable() && !q.dead() && !q.peer.dead() && q.arrived != len(q.inbox) {
		q.h.w.failf("%v: has received %d of %d messages", q, q.arrived, len(q.inbox))
	}
}

// checkWritten wants that WRITEs of a service that may lose them have written what
// they were to write, or left bytes alone.
func (q *worldQP) checkWritten() {
	if q.reliable() {
		return
	}
	m := &q.peer.h.mem
	for _, op := range q.ops {
		for i, b := range op.change {
			if at := op.at.off + i; m.bytes[at] == b {
				m.want[at] = b
			}
		}
	}
}

// checkCounters compares what the engine has counted with what the driver has
// seen.
func (h *worldHost) checkCounters() {
	c := &h.env.Counters
	if c[SentPkts] != h.sent || c[RcvdPkts] != h.arrived-h.refused {
		h.w.failf("host %d: counts %d packets sent and %d received, want %d and %d", h.n, c[SentPkts], c[RcvdPkts], h.sent, h.arrived-h.refused)
	}
	for _, k := range []Counter{DropPeer, DropPKey, DropOpcode, DropResponse, DropSyndrome, PayloadFault, AddressFault, DropQKey, DropLength, DropInvalidate, DropFlushOverrun} {
		if c[k] != 0 {
			h.w.failf("host %d: %v is %d", h.n, k, c[k])
		}
	}
	up, down := h.w.net.Up(h.n), h.w.net.Down(h.n)
	if up.Sent != h.sent || down.Delivered != h.arrived || down.Sent+down.Duplicated != down.Delivered+down.Dropped+down.Overflowed {
		h.w.failf("host %d: the network has %+v up and %+v down, the host has sent %d and received %d", h.n, up, down, h.sent, h.arrived)
	}
	if n := h.env.InFlight(); n != 0 {
		h.w.failf("host %d: idle, but %d packets are unacknowledged", h.n, n)
	}
}

// tearDown ends all queue pairs: everything that was ever posted has had its
// completion then, no frame is kept, and no byte of memory is other than it must
// be.
func (w *world) tearDown() {
	for _, h := range w.hosts {
		for _, q := range h.qps {
			if !q.closed {
				w.must(q.modify(ibv.QPAttr{State: ibv.QPStateErr}, 0))
				q.stopped = true
			}
		}
		for _, q := range h.qps { // what is posted now is flushed too
			if q.sq != nil && !q.closed && q.sq.FreeNow() > 0 {
				q.post(ibv.WRSend, false)
			}
		}
		for _, s := range h.queues() {
			if s.srq == nil && !s.users[0].closed && s.prod.FreeNow() > 0 {
				s.post()
			}
		}
		h.service()
		if len(h.frames) != 0 {
			w.failf("host %d: %d frames are kept for nobody", h.n, len(h.frames))
		}
		for _, q := range h.qps {
			if !q.closed && q.done != len(q.ops) {
				w.failf("%v: something has no completion", q)
			}
		}
		for _, s := range h.queues() {
			s.check()
		}
	}
	for _, h := range w.hosts {
		h.mem.check(h.n)
	}
}
