package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// flying wants n packets in flight, counted by the queue pair's worker.
func (r *reqRig) flying(n int) {
	r.Helper()
	if got := r.env.InFlight(); got != n {
		r.Errorf("%d packets are in flight, want %d", got, n)
	}
}

// The budget stops a queue pair as its window does: the last packet asks for an
// acknowledgement, and what that frees can be used again.
func TestReqBudget(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.Budget = 3
		r.send(4 * reqMTU)
		r.send(1)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B", "SEND_MIDDLE 2 256B A")
		r.stopped(reqBudget)
		r.flying(3)
		r.ack(0)
		r.flying(2)
		r.expect("SEND_LAST 3 256B A")
		if !r.qp.Throttled() {
			t.Error("not throttled with a work request in the ring")
		}
		r.ack(3)
		r.flying(0)
		r.expect("SEND_ONLY 4 1B A")
		r.stopped(reqIdle)
		r.flying(1)
		r.ack(4)
		r.flying(0)
	})
}

// What others have in flight counts, and so do those that wait before us.
func TestReqBudgetOfOthers(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.Budget, r.env.packets = 10, 8
		for range 3 {
			r.send(1)
		}
		r.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 1B A")
		r.stopped(reqBudget)
		r.env.packets -= 8 // those of the others were answered
		r.env.Queued = true
		r.expect()
		r.stopped(reqBudget)
		r.env.Queued = false
		r.expect("SEND_ONLY 2 1B A")
		r.stopped(reqIdle)
	})
}

// A READ counts as many packets as it has responses. It may exceed the budget,
// for it could never fit among many small requests.
func TestReqBudgetRead(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rd = 1 }, func(r *reqRig) {
		r.env.Budget = 4
		r.send(1)
		r.read(6 * reqMTU)
		r.send(1)
		r.expect("SEND_ONLY 0 1B A", "READ_REQUEST 1 [+0 1536] A")
		r.stopped(reqBudget)
		r.flying(7)
		r.ack(0)
		r.answer(1, 6*reqMTU, 0, 3)
		r.flying(3)
		r.expect("SEND_ONLY 7 1B A")
	})
}

// Whatever ends the queue pair gives back what it had in flight. A repetition
// does not: what was sent first may still be on its way.
func TestReqBudgetComesBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		do      func(r *reqRig)
		left    int
		sends   int // in the next round
		stopped reqState
	}{
		// Others may have timed out with it: one packet of each must do.
		{"timeout", func(r *reqRig) { r.pass(ackTimeoutUnit << 20) }, 2, 1, reqWindow},
		{"NAK", func(r *reqRig) { r.nak(1) }, 1, 2, reqBudget},
		{"RNR NAK", func(r *reqRig) { r.rnrNak(0, 1); r.pass(time.Second) }, 2, 2, reqBudget},
		{"error", func(r *reqRig) { r.qp.fail(r.now) }, 0, 0, reqIdle},
		{"reset", func(r *reqRig) {
			must(r, r.qp.Modify(r.now, &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
		}, 0, 0, reqIdle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				r.env.Budget = 2
				for range 4 {
					r.send(1)
				}
				r.poll()
				r.flying(2)
				tt.do(r)
				r.flying(tt.left)
				if n := len(r.poll()); n != tt.sends {
					t.Errorf("%d packets were sent, want %d", n, tt.sends)
				}
				r.stopped(tt.stopped)
				r.flying(min(2, 2*tt.sends))
			})
		})
	}
}

// What was forgotten does not count, whatever becomes of it, until its queue
// pair shows that it is alive.
func TestReqBudgetForgets(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.Budget = 4
		for range 9 {
			r.send(1)
		}
		r.poll()
		r.env.Forget()
		r.flying(0)
		r.ack(0)
		r.flying(3) // it is alive: the rest counts again
		r.env.Forget()
		r.poll()
		r.flying(4) // only what was sent since counts
		r.ack(0)
		r.flying(4)
		r.ack(1)
		r.flying(6)
		r.ack(7)
		r.flying(0)
		r.poll()
		r.flying(1)
		r.env.Forget()
		r.qp.fail(r.now)
		r.flying(0)
	})
}

// Datagrams and unreliable connections have nothing in flight.
func TestReqBudgetOneWay(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.env.Budget, r.env.Queued = 1, true
		for range 3 {
			r.send(1)
		}
		if got := len(r.poll()); got != 3 {
			t.Errorf("%d packets were sent, want 3", got)
		}
		r.flying(0)
	})
}

// A queue pair that shares its room with others than the worker's all looks at what
// these have in flight when it has timed out, and at nothing else.
func TestReqTimeoutInAFlightOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name      string
		own, all  Flight
		repeating int
	}{
		{"its own is full", Flight{Budget: 2}, Flight{}, 1},
		{"that of all is full", Flight{Budget: 100}, Flight{Budget: 2, packets: 2}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				own := tt.own
				r.qp.flight, r.env.Flight = &own, tt.all
				for range 4 {
					r.send(1)
				}
				r.poll()
				r.pass(ackTimeoutUnit << 20)
				if n := len(r.poll()); n != tt.repeating {
					t.Errorf("%d packets are repeated, want %d", n, tt.repeating)
				}
			})
		})
	}
}
