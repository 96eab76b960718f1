package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

func onUC(c *reqConfig)  { c.typ = ibv.QPTypeUC }
func onUD(c *reqConfig)  { c.typ = ibv.QPTypeUD }
func onGSI(c *reqConfig) { c.typ = ibv.QPTypeGSI }

func newReqRigOn(t testing.TB, change func(*reqConfig)) *reqRig {
	t.Helper()
	c := reqDefaults()
	change(&c)
	return newReqRig(t, c)
}

// oneWayEach runs f on UC and UD.
func oneWayEach(t *testing.T, change func(*reqConfig), f func(*reqRig)) {
	for _, on := range []func(*reqConfig){onUC, onUD} {
		c := reqDefaults()
		on(&c)
		t.Run(c.typ.String(), func(t *testing.T) {
			if change != nil {
				change(&c)
			}
			f(newReqRig(t, c))
		})
	}
}

// sent polls, and leaves what was sent to other tests.
func (r *reqRig) sent(n int) {
	r.Helper()
	if got := r.poll(); len(got) != n {
		r.Fatalf("sent %d packets, want %d: %q", len(got), n, got)
	}
}

// toRTS makes the transition from SQE as a program does.
func (r *reqRig) toRTS() {
	r.Helper()
	attr := ibv.QPAttr{State: ibv.QPStateRTS}
	must(r, r.qp.Modify(r.now, &attr, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
}

func TestUCMessages(t *testing.T) {
	reqEach(t, onUC, func(r *reqRig) {
		r.send(0)
		r.send(reqMTU)
		r.send(reqMTU + 1)
		r.wr(ibv.WRSendWithImm, 3*reqMTU)
		r.write(2*reqMTU + 3)
		r.wr(ibv.WRRDMAWriteWithImm, 2*reqMTU)
		r.wr(ibv.WRRDMAWriteWithImm, 5)
		r.expect(
			"SEND_ONLY 0", "SEND_ONLY 1 256B", "SEND_FIRST 2 256B", "SEND_LAST 3 1B",
			"SEND_FIRST 4 256B", "SEND_MIDDLE 5 256B", "SEND_LAST_WITH_IMMEDIATE 6 256B",
			"WRITE_FIRST 7 [+0 515] 256B", "WRITE_MIDDLE 8 256B", "WRITE_LAST 9 3B",
			"WRITE_FIRST 10 [+0 512] 256B", "WRITE_LAST_WITH_IMMEDIATE 11 256B", "WRITE_ONLY_WITH_IMMEDIATE 12 [+0 5] 5B")
		if got := append(r.payload(7), append(r.payload(8), r.payload(9)...)...); !bytes.Equal(got, reqPattern[:515]) {
			r.Error("payload is not what the work request names")
		}
		r.expect()
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS", "6 SUCCESS", "7 SUCCESS")
	})
}

func TestUCCompletesWithItsLastPacket(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.typ, c.batch = ibv.QPTypeUC, 2 }, func(r *reqRig) {
		r.send(3 * reqMTU)
		r.send(1)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B")
		r.expect("SEND_LAST 2 256B", "SEND_ONLY 3 1B")
		r.done()
		r.expect()
		r.done("1 SUCCESS", "2 SUCCESS")
		r.counted(RDMASends, 2)
	})
}

// The payload of a batch is read after Poll, so what it has completes with the
// next one, which is due at once.
func TestOneWayCompletesWhenLaidOut(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.sent(0)
		r.deadline(0)
		r.send(10)
		r.tx.Reset(r.batch)
		if more := r.qp.Poll(r.now, r.tx); !more || r.qp.NextDeadline() != r.now {
			t.Errorf("more %v, due at %d; now is %d", more, r.qp.NextDeadline(), r.now)
		}
		r.done()
		r.tx.Reset(0)
		if r.qp.Poll(r.now, r.tx) {
			t.Error("there is more to send")
		}
		r.done("1 SUCCESS")
		r.deadline(0)
	})
}

