package transport_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// Each failure is the third of five requests: the two before it succeed, it
// fails at both ends as the specification has it, the two after it are flushed.
func TestPairErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		op     fixedOp
		spoil  func(a *pairHost, op *pairOp)
		want   ibv.WCStatus
		peer   ibv.QPState
		event  ibv.EventType // at the peer, when it goes to ERR
		status ibv.WCStatus  // of the peer's receive work request in use
	}{
		{"WRITE with a wrong key", fixedOp{ibv.WRRDMAWrite, 600}, wrongKey, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"READ with a wrong key", fixedOp{ibv.WRRDMARead, 600}, wrongKey, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"atomic with a wrong key", fixedOp{ibv.WRAtomicFetchAdd, 8}, wrongKey, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"FLUSH with a wrong key", fixedOp{ibv.WRFlush, 8}, wrongKey, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"WRITE past the end", fixedOp{ibv.WRRDMAWrite, 600}, pastTheEnd, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"READ past the end", fixedOp{ibv.WRRDMARead, 600}, pastTheEnd, ibv.WCRemAccessErr, ibv.QPStateErr, ibv.EventQPAccessErr, 0},
		{"atomic off by four", fixedOp{ibv.WRAtomicCmpAndSwp, 8}, func(_ *pairHost, op *pairOp) { op.wqe.RemoteAddr += 4 },
			ibv.WCRemInvReqErr, ibv.QPStateErr, ibv.EventQPReqErr, 0},
		{"READ that the peer does not grant", fixedOp{ibv.WRRDMARead, 8}, func(a *pairHost, _ *pairOp) { a.peer.grant(ibv.AccessRemoteWrite) },
			ibv.WCRemInvReqErr, ibv.QPStateErr, ibv.EventQPReqErr, 0},
		{"SEND longer than the receive", fixedOp{ibv.WRSend, 600}, func(a *pairHost, _ *pairOp) {
			r := &a.peer.prog.recvs[2]
			r.sges, r.wqe.NumSGE, r.wqe.Length = []queue.SGE{a.peer.mem.sge(r.buffer[0])}, 1, uint32(r.buffer[0].n)
			r.sges[0].Length, r.wqe.Length = min(r.sges[0].Length, 300), min(r.wqe.Length, 300)
		}, ibv.WCRemInvReqErr, ibv.QPStateErr, ibv.EventQPReqErr, ibv.WCLocLenErr},
		{"receive with a wrong key", fixedOp{ibv.WRSend, 600}, func(a *pairHost, _ *pairOp) {
			for i := range a.peer.prog.recvs[2].sges {
				a.peer.prog.recvs[2].sges[i].LKey ^= 0x100
			}
		}, ibv.WCRemOpErr, ibv.QPStateErr, ibv.EventQPFatal, ibv.WCLocProtErr},
		{"own memory with a wrong key", fixedOp{ibv.WRSend, 600}, wrongLocalKey, ibv.WCLocProtErr, ibv.QPStateRTS, 0, 0},
		{"result with a wrong key", fixedOp{ibv.WRRDMARead, 600}, wrongLocalKey, ibv.WCLocProtErr, ibv.QPStateRTS, 0, 0},
		{"unknown operation", fixedOp{ibv.WRSend, 8}, func(_ *pairHost, op *pairOp) { op.wqe.Opcode = 12 },
			ibv.WCLocQPOpErr, ibv.QPStateRTS, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newPairWorld(t, calmParams())
			a, b := w.hosts[0], w.hosts[1]
			a.writeFixed(fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRSendWithImm, 300}, tc.op, fixedOp{ibv.WRSend, 1}, fixedOp{ibv.WRRDMAWrite, 1})
			for i := range a.prog.ops {
				a.prog.ops[i].wqe.Flags |= ibv.SendSignaled
			}
			tc.spoil(a, &a.prog.ops[2])
			if tc.status != 0 {
				b.prog.recvs[2].want.Status = tc.status
			}
			before := slices.Clone(b.mem.bytes[b.mem.target.off:][:b.mem.target.n])
			w.run(func() bool { return a.prog.done == 5 })
			if a.prog.failed != tc.want || a.qp.State() != ibv.QPStateErr || b.qp.State() != tc.peer {
				t.Errorf("%v, want %v; in %v, peer in %v", a.prog.failed, tc.want, a.qp.State(), b.qp.State())
			}
			if tc.peer == ibv.QPStateErr {
				if !slices.Contains(b.events, tc.event) {
					t.Errorf("events at the peer: %v, want %v", b.events, tc.event)
				}
				if b.prog.rdone != b.prog.rposted {
					t.Errorf("%d of %d receives were completed", b.prog.rdone, b.prog.rposted)
				}
			}
			if !slices.Equal(before, b.mem.bytes[b.mem.target.off:][:b.mem.target.n]) {
				t.Error("the request that failed, or one after it, has changed memory")
			}
		})
	}
}

