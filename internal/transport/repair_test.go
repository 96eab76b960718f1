package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// unknownPeer is a peer that has not shown yet whether it keeps packets.
func unknownPeer(c *reqConfig) { c.unknown = true }

// lossyRig has measured a round trip of 100 us, and seen a loss.
func lossyRig(t *testing.T, f func(*reqRig)) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		for k := range 20 {
			r.send(1)
			r.poll()
			r.pass(100 * time.Microsecond)
			r.ack(k)
		}
		r.qp.req.fix.link = linkLossy
		for range 20 {
			r.done1()
		}
		f(r)
	})
}

// done1 takes one completion.
func (r *reqRig) done1() {
	r.Helper()
	if n, _ := r.cq.Avail(); n == 0 {
		r.Fatal("no completion")
	}
	r.cq.Release(1)
}

// The packet that is missing is repeated, and nothing else; sending goes on.
func TestRepairOfOnePacket(t *testing.T) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.send(1)
		r.nak(1)
		r.expect("SEND_MIDDLE 1 256B A", "SEND_ONLY 4 1B A")
		r.ack(4) // it was all that was missing
		r.done("1 SUCCESS", "2 SUCCESS")
		r.counted(RepeatedPkts, 1)
		r.counted(CompleterRetryErr, 1)
		r.expect()
		r.deadline(0)
	})
}

// A peer that acknowledges what was repeated and no more keeps nothing: the rest
// follows. It is remembered for the next losses.
func TestRepairForPeerThatKeepsNothing(t *testing.T) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.nak(1)
		r.expect("SEND_MIDDLE 1 256B A")
		r.ack(1)
		r.expect("SEND_MIDDLE 2 256B", "SEND_LAST 3 256B A")
		r.ack(3)
		for k := range 7 {
			r.send(3 * reqMTU)
			r.poll()
			r.nak(4 + 3*k)
			r.expect("SEND_FIRST "+fmt.Sprint(4+3*k)+" 256B", "SEND_MIDDLE "+fmt.Sprint(5+3*k)+" 256B", "SEND_LAST "+fmt.Sprint(6+3*k)+" 256B A")
			r.ack(6 + 3*k)
		}
		r.send(3 * reqMTU)
		r.poll()
		r.nak(25)
		r.expect("SEND_FIRST 25 256B A") // it is asked again
	})
}

// A NAK for the packet after the one that was repeated says the same as its ACK.
func TestRepairNakOfTheNext(t *testing.T) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.nak(0)
		r.expect("SEND_FIRST 0 256B A")
		r.nak(1)
		r.expect("SEND_MIDDLE 1 256B", "SEND_MIDDLE 2 256B", "SEND_LAST 3 256B A")
		r.ack(3)
		r.done("1 SUCCESS")
	})
}

// An acknowledgement that jumps, but not to the end, ends at the next loss.
func TestRepairGoesOnAtTheNextLoss(t *testing.T) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		r.send(8 * reqMTU)
		r.poll()
		r.nak(1)
		r.expect("SEND_MIDDLE 1 256B A")
		r.ack(3)
		r.expect("SEND_MIDDLE 4 256B A")
		r.nak(4) // the responder says so itself
		r.expect()
		r.nak(6)
		r.expect("SEND_MIDDLE 6 256B A")
		r.ack(7)
		r.done("1 SUCCESS")
		r.counted(RepeatedPkts, 3)
	})
}

// A repetition that is overdue is repeated, ever more slowly, without costing
// retries, while the timeout runs on.
func TestRepairIsRepeated(t *testing.T) {
	lossyRig(t, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.nak(21)
		r.expect("SEND_MIDDLE 21 256B A")
		wait := r.qp.req.rtt.timeout()
		for k := range 3 {
			r.deadline(wait << k)
			r.pass(wait<<k - 1)
			r.expect()
			r.pass(1)
			r.expect("SEND_MIDDLE 21 256B A")
		}
		r.counted(CompleterRetryErr, 1)
		r.counted(LocalAckTimeoutErr, 0)
		r.pass(reqTimeout - 7*wait)
		r.poll()
		r.counted(LocalAckTimeoutErr, 1)
		r.counted(CompleterRetryErr, 2)
		r.ack(23)
		r.done1()
	})
}