// There is no acknowledgement that would move a window or end a timeout.
func TestOneWayHasNoWindowAndNoTimer(t *testing.T) {
	oneWayEach(t, func(c *reqConfig) { c.window = 1 }, func(r *reqRig) {
		for range 10 {
			r.send(1)
		}
		r.sent(10)
		r.sent(0)
		r.deadline(0)
		r.counted(SentPkts, 10)
		r.counted(SentBytes, 10)
	})
}

func TestOneWaySignals(t *testing.T) {
	oneWayEach(t, func(c *reqConfig) { c.unsigned = true }, func(r *reqRig) {
		r.send(1)
		r.post(r.hdr(ibv.WRSend, ibv.SendSignaled|ibv.SendFence))
		r.send(1)
		r.sent(3) // the fence has nothing to wait for
		r.sent(0)
		r.done("2 SUCCESS")
		if n := r.sq.FreeNow(); n != r.reqConfig.wr {
			r.Errorf("%d places are free", n)
		}
	})
	oneWayEach(t, func(c *reqConfig) { c.unsigned, c.sigAll = true, true }, func(r *reqRig) {
		r.send(1)
		r.send(1)
		r.sent(2)
		r.sent(0)
		r.done("1 SUCCESS", "2 SUCCESS")
	})
}

func TestOneWaySolicitsWithTheLastPacket(t *testing.T) {
	r := newReqRigOn(t, onUC)
	w := r.hdr(ibv.WRSend, ibv.SendSolicited)
	w.NumSGE, w.Length = 1, reqMTU+1
	r.post(w, r.sge(0, reqMTU+1))
	r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 1B SE")
}

func TestOneWayInline(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		w := r.hdr(ibv.WRSend, ibv.SendInline)
		w.Length = 5
		slot := r.sq.Slot(0)
		copy(queue.SendInline(slot), "hello")
		r.post(w)
		r.sent(1)
		if got := r.payload(0); string(got) != "hello" {
			r.Errorf("sent %q", got)
		}
	})
}

// Operations that the transport service does not have, and what follows: the
// send queue is flushed, the queue pair goes to SQE.
func TestOneWayRefusesOperations(t *testing.T) {
	other := []ibv.WROpcode{
		ibv.WRRDMARead, ibv.WRAtomicCmpAndSwp, ibv.WRAtomicFetchAdd, ibv.WRSendWithInv, ibv.WRAtomicWrite, ibv.WRFlush,
		ibv.WRLocalInv, ibv.WRBindMW, 10, 11, 16, 255,
	}
	oneWayEach(t, nil, func(r *reqRig) {
		ops := other
		if r.typ == ibv.QPTypeUD {
			ops = append([]ibv.WROpcode{ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm}, ops...)
		}
		for _, op := range ops {
			r.id = 0
			r.send(1)
			r.wr(op, 8)
			r.send(1)
			r.sent(1)
			r.done()
			r.sent(0)
			r.done("1 SUCCESS", "2 LOC_QP_OP_ERR", "3 WR_FLUSH_ERR")
			r.inState(ibv.QPStateSQE)
			r.toRTS()
		}
	})
}

func TestOneWayRefusesLocalErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(*reqRig, *queue.SendWQE, *queue.SGE)
		want string
	}{
		"wrong key":        {func(_ *reqRig, _ *queue.SendWQE, s *queue.SGE) { s.LKey ^= 1 }, "1 LOC_PROT_ERR"},
		"out of range":     {func(r *reqRig, _ *queue.SendWQE, s *queue.SGE) { s.Addr = r.va(reqBytes - 7) }, "1 LOC_PROT_ERR"},
		"wrong length":     {func(_ *reqRig, w *queue.SendWQE, _ *queue.SGE) { w.Length++ }, "1 LOC_QP_OP_ERR"},
		"too many entries": {func(_ *reqRig, w *queue.SendWQE, _ *queue.SGE) { w.NumSGE = 5 }, "1 LOC_QP_OP_ERR"},
	} {
		t.Run(name, func(t *testing.T) {
			oneWayEach(t, nil, func(r *reqRig) {
				w, s := r.hdr(ibv.WRSend, 0), r.sge(0, 8)
				w.NumSGE, w.Length = 1, 8
				tt.set(r, &w, &s)
				r.post(w, s)
				r.expect()
				r.done(tt.want)
				r.inState(ibv.QPStateSQE)
			})
		})
	}
}