func wrongKey(_ *pairHost, op *pairOp) { op.wqe.RKey ^= 1 }
func pastTheEnd(a *pairHost, op *pairOp) {
	op.wqe.RemoteAddr = pairVA + uint64(len(a.peer.mem.bytes)) - 599
}
func wrongLocalKey(_ *pairHost, op *pairOp) {
	for i := range op.sges {
		op.sges[i].LKey ^= 0x100
	}
}

// grant changes what the queue pair lets its peer do.
func (h *pairHost) grant(access ibv.Access) {
	h.modify(&ibv.QPAttr{AccessFlags: access}, ibv.QPAttrAccessFlags)
}

// A peer that never answers: retry_cnt repetitions, each after the timeout.
func TestPairDeadLink(t *testing.T) {
	for _, retries := range []uint8{0, 1, 7} {
		p := calmParams()
		p.retries = retries
		p.fromB.Drop = 1
		w := newPairWorld(t, p)
		a := w.hosts[0]
		a.writeFixed(fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRRDMARead, 10})
		w.run(func() bool { return a.prog.failed != 0 })
		want := timeout8 // each later timeout is twice as long, up to four times
		for i := range retries {
			want += timeout8 << min(i+1, 2)
		}
		if took := w.now.Sub(pairBegin); a.prog.failed != ibv.WCRetryExcErr || took < want || took > want+time.Millisecond {
			t.Errorf("%d retries: %v after %v, want RETRY_EXC_ERR after %v", retries, a.prog.failed, took, want)
		}
		if n := a.env.Counters[CompleterRetryErr]; n != uint64(retries) {
			t.Errorf("%d retries: repeated %d times", retries, n)
		}
		if w.hosts[1].qp.State() != ibv.QPStateRTS {
			t.Errorf("the peer is in %v", w.hosts[1].qp.State())
		}
	}
}

// A peer that never posts a receive: rnr_retry pauses.
func TestPairRNRRetriesRunOut(t *testing.T) {
	for _, retries := range []uint8{0, 1, 6} {
		p := calmParams()
		p.rnrRetries = retries
		w := newPairWorld(t, p)
		a, b := w.hosts[0], w.hosts[1]
		a.writeFixed(fixedOp{ibv.WRRDMAWrite, 300}, fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRRDMARead, 300})
		b.prog.recvs = nil
		w.run(func() bool { return a.prog.failed != 0 })
		if a.prog.failed != ibv.WCRNRRetryExcErr || b.qp.State() != ibv.QPStateRTS {
			t.Errorf("%d retries: %v, peer in %v", retries, a.prog.failed, b.qp.State())
		}
		if n := b.env.Counters[SendRNRErr]; n != uint64(retries)+1 {
			t.Errorf("%d retries: %d RNR NAKs", retries, n)
		}
		if n := b.env.Counters[RcvdSeqErr] + a.env.Counters[RetryExceededErr]; n != 0 {
			t.Errorf("%d retries: the pauses count as losses", retries)
		}
	}
}

// leaky is memory of another process that ends after a number of reads.
type leaky struct {
	mem  []byte
	left int
}

var errProcessEnded = errors.New("process ended")

func (l *leaky) ReadAt(dst []byte, va uint64) error {
	if l.left--; l.left < 0 {
		return errProcessEnded
	}
	copy(dst, l.mem[va-pairVA:])
	return nil
}

func (l *leaky) WriteAt([]byte, uint64) error { return errProcessEnded }

// leak registers the source of h once more, as memory that goes away.
func (h *pairHost) leak(reads int) *memory.Region {
	h.w.Helper()
	s := h.mem.source
	r, err := h.env.Mem.RegisterIndirect(1, pairVA+uint64(s.off), uint64(s.n), &leaky{h.mem.bytes, reads}, ibv.AccessRemoteRead)
	if err != nil {
		h.w.Fatal(err)
	}
	return r
}

// The memory of a message goes away while the message is sent: a local
// protection error; the requests before it succeed.
func TestPairSendFromMemoryThatGoesAway(t *testing.T) {
	for reads := range 4 {
		w := newPairWorld(t, calmParams())
		a, b := w.hosts[0], w.hosts[1]
		a.writeFixed(fixedOp{ibv.WRRDMARead, 300}, fixedOp{ibv.WRSend, 10}, fixedOp{ibv.WRSend, 3*256 + 1}, fixedOp{ibv.WRRDMAWrite, 4})
		op := &a.prog.ops[2]
		op.wqe.NumSGE = 1
		op.sges = []queue.SGE{{Addr: pairVA + uint64(a.mem.source.off), Length: 3*256 + 1, LKey: a.leak(reads).LKey()}}
		w.run(func() bool { return a.prog.failed != 0 && a.prog.done == 4 })
		if a.prog.failed != ibv.WCLocProtErr || a.prog.ops[2].wqe.WRID != 2 || b.prog.rdone != 1 {
			t.Errorf("after %d reads: %v, %d messages received", reads, a.prog.failed, b.prog.rdone)
		}
		if a.env.Counters[PayloadFault] == 0 {
			t.Errorf("after %d reads: no fault was counted", reads)
		}
		if b.qp.State() != ibv.QPStateRTS {
			t.Errorf("after %d reads: the peer is in %v", reads, b.qp.State())
		}
	}
}

