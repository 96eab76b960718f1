package transport_test

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// suffer has a fault happen to h.
func (h *worldHost) suffer(f worldFault) {
	h.note("fault %d, %d", f.kind, f.n)
	switch f.kind {
	case faultOutage:
		h.w.net.SetUp(h.n, simnet.Conditions{Drop: 1})
		h.w.after(f.long, func() { h.w.net.SetUp(h.n, h.up) })
	case faultCut:
		h.w.net.SetUp(h.n, simnet.Conditions{Drop: 1})
	case faultResizeCQ:
		h.resizeCQ(h.cqs[f.n%len(h.cqs)], 64<<(f.n%4))
	case faultResizeSRQ:
		[]*worldRecvs{h.srq, h.xsrq}[f.n%2].resize(1 << (f.n % 6))
	default:
		if len(h.qps) > 0 {
			h.qps[f.n%len(h.qps)].suffer(f)
		}
	}
	h.service()
	h.wake()
}

// resizeCQ gives a completion queue another ring, with what is in it.
func (h *worldHost) resizeCQ(cq *worldCQ, entries int) {
	for _, q := range h.qps { // so that something is in it, perhaps
		h.poll(q)
	}
	ring := h.w.ring(entries, queue.CQESize)
	n, _ := cq.cons.Avail()
	if raise, err := ResizeCQ(cq.cq, ring, entries); err == nil && !raise {
		cq.cons = queue.NewConsumer(ring)
	} else if n <= entries {
		h.w.failf("host %d: event %v, %v", h.n, raise, err)
	}
}

func (q *worldQP) modify(attr ibv.QPAttr, mask ibv.AttrMask) error {
	return q.qp.Modify(q.h.w.now, &attr, mask|ibv.QPAttrState, ibv.GID{}, ibv.GID{})
}

// suffer has a fault happen to one queue pair.
func (q *worldQP) suffer(f worldFault) {
	w := q.h.w
	switch state := q.qp.State(); {
	case state == ibv.QPStateReset || q.stopped:
	case f.kind == faultDrain && state == ibv.QPStateRTS:
		w.must(q.modify(ibv.QPAttr{State: ibv.QPStateSQD, EnSQDAsyncNotify: true}, ibv.QPAttrEnSQDAsyncNotify))
		q.draining = true
	case f.kind == faultStop:
		w.must(q.modify(ibv.QPAttr{State: ibv.QPStateErr}, 0))
		q.stopped = true
		q.left = min(q.left, 2) // which are flushed
	case f.kind == faultReset:
		q.h.service() // and so all that has completed is known
		w.must(q.modify(ibv.QPAttr{State: ibv.QPStateReset}, 0))
		q.stopped, q.closed = true, true
		for _, op := range q.ops[q.done:] {
			op.fail(q)
		}
		if q.recvs != nil {
			q.recvs.lost += len(q.recvs.posted)
		}
	}
}

// drained is the event SQ_DRAINED: the program goes on some time later.
func (q *worldQP) drained() {
	w := q.h.w
	if !q.draining {
		w.failf("%v: SQ_DRAINED out of the blue", q)
	}
	q.draining = false
	w.after(time.Duration(w.rnd.IntN(100))*time.Microsecond, func() {
		if q.qp.State() != ibv.QPStateSQD {
			return
		}
		if a := q.qp.Query(); a.SQDraining {
			w.failf("%v: draining after SQ_DRAINED", q)
		}
		w.must(q.modify(ibv.QPAttr{State: ibv.QPStateRTS}, 0))
		q.h.service()
		q.h.wake()
	})
}