// The driver finds that the memory of the second of three is gone.
func TestOneWayPayloadFault(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.send(1)
		r.send(1)
		r.sent(3)
		r.qp.PayloadFault(r.now, &r.tx.Intents[1])
		r.done("1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR")
		r.inState(ibv.QPStateSQE)
		r.qp.PayloadFault(r.now, &r.tx.Intents[2]) // it is over
		r.done()
		r.counted(PayloadFault, 2)
	})
}

// Of a message that fails half-way the packets before have been sent.
func TestUCMemoryGoesAway(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.typ, c.batch = ibv.QPTypeUC, 2 }, func(r *reqRig) {
		r.send(1)
		r.send(3 * reqMTU)
		r.send(1)
		r.expect("SEND_ONLY 0 1B", "SEND_FIRST 1 256B")
		must(r, r.env.Mem.Deregister(r.mr))
		r.expect()
		r.done("1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR")
		r.inState(ibv.QPStateSQE)
	})
}

// The failure of the second message shows while the first is in the batch.
func TestOneWayFailsInOrder(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.wr(ibv.WRSend, 1, queue.SGE{Addr: r.va(0), Length: 1, LKey: 1})
		r.sent(1)
		r.done()
		r.inState(ibv.QPStateRTS)
		r.sent(0)
		r.done("1 SUCCESS", "2 LOC_PROT_ERR")
		r.inState(ibv.QPStateSQE)
	})
}

// In SQE all that is posted is flushed; PSNs go on where they were.
func TestOneWayAfterSQE(t *testing.T) {
	for _, on := range []func(*reqConfig){onUC, onUD, onGSI} {
		reqEach(t, on, func(r *reqRig) {
			r.send(1)
			r.wr(ibv.WRRDMARead, 1)
			r.sent(1)
			r.sent(0)
			r.done("1 SUCCESS", "2 LOC_QP_OP_ERR")
			r.inState(ibv.QPStateSQE)
			r.deadline(0)
			r.send(1)
			r.expect()
			r.done("3 WR_FLUSH_ERR")
			r.send(1) // before the transition: flushed by it
			r.toRTS()
			r.done("4 WR_FLUSH_ERR")
			r.send(1)
			r.sent(1)
			if got := r.tx.Intents[0].PSN.Sub(r.start); got != 1 {
				r.Errorf("PSN %d from the start, want 1", got)
			}
			r.sent(0)
			r.done("5 SUCCESS")
			r.inState(ibv.QPStateRTS)
		})
	}
}

// A completion queue that has no room for the flush ends the receive queue too.
func TestOneWayOverflowInSQE(t *testing.T) {
	oneWayEach(t, func(c *reqConfig) { c.cqe = 2 }, func(r *reqRig) {
		r.wr(ibv.WRRDMARead, 1)
		for range 5 {
			r.send(1)
		}
		r.sent(0)
		r.done("1 LOC_QP_OP_ERR", "2 WR_FLUSH_ERR")
		r.inState(ibv.QPStateErr)
		if n := r.sq.FreeNow(); n != r.reqConfig.wr {
			r.Errorf("%d places of the send queue are free", n)
		}
	})
	oneWayEach(t, func(c *reqConfig) { c.cqe = 2 }, func(r *reqRig) {
		r.wr(ibv.WRRDMARead, 1)
		r.sent(0)
		for range 3 {
			r.send(1)
		}
		r.toRTS() // which flushes them, and cannot
		r.inState(ibv.QPStateErr)
		r.done("1 LOC_QP_OP_ERR", "2 WR_FLUSH_ERR")
	})
}

