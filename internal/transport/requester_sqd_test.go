package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// sqd moves the queue pair to SQD as Modify does.
func (r *reqRig) sqd(notify bool) {
	r.qp.state, r.qp.draining, r.qp.attr.EnSQDAsyncNotify = ibv.QPStateSQD, true, notify
}

// drained wants n SQ_DRAINED events so far.
func (r *reqRig) drained(n int) {
	r.Helper()
	got := 0
	for _, e := range r.env.Events {
		if e.Type == ibv.EventSQDrained && e.QP == r.qp {
			got++
		}
	}
	if got != n {
		r.Fatalf("%d SQ_DRAINED events, want %d", got, n)
	}
	if r.qp.reqDrained() != (n > 0) {
		r.Fatalf("reqDrained is %v", r.qp.reqDrained())
	}
}

// The message that has begun is finished and repeated if need be; the next one
// waits.
func TestReqSQDFinishesTheCurrentMessage(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch = 2 }, func(r *reqRig) {
		r.send(3 * reqMTU)
		r.send(1)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B A")
		r.sqd(true)
		r.expect("SEND_LAST 2 256B A")
		r.stopped(reqDrain)
		r.drained(0)
		r.nak(2)
		r.expect("SEND_LAST 2 256B A")
		r.drained(0)
		r.ack(2)
		r.drained(1)
		r.expect()
		r.drained(1)
		r.done("1 SUCCESS")
		r.qp.state = ibv.QPStateRTS
		r.expect("SEND_ONLY 3 1B A")
		r.ack(3)
		r.done("2 SUCCESS")
	})
}

func TestReqSQDWithNothingOutstanding(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.sqd(true)
		r.send(1)
		r.expect()
		r.stopped(reqDrain)
		r.drained(1)
		r.expect()
		r.drained(1)
	})
}

func TestReqSQDWithoutNotification(t *testing.T) {
	r := newReqRig(t, reqDefaults())
	r.sqd(false)
	r.expect()
	if len(r.env.Events) != 0 || !r.qp.reqDrained() {
		t.Errorf("events %v, drained %v", r.env.Events, r.qp.reqDrained())
	}
}

// A request that was taken from the ring but held back by a credit has not
// begun.
func TestReqSQDHoldsWhatHasNotBegun(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rd = 1 }, func(r *reqRig) {
		r.read(4)
		r.read(4)
		r.expect("READ_REQUEST 0 [+0 4] A")
		r.stopped(reqCredit)
		r.sqd(true)
		r.answer(0, 4, 0, 1)
		r.drained(1)
		r.expect()
		r.stopped(reqDrain)
		// max_rd_atomic may change here; none means that it can never be sent.
		r.qp.attr.MaxRDAtomic = 0
		r.qp.state = ibv.QPStateRTS
		r.expect()
		r.done("1 SUCCESS 4B", "2 LOC_QP_OP_ERR")
		r.inState(ibv.QPStateErr)
	})
}

// A long READ goes on to its end.
func TestReqSQDFinishesARead(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rd, c.window = 1, 2 }, func(r *reqRig) {
		const n = 4 * reqMTU
		r.read(n)
		r.expect("READ_REQUEST 0 [+0 512] A")
		r.sqd(true)
		r.serve(n, 0, 2)
		r.expect("READ_REQUEST 2 [+512 512] A")
		r.drained(0)
		r.serve(n, 2, 4)
		r.drained(1)
		r.done("1 SUCCESS 1024B")
	})
}