// The memory of a READ goes away while the responses are sent: a remote access
// error, and ERR at both ends.
func TestPairReadFromMemoryThatGoesAway(t *testing.T) {
	for reads := range 4 {
		w := newPairWorld(t, calmParams())
		a, b := w.hosts[0], w.hosts[1]
		a.writeFixed(fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRRDMARead, 3*256 + 1}, fixedOp{ibv.WRSend, 4})
		op := &a.prog.ops[1]
		op.wqe.RKey, op.wqe.RemoteAddr = b.leak(reads).RKey(), pairVA+uint64(b.mem.source.off)
		w.run(func() bool { return a.prog.done == 3 })
		if a.prog.failed != ibv.WCRemAccessErr || b.qp.State() != ibv.QPStateErr || !slices.Contains(b.events, ibv.EventQPAccessErr) {
			t.Errorf("after %d reads: %v, peer in %v with %v", reads, a.prog.failed, b.qp.State(), b.events)
		}
	}
}

// SQD in the middle of the traffic: what was begun ends, the rest waits.
func TestPairDrainAndResume(t *testing.T) {
	draining, waiting := 0, 0
	for _, drop := range []float64{0, 0.05} {
		for seed := range uint64(20) {
			p := calmParams()
			p.seed, p.fromA.Drop, p.fromB.Drop = seed, drop, drop
			p.window = [2]int{6, 6}
			w := newPairWorld(t, p)
			a := w.hosts[0]
			a.writeProgram(12)
			a.prog.ops[11-8].wqe.Flags |= ibv.SendSignaled
			a.prog.hold = 8
			w.run(a.finished)
			a.prog.hold = 0
			a.app() // sends what the window takes
			a.modify(&ibv.QPAttr{State: ibv.QPStateSQD, EnSQDAsyncNotify: true}, ibv.QPAttrState|ibv.QPAttrEnSQDAsyncNotify)
			resume := &ibv.QPAttr{State: ibv.QPStateRTS}
			if a.qp.Query().SQDraining {
				draining++
				if err := a.qp.Modify(w.now, resume, ibv.QPAttrState, ibv.GID{}, ibv.GID{}); !errors.Is(err, ErrDraining) {
					t.Fatalf("seed %d: resumed while draining: %v", seed, err)
				}
			}
			w.run(func() bool { return slices.Contains(a.events, ibv.EventSQDrained) })
			if q := a.qp.Query(); q.SQDraining || q.State != ibv.QPStateSQD {
				t.Fatalf("seed %d: %v, draining %v after SQ_DRAINED", seed, q.State, q.SQDraining)
			}
			if a.prog.done < len(a.prog.ops) {
				waiting++
			}
			a.modify(resume, ibv.QPAttrState)
			w.runToEnd()
			for _, h := range w.hosts {
				h.checkEnd(false)
			}
			if n := countOf(a.events, ibv.EventSQDrained); n != 1 {
				t.Errorf("seed %d: %d SQ_DRAINED events", seed, n)
			}
		}
	}
	if draining < 20 || waiting < 20 {
		t.Errorf("of 40 queues %d were draining and %d had more to send: the test has lost its point", draining, waiting)
	}
}

func countOf(events []ibv.EventType, e ibv.EventType) (n int) {
	for _, x := range events {
		if x == e {
			n++
		}
	}
	return n
}

// A new connection of the same two queue pairs, while frames of the old one are
// still under way, is not touched by them.
func TestPairResetAndConnectAgain(t *testing.T) {
	for seed := range uint64(40) {
		p := calmParams()
		p.seed, p.eager = seed, false
		p.fromA = simnet.Conditions{Delay: 5 * time.Microsecond, Duplicate: 0.5, Reorder: 0.5, ReorderBy: 100 * time.Microsecond, Drop: 0.02}
		p.fromB, p.keep = p.fromA, [2]int{8, 8}
		w := newPairWorld(t, p)
		for _, h := range w.hosts {
			h.writeProgram(8)
		}
		w.runToEnd()
		for _, h := range w.hosts {
			h.checkEnd(false)
			h.modify(&ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
			h.prog = pairProgram{}
		}
		w.firstPSN = [2]uint32{w.rnd.Uint32(), w.rnd.Uint32()}
		for _, h := range w.hosts {
			h.connect()
			h.writeProgram(8)
			h.nextApp = w.now
		}
		w.runToEnd()
		for _, h := range w.hosts {
			h.checkEnd(false)
		}
	}
}