func TestOneWayFlushInErr(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.sent(1)
		r.send(1)
		r.qp.fail(r.now)
		r.done("1 WR_FLUSH_ERR", "2 WR_FLUSH_ERR")
		r.send(1)
		r.sent(0)
		r.done("3 WR_FLUSH_ERR")
	})
}

func TestUCSQD(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.typ, c.batch = ibv.QPTypeUC, 2 }, func(r *reqRig) {
		r.send(3 * reqMTU)
		r.send(1)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B")
		r.sqd(true)
		r.drained(0)
		r.expect("SEND_LAST 2 256B")
		r.drained(0) // it is not laid out yet
		r.expect()
		r.drained(1)
		r.done("1 SUCCESS")
		r.toRTS()
		r.expect("SEND_ONLY 3 1B")
	})
}

func TestOneWaySQDToSQE(t *testing.T) {
	oneWayEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.sent(1)
		r.sqd(true)
		r.qp.PayloadFault(r.now, &r.tx.Intents[0])
		r.done("1 LOC_PROT_ERR")
		r.inState(ibv.QPStateSQE)
		r.sent(0)
		if len(r.env.Events) != 0 {
			r.Errorf("events %v", r.env.Events)
		}
	})
}

// The transition from SQE flushes no more than a batch at once, however much is posted;
// the rest is flushed before anything is sent, and what is posted later is sent.
func TestOneWayFlushesManyAfterSQE(t *testing.T) {
	const many = 3*flushBatch + 10
	oneWayEach(t, func(c *reqConfig) { c.wr, c.cqe = 4*flushBatch, 8*flushBatch }, func(r *reqRig) {
		r.wr(ibv.WRRDMARead, 1)
		r.sent(0)
		r.done("1 LOC_QP_OP_ERR")
		flushed := func(next, n int) {
			r.Helper()
			var want []string
			for i := range n {
				want = append(want, fmt.Sprintf("%d WR_FLUSH_ERR", next+i))
			}
			r.done(want...)
		}
		for range many {
			r.send(1)
		}
		r.toRTS()
		flushed(2, flushBatch)
		r.send(1)
		r.sqd(true)
		for i := 1; i <= 2; i++ {
			r.sent(0)
			flushed(2+i*flushBatch, flushBatch)
			r.drained(0)
		}
		r.sent(0)
		flushed(2+3*flushBatch, 10)
		r.sent(0)
		r.drained(1)
		r.toRTS()
		r.sent(1)
		r.sent(0)
		r.done(fmt.Sprintf("%d SUCCESS", 2+many))
		r.inState(ibv.QPStateRTS)
	})
}

// A producer's index that runs ahead all the time keeps nobody in the transition.
func TestOneWayLeavesSQEOfHostile(t *testing.T) {
	for _, tt := range []struct {
		name string
		next func(*reqRig)
		want ibv.QPState
	}{
		{"posts on and on", func(r *reqRig) { r.sq.Publish(r.sq.FreeNow()) }, ibv.QPStateSQE}, // what it posts then fails
		{"an index that cannot be", func(r *reqRig) { r.sq.Publish(1 << 20) }, ibv.QPStateErr},
		{"resets", func(r *reqRig) {
			must(r, r.qp.Modify(r.now, &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
		}, ibv.QPStateReset},
	} {
		oneWayEach(t, func(c *reqConfig) { c.wr, c.cqe = 4*flushBatch, 64*flushBatch }, func(r *reqRig) {
			r.wr(ibv.WRRDMARead, 1)
			r.sent(0)
			r.sq.Publish(r.sq.FreeNow())
			r.toRTS()
			before := r.qp.req.stale
			if before == 0 || before > r.reqConfig.wr {
				r.Fatalf("%s: %d are to be flushed", tt.name, before)
			}
			for range 20 {
				tt.next(r)
				r.poll()
			}
			if r.qp.req.stale != 0 || r.qp.State() != tt.want {
				r.Errorf("%s: %d are to be flushed in %v, want 0 in %v", tt.name, r.qp.req.stale, r.qp.State(), tt.want)
			}
		})
	}
}
