package transport

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respShared makes the receive queue of a rig a shared one.
func respShared(c *Config, _ *ibv.QPAttr) { c.SRQ = NewSRQ(c.RQ, respPD) }

// respShare are n rigs whose queue pairs share a receive queue, the memory and the
// events; each has a completion queue and a peer of its own.
func respShare(t *testing.T, n int, opts ...respOption) []*respRig {
	t.Helper()
	first := newRespRig(t, append(opts, respShared)...)
	all := []*respRig{first}
	for len(all) < n {
		r := *first
		r.tx = NewBatch(64)
		cfg := *first.q.Config()
		cfg.RecvCQ, cfg.SQ = NewCQ(respRing(256, queue.CQESize)), respRing(4, queue.SendElemSize(1, 0))
		attr := first.q.Query()
		r.attach(cfg, attr)
		all = append(all, &r)
	}
	return all
}

func (r *respRig) srq() *SRQ { return r.q.cfg.SRQ }

func (r *respRig) expectPosted(want int) {
	r.t.Helper()
	if got := r.srq().Posted(); got != want {
		r.t.Errorf("%d receives are posted, want %d", got, want)
	}
}

// Each message takes the receive that was posted first when it begins.
func TestSRQServesWhoComesFirst(t *testing.T) {
	conformance.Rule(t, "14-12")
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC} {
		t.Run(typ.String(), func(t *testing.T) {
			r := respShare(t, 3, respOn(typ))
			of := func(seed byte, n int) []respReq {
				pkts := respSend(1000, respFill(seed, n))
				if typ == ibv.QPTypeUC {
					pkts = respUC(pkts)
				}
				return pkts
			}
			for i := range 4 {
				r[0].post(uint64(i), 1024*i, 1024)
			}
			long, longer := of(1, 600), of(2, 1000)
			r[0].arrive(long[0])
			r[1].arrive(longer[:3]...)
			r[2].arrive(of(3, 5)...)
			r[0].expectPosted(1)
			r[1].arrive(longer[3:]...)
			r[0].arrive(long[1:]...)
			r[0].expectCompletions(respRecv(0, 600))
			r[1].expectCompletions(respRecv(1, 1000))
			r[2].expectCompletions(respRecv(2, 5))
			for i, n := range []int{600, 1000, 5} {
				r[0].expectMemory(1024*i, respFill(byte(i+1), n))
			}
		})
	}
}

func TestSRQServesDatagrams(t *testing.T) {
	conformance.Rule(t, "14-12")
	r := respShare(t, 2, respOn(ibv.QPTypeUD))
	r[0].post(1, 0, grhLen+8)
	r[0].post(2, 1024, grhLen+8)
	r[0].arrive(datagram(0, respFill(1, 9))) // too long for the receive, which stays
	r[0].expectCount(DropBufferSize, 1)
	r[0].expectPosted(2)
	r[1].arrive(datagram(0, respFill(2, 8)))
	r[0].arrive(datagram(1, respFill(3, 4)))
	r[1].expectCompletions(udRecv(1, 8))
	r[0].expectCompletions(udRecv(2, 4))
	r[1].arrive(datagram(1, nil))
	r[0].expectCount(DropNoReceive, 1)
	r[0].expectEvents()
}

// What UC drops before it has placed a byte leaves the receive to the others; what
// it gives up later is kept for its own next message.
func TestSRQAndAbandonedMessages(t *testing.T) {
	conformance.Rule(t, "14-12")
	r := respShare(t, 2, respOn(ibv.QPTypeUC))
	r[0].post(1, 0, 300)
	r[0].post(2, 1024, 300)
	r[0].arrive(respUC(respSend(1000, respFill(1, 301)))...) // its end does not fit
	r[0].expectPosted(1)
	r[0].expectCount(DropBufferSize, 1)
	r[1].arrive(respUC([]respReq{respPkt(wire.SendOnly, 7).with(respFill(1, respMTU+4))})...) // not a possible packet
	r[0].expectCount(DropLength, 1)
	r[0].expectPosted(1)
	r[1].arrive(respUC(respSend(9, respFill(2, 4)))...)
	r[1].expectCompletions(respRecv(2, 4))
	r[0].arrive(respUC(respSend(5, respFill(3, 4)))...)
	r[0].expectCompletions(respRecv(1, 4))
	r[0].expectPosted(0)
}

func TestSRQWriteWithImmediate(t *testing.T) {
	r := respShare(t, 2)
	r[0].post(1)
	r[1].arrive(respPkt(wire.WriteOnlyImm, 1000).reth(r[1].at(8), r[1].mr.RKey(), 4).word(5).with(respFill(1, 4)))
	r[1].expectCompletions(queue.CQE{WRID: 1, ByteLen: 4, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 5})
	r[0].expectPosted(0)
}

func TestSRQEmpty(t *testing.T) {
	r := respShare(t, 2)
	r[1].arrive(respSend(1000, nil)...)
	r[1].expect(respNak(wire.SynRNR(respRNRCode), 1000, 0))
	r[0].post(1, 0, 8)
	r[1].arrive(respSend(1000, nil)...)
	r[1].expect(respAck(1000, 1))
	r[1].expectCompletions(respRecv(1, 0))
}