// A NAK that comes again is the repetition of one that was answered, or says, a
// round trip later, that the answer was lost.
func TestRepairNakAgain(t *testing.T) {
	lossyRig(t, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.nak(21)
		r.expect("SEND_MIDDLE 21 256B A")
		r.nak(21)
		r.pass(90 * time.Microsecond)
		r.nak(21)
		r.expect()
		r.pass(20 * time.Microsecond)
		r.nak(21)
		r.expect("SEND_MIDDLE 21 256B A")
		r.counted(CompleterRetryErr, 1)
	})
}

// Of the last packets nothing shows the loss. On a link that has lost something the
// oldest is repeated early; on one that has not, after the timeout only.
func TestRepairOfTheTail(t *testing.T) {
	lossyRig(t, func(r *reqRig) {
		r.send(2 * reqMTU)
		r.poll()
		r.deadline(reqTimeout / tailShare)
		r.pass(reqTimeout / tailShare)
		r.expect("SEND_FIRST 20 256B A")
		r.counted(TailProbes, 1)
		r.deadline(2 * reqTimeout / tailShare) // that may have been lost as well
		r.ack(20)
		r.expect() // perhaps the peer was slow, and goes on
		r.deadline(r.qp.req.rtt.timeout())
		r.pass(r.qp.req.rtt.timeout())
		r.expect("SEND_LAST 21 256B A")
		r.ack(21)
		r.done1()
		r.counted(CompleterRetryErr, 0)
	})
	lossyRig(t, func(r *reqRig) {
		r.qp.req.fix.link = linkClean
		r.send(2 * reqMTU)
		r.poll()
		r.deadline(reqTimeout)
	})
}

// An answer as fast as ever to what the timer repeated shows a loss; one that comes
// at some other time a slow peer, which is given more time.
func TestRepairSuspicion(t *testing.T) {
	for _, c := range []struct {
		answer, wait time.Duration
	}{{100 * time.Microsecond, reqTimeout / tailShare}, {13 * time.Millisecond, 2 * reqTimeout}} {
		lossyRig(t, func(r *reqRig) {
			r.qp.req.fix.link = linkClean
			r.send(1)
			r.poll()
			r.pass(reqTimeout)
			r.expect("SEND_ONLY 20 1B A")
			r.deadline(2 * reqTimeout)
			r.pass(c.answer)
			r.ack(20)
			r.send(1)
			r.poll()
			r.deadline(c.wait)
		})
	}
}

// Responses after a gap are kept, and what is missing is asked for alone.
func TestRepairOfReadResponses(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.KeepBudget = 16
		data := reqRemote(8 * reqMTU)
		r.read(8 * reqMTU)
		r.expect("READ_REQUEST 0 [+0 2048] A")
		resp := func(k int) {
			r.resp(reqRespOp(k, 8), k, data[k*reqMTU:][:reqMTU])
		}
		resp(0)
		resp(3)
		r.expect("READ_REQUEST 1 [+256 512] A")
		resp(4)
		r.expect()
		resp(6)
		resp(7)
		r.expect() // of a READ one part at a time
		r.done()
		// The answers to the repetitions, with the positions that they have there.
		r.resp(wire.ReadRespFirst, 1, data[1*reqMTU:][:reqMTU])
		r.resp(wire.ReadRespLast, 2, data[2*reqMTU:][:reqMTU])
		r.done()
		r.expect("READ_REQUEST 5 [+1280 256] A")
		r.resp(wire.ReadRespOnly, 5, data[5*reqMTU:][:reqMTU])
		r.done("1 SUCCESS 2048B")
		if string(r.local[:len(data)]) != string(data) {
			r.Error("memory differs")
		}
		r.counted(OutOfOrderKept, 4)
		r.counted(OutOfOrderUsed, 4)
		r.counted(CompleterRetryErr, 0)
		if n := len(r.env.Released); n != 4 {
			r.Errorf("%d frames released, want 4", n)
		}
	})
}