func TestSRQGivesNoCredit(t *testing.T) {
	r := respShare(t, 1)[0]
	for i := range 3 {
		r.post(uint64(i), 0, 8)
	}
	r.arrive(respSend(1000, nil)...)
	if got := r.rawAnswers(); len(got) != 1 || got[0].Syn != wire.SynACK(31) {
		t.Errorf("answers %+v, want an ACK with credit code 31", got)
	}
}

// The limit event comes once, when a message leaves fewer receives, and not again
// before it is armed.
func TestSRQLimit(t *testing.T) {
	conformance.Rule(t, "14-13")
	r := respShare(t, 1)[0]
	next := respStart
	send := func() {
		r.arrive(respSend(next, []byte("x"))...)
		next++
	}
	for i := range 6 {
		r.post(uint64(i), 0, 8)
	}
	r.srq().SetLimit(4)
	send()
	send()
	r.expectEvents(ibv.EventCommEst) // four are left
	send()
	if e := r.env.Events; len(e) != 1 || e[0].SRQ != r.srq() || e[0].QP != nil {
		t.Errorf("events %+v, want one of the queue", e)
	}
	r.expectEvents(ibv.EventSRQLimitReached)
	if l := r.srq().Limit(); l != 0 {
		t.Errorf("limit %d after the event, want 0", l)
	}
	send()
	send()
	r.expectEvents()
	r.srq().SetLimit(1)
	send()
	r.expectEvents(ibv.EventSRQLimitReached)
	r.srq().SetLimit(1) // too late for a message to leave fewer: the next finds them
	send()
	r.expectEvents(ibv.EventSRQLimitReached)
	send()
	r.expectEvents()
}

// A queue pair in ERR flushes the receive that it was using and leaves the others.
func TestSRQOneQueuePairFails(t *testing.T) {
	r := respShare(t, 2)
	r[0].post(1, 0, 1024)
	r[0].post(2, 0, 1024)
	r[0].post(3, 0, 1024)
	r[0].arrive(respSend(1000, respFill(1, 600))[0])
	r[0].expectEvents(ibv.EventCommEst)
	for range 2 { // the second changes nothing
		r[0].modify(ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
	}
	r[0].expectCompletions(respFailed(1, ibv.WCWRFlushErr))
	if e := r[0].env.Events; len(e) != 1 || e[0].QP != r[0].q {
		t.Errorf("events %+v, want one of the first queue pair", e)
	}
	r[0].expectEvents(ibv.EventQPLastWQEReached)
	r[0].rawAnswers() // Poll flushes what is posted in ERR, which is nothing here
	r[0].expectCompletions()
	r[0].expectPosted(2)
	r[1].arrive(respSend(1000, nil)...)
	r[1].expect(respAck(1000, 1))
	r[1].expectCompletions(respRecv(2, 0))
	r[0].modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	r[0].expectPosted(1)
	r[1].expectEvents(ibv.EventCommEst)
}

// Failures of a message are those of its queue pair, in this order: completion,
// event of the failure, last receive.
func TestSRQFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		typ    ibv.QPType
		post   func(r *respRig)
		data   int
		status ibv.WCStatus
		event  ibv.EventType
	}{
		{"too long", ibv.QPTypeRC, func(r *respRig) { r.post(1, 0, 4) }, 5, ibv.WCLocLenErr, ibv.EventQPReqErr},
		{"wrong key", ibv.QPTypeRC, func(r *respRig) { r.postSGE(1, queue.SGE{Addr: r.at(0), Length: 8, LKey: r.mr.LKey() ^ 1}) }, 5, ibv.WCLocProtErr, ibv.EventQPFatal},
		{"wrong key, UC", ibv.QPTypeUC, func(r *respRig) { r.postSGE(1, queue.SGE{Addr: r.at(0), Length: 8, LKey: r.mr.LKey() ^ 1}) }, 5, ibv.WCLocProtErr, ibv.EventQPFatal},
		{"impossible entry", ibv.QPTypeRC, func(r *respRig) {
			queue.PutRecv(r.rq.Slot(0), &queue.RecvWQE{WRID: 1, NumSGE: 0xFFFF})
			r.rq.Publish(1)
		}, 5, ibv.WCLocQPOpErr, ibv.EventQPFatal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := respShare(t, 2, respOn(tt.typ))
			tt.post(r[0])
			r[0].post(2, 0, 8)
			pkts := respSend(1000, respFill(1, tt.data))
			if tt.typ == ibv.QPTypeUC {
				pkts = respUC(pkts)
			}
			r[0].arrive(pkts...)
			r[0].expectCompletions(respFailed(1, tt.status))
			r[0].expectEvents(ibv.EventCommEst, tt.event, ibv.EventQPLastWQEReached)
			r[0].expectState(ibv.QPStateErr)
			r[1].expectState(ibv.QPStateRTR)
			r[0].expectPosted(1)
		})
	}
}

func TestSRQCorrupt(t *testing.T) {
	conformance.Rule(t, "14-10")
	r := respShare(t, 2)
	r[0].rq.Publish(1000)
	for _, q := range r {
		q.arrive(respSend(1000, nil)...)
		q.expectState(ibv.QPStateErr)
		q.expect(respNak(wire.NakRemoteOp, 1000, 0))
	}
	r[0].expectEvents(
		ibv.EventCommEst, ibv.EventSRQErr, ibv.EventQPFatal, ibv.EventQPLastWQEReached,
		ibv.EventCommEst, ibv.EventQPFatal, ibv.EventQPLastWQEReached) // SRQ_ERR once
	if err := ResizeSRQ(r[0].srq(), respRing(8, queue.RecvElemSize(ibv.MaxSGE))); !errors.Is(err, ErrResize) {
		t.Errorf("Resize = %v", err)
	}
}

// Entries name regions of the queue's protection domain; R_Keys those of the queue
// pair's.
func TestSRQProtectionDomain(t *testing.T) {
	const other = memory.PD(8)
	r := newRespRig(t, func(c *Config, _ *ibv.QPAttr) { c.SRQ = NewSRQ(c.RQ, other) })
	mem := make([]byte, 64)
	mr := r.register(other, 0x900000, mem, respAllAccess)
	r.postSGE(1, queue.SGE{Addr: 0x900000, Length: 64, LKey: mr.LKey()})
	r.post(2, 0, 8) // of the queue pair's domain
	r.arrive(respSend(1000, []byte("yes"))...)
	r.expectCompletions(respRecv(1, 3))
	if string(mem[:3]) != "yes" {
		t.Errorf("memory %q", mem[:3])
	}
	r.arrive(r.write(1001, 0, []byte("yes"))...)
	r.expectMemory(0, []byte("yes"))
	r.arrive(respSend(1002, []byte("no"))...)
	r.expectCompletions(respFailed(2, ibv.WCLocProtErr))
}

// The copy is what counts: its element belongs to the producer again.
func TestSRQReadsAReceiveOnce(t *testing.T) {
	conformance.Rule(t, "14-11")
	r := respShare(t, 1)[0]
	elem := r.rq.Slot(0)
	r.post(1, 0, 1024)
	pkts := respSend(1000, respFill(1, 600))
	r.arrive(pkts[0])
	if free := r.rq.FreeNow(); free != 64 {
		t.Errorf("%d free elements in the middle of a message, want 64", free)
	}
	clear(elem)
	r.arrive(pkts[1:]...)
	r.expectCompletions(respRecv(1, 600))
	r.expectMemory(0, respFill(1, 600))
}

func TestSRQResizeRefuses(t *testing.T) {
	r := respShare(t, 1)[0]
	for i := range 5 {
		r.post(uint64(i), 0, 8)
	}
	for name, ring := range map[string]*queue.Ring{
		"too small":        respRing(4, queue.RecvElemSize(ibv.MaxSGE)),
		"smaller elements": respRing(8, queue.RecvElemSize(1)),
	} {
		if err := ResizeSRQ(r.srq(), ring); !errors.Is(err, ErrResize) {
			t.Errorf("%s: %v, want ErrResize", name, err)
		}
	}
	r.expectPosted(5)
	r.arrive(respSend(1000, nil)...)
	r.expectCompletions(respRecv(0, 0))
}

// TestSRQModel compares the queue with a list: whatever is posted, taken and
// resized, receives are taken in the order of their posting, each once.
func TestSRQModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := respShare(t, 3)
		psn := []int{1000, 1000, 1000}
		var want []uint64 // posted and not taken
		next := uint64(1)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				if r[0].rq.FreeNow() > 0 {
					r[0].post(next, 0, 8)
					want = append(want, next)
					next++
				}
			case 2, 3:
				i := rapid.IntRange(0, 2).Draw(rt, "queue pair")
				r[i].now = max(r[0].now, r[1].now, r[2].now) + mono.Time(1)
				r[i].arrive(respSend(respStart.Add(psn[i]-1000), nil)...)
				got := r[i].completions()
				if len(want) == 0 {
					if len(got) != 0 {
						rt.Fatalf("completions %v of an empty queue", got)
					}
					continue
				}
				if len(got) != 1 || got[0].WRID != want[0] {
					rt.Fatalf("completions %v, want one of %d", got, want[0])
				}
				want = want[1:]
				psn[i]++
			case 4:
				ring := respRing(rapid.IntRange(1, 100).Draw(rt, "size"), queue.RecvElemSize(ibv.MaxSGE))
				err := ResizeSRQ(r[0].srq(), ring)
				if (err == nil) != (len(want) <= ring.Entries()) {
					rt.Fatalf("%d posted, %d entries: %v", len(want), ring.Entries(), err)
				}
				if err == nil {
					r[0].rq = queue.ResumeProducer(ring)
				}
			}
			if got := r[0].srq().Posted(); got != len(want) {
				rt.Fatalf("%d posted, want %v", got, slices.Clone(want))
			}
		}
	})
}