// What was executed after a READ completes with it, and is not repeated.
func TestRepairCompletesWhatIsKnown(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.KeepBudget = 16
		r.read(2 * reqMTU)
		r.send(1)
		r.fadd()
		r.send(1)
		r.poll()
		r.atomicAck(3, 7)
		r.expect("READ_REQUEST 0 [+0 512] A")
		r.ack(4)
		r.done()
		r.answer(0, 2*reqMTU, 0, 2)
		r.done("1 SUCCESS 512B", "2 SUCCESS", "3 SUCCESS 8B", "4 SUCCESS")
		r.counted(RepeatedPkts, 1)
	})
}

// A NAK behind missing responses asks for both.
func TestRepairOfResponseAndRequest(t *testing.T) {
	reqEach(t, unknownPeer, func(r *reqRig) {
		r.env.KeepBudget = 16
		r.read(1)
		r.send(1)
		r.send(1)
		r.read(3 * reqMTU)
		r.send(1)
		r.poll()
		r.nak(3)
		// The READ was not executed, so it is the same request again.
		r.expect("READ_REQUEST 0 [+0 1] A", "READ_REQUEST 3 [+0 768] A")
		r.answer(0, 1, 0, 1)
		r.done("1 SUCCESS 1B", "2 SUCCESS", "3 SUCCESS")
		r.answer(3, 3*reqMTU, 0, 3)
		r.ack(6)
		r.done("4 SUCCESS 768B", "5 SUCCESS")
		r.counted(RepeatedPkts, 2)
	})
}

// With more under way than the budget holds, what follows a gap is not kept: all is
// asked for again, once.
func TestRepairWithoutRoom(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.KeepBudget = 4
		r.read(8 * reqMTU)
		r.poll()
		data := make([]byte, reqMTU)
		r.resp(wire.ReadRespFirst, 0, data)
		r.resp(wire.ReadRespMid, 2, data) // six may come: 2 to 7
		r.expect("READ_REQUEST 1 [+256 1792] A")
		r.resp(wire.ReadRespMid, 3, data)
		r.expect()
		r.counted(OutOfOrderKept, 0)
	})
}

// The timeout asks for all of a READ: there are responders that repeat one to its
// end only.
func TestRepairAfterTimeoutIsWhole(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.KeepBudget = 16
		r.read(4 * reqMTU)
		r.poll()
		data := make([]byte, reqMTU)
		r.resp(wire.ReadRespFirst, 0, data)
		r.resp(wire.ReadRespMid, 2, data)
		r.expect("READ_REQUEST 1 [+256 256] A")
		r.qp.req.fix.again = r.now.Add(2 * reqTimeout)
		r.pass(reqTimeout)
		r.expect("READ_REQUEST 1 [+256 768] A")
		if n := len(r.env.Released); n != 1 {
			r.Errorf("%d frames released, want 1", n)
		}
	})
}

// Kept frames come back in ERR and in RESET.
func TestRepairReleasesFrames(t *testing.T) {
	for _, to := range []ibv.QPState{ibv.QPStateErr, ibv.QPStateReset} {
		reqEach(t, nil, func(r *reqRig) {
			r.env.KeepBudget = 16
			r.read(4 * reqMTU)
			r.poll()
			r.resp(wire.ReadRespMid, 2, make([]byte, reqMTU))
			r.counted(OutOfOrderKept, 1)
			must(t, r.qp.Modify(r.now, &ibv.QPAttr{State: to}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
			if n := len(r.env.Released); n != 1 {
				r.Errorf("%v: %d frames released, want 1", to, n)
			}
		})
	}
}

// A responder that does not answer requests for a part of a READ is asked for its
// end once that is overdue, and from then on.
func TestRepairForResponderWithoutParts(t *testing.T) {
	lossyRig(t, func(r *reqRig) {
		r.env.KeepBudget = 16
		data := make([]byte, reqMTU)
		r.read(4 * reqMTU)
		r.poll()
		r.resp(wire.ReadRespFirst, 20, data)
		r.resp(wire.ReadRespMid, 22, data)
		r.expect("READ_REQUEST 21 [+256 256] A")
		r.resp(wire.ReadRespLast, 23, data)
		r.pass(r.qp.req.rtt.timeout())
		r.expect("READ_REQUEST 21 [+256 768] A")
		if n := len(r.env.Released); n != 2 {
			r.Errorf("%d frames released, want 2", n)
		}
		r.answer(21, 3*reqMTU, 0, 3)
		r.done1()
		r.read(4 * reqMTU)
		r.poll()
		r.resp(wire.ReadRespFirst, 24, data)
		r.resp(wire.ReadRespMid, 26, data)
		r.expect("READ_REQUEST 25 [+256 768] A")
		r.counted(OutOfOrderKept, 2)
		r.counted(LocalAckTimeoutErr, 0)
	})
}

// Of every READ request the first part that is missing is asked for, of several at
// once; what is behind it in the same request waits, since rdma_rxe serves nothing
// before the part that it has served last.
func TestRepairOnePartOfEachRead(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.env.KeepBudget = 64
		data := make([]byte, reqMTU)
		for range 3 {
			r.read(6 * reqMTU)
		}
		r.poll()
		for _, k := range []int{1, 3, 5, 7, 9, 11, 12, 13, 15} {
			r.resp(reqRespOp(k%6, 6), k, data)
		}
		r.expect("READ_REQUEST 0 [+0 256] A") // 2 and 4, and what is behind them, wait
		one := func(k int) { r.resp(wire.ReadRespOnly, k, data) }
		one(0)
		r.expect("READ_REQUEST 2 [+512 256] A")
		one(2)
		r.expect("READ_REQUEST 4 [+1024 256] A", "READ_REQUEST 6 [+0 256] A")
		one(4)
		r.done("1 SUCCESS 1536B")
		r.expect()
		one(6)
		r.expect("READ_REQUEST 8 [+512 256] A")
		one(8)
		r.expect("READ_REQUEST 10 [+1024 256] A", "READ_REQUEST 14 [+512 256] A")
	})
}

// rdma_rxe answers nothing before the part of a READ that it has served last.
// Whatever goes wrong afterwards, such responses are never asked for: they are
// kept until their turn comes.
func TestRepairNeverAsksBeforeAPart(t *testing.T) {
	for _, c := range []struct {
		name string
		wait func(r *reqRig)
	}{
		{"part overdue", func(r *reqRig) { r.pass(r.qp.req.rtt.timeout()) }},
		{"timeout", func(r *reqRig) {
			r.qp.req.fix.again = r.now.Add(2 * reqTimeout)
			r.pass(reqTimeout)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lossyRig(t, func(r *reqRig) {
				r.env.KeepBudget = 16
				data := make([]byte, reqMTU)
				r.read(4 * reqMTU)
				r.read(4 * reqMTU)
				r.poll()
				for _, k := range []int{0, 2, 3, 4, 5, 7} {
					r.resp(reqRespOp(k%4, 4), 20+k, data)
				}
				r.expect("READ_REQUEST 21 [+256 256] A", "READ_REQUEST 26 [+512 256] A")
				c.wait(r)
				r.expect("READ_REQUEST 21 [+256 768] A", "READ_REQUEST 26 [+512 512] A")
				if n := len(r.env.Released); n != 3 { // 22, 23, 27
					r.Errorf("%d frames released, want 3", n)
				}
				r.answer(21, 3*reqMTU, 0, 3)
				r.answer(26, 2*reqMTU, 0, 2)
				r.done("21 SUCCESS 1024B", "22 SUCCESS 1024B")
			})
		})
	}
}
