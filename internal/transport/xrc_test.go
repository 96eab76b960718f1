package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const xrcNum = 0xABCDE // of the queue of an XRC rig

// respXRC makes the rig an XRC target whose domain has one queue.
func respXRC(c *Config, _ *ibv.QPAttr) {
	c.Type, c.XRCD = ibv.QPTypeXRCRecv, NewXRCD()
	c.XRCD.Add(NewXRCSRQ(c.RQ, respPD, c.RecvCQ, xrcNum))
}

// toSRQ makes packets of RC those of XRC to queue num.
func toSRQ(num uint32, reqs ...respReq) []respReq {
	out := make([]respReq, len(reqs))
	for i, q := range reqs {
		out[i] = q
		out[i].op |= wire.XRC
		out[i].ext = append([]byte{0xFF, byte(num >> 16), byte(num >> 8), byte(num)}, q.ext...)
	}
	return out
}

// xrcQueue is one more shared queue of a rig's domain, with memory and
// completions of its own: another program of the host.
type xrcQueue struct {
	*respRig // with the queue pair of the first
	s        *SRQ
	num      uint32
}

func (r *respRig) xrcQueue(num uint32, pd memory.PD) *xrcQueue {
	r.t.Helper()
	o := *r
	o.now += 1000 // whatever the first does until then
	o.mem = make([]byte, respSize)
	o.mr = r.register(pd, respBase, o.mem, respAllAccess)
	cq, rq := respRing(16, queue.CQESize), respRing(8, queue.RecvElemSize(2))
	o.rq, o.cq = queue.NewProducer(rq), queue.NewConsumer(cq)
	x := &xrcQueue{respRig: &o, s: NewXRCSRQ(rq, pd, NewCQ(cq), num), num: num}
	r.q.cfg.XRCD.Add(x.s)
	return x
}

func (r *respRig) xrcSRQ() *SRQ { return r.q.cfg.XRCD.srqs[xrcNum] }

// Two initiators with a target each reach two programs by their queues.
func TestXRCRequestsNameTheirQueue(t *testing.T) {
	conformance.Rule(t, "6.6-33")
	r := newRespRig(t, respXRC)
	second := *r
	second.tx = NewBatch(64)
	cfg, attr := *r.q.Config(), r.q.Query()
	cfg.RecvCQ = NewCQ(respRing(16, queue.CQESize))
	second.attach(cfg, attr)
	other := r.xrcQueue(5, 99)
	r.post(1, 0, 1024)
	r.post(2, 1024, 1024)
	other.post(3, 0, 1024)

	long, longer := toSRQ(5, respSend(1000, respFill(1, 600))...), toSRQ(xrcNum, respSend(1000, respFill(2, 700))...)
	r.arrive(long[0])
	second.arrive(longer[:2]...)
	r.arrive(long[1:]...)
	second.arrive(longer[2:]...)
	r.arrive(toSRQ(xrcNum, respSend(1003, []byte("again"))...)...)
	other.expectCompletions(respRecv(3, 600))
	other.expectMemory(0, respFill(1, 600))
	r.expectCompletions(respRecv(1, 700), respRecv(2, 5))
	r.expectMemory(0, respFill(2, 700))
	r.expectMemory(1024, []byte("again"))
	r.expect(respAck(1003, 2))
	second.expect(respAck(1002, 1))
}

func TestXRCWriteWithImmediate(t *testing.T) {
	r := newRespRig(t, respXRC)
	other := r.xrcQueue(5, 99)
	other.post(7)
	r.arrive(toSRQ(5, respPkt(wire.WriteOnlyImm, 1000).reth(r.at(8), other.mr.RKey(), 4).word(5).with([]byte("data")).asks())...)
	other.expectCompletions(queue.CQE{WRID: 7, ByteLen: 4, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 5})
	other.expectMemory(8, []byte("data"))
	r.expect(respAck(1000, 1))
}

// The keys of a request are those of its queue's domain, whatever was named before
// and is named while responses are under way.
func TestXRCKeysAreOfTheQueuesDomain(t *testing.T) {
	conformance.Rule(t, "6.6-33")
	r := newRespRig(t, respXRC)
	other := r.xrcQueue(5, 99)
	copy(r.mem, respFill(1, 600))
	copy(other.mem, respFill(2, 600))
	ours, theirs := toSRQ(xrcNum, r.read(1000, 0, 600))[0], toSRQ(5, other.read(1003, 0, 600))[0]
	r.arrive(ours, theirs)
	want := append(r.responses(1000, 2, respFill(1, 600)), r.responses(1003, 2, respFill(2, 600))...)
	r.expect(want...)
	r.arrive(ours) // again, after the other was named
	r.expect(r.responses(1000, 2, respFill(1, 600))...)
	r.arrive(toSRQ(5, respPkt(wire.FetchAdd, 1006).atomic(other.at(608), other.mr.RKey(), 3, 0))...)
	r.expect(respAnswer{Op: wire.AtomicAck, PSN: 1006, MSN: 3})
	r.arrive(toSRQ(xrcNum, r.write(1007, 0, respFill(3, 300))...)...)
	r.expect(respAck(1008, 4))
	r.expectMemory(0, respFill(3, 300))

	r.arrive(toSRQ(5, r.write(1009, 0, []byte("no"))...)...) // a key of the first
	r.expect(respNak(wire.NakRemoteAccess, 1009, 4))
	r.expectMemory(0, respFill(3, 300))
	r.expectState(ibv.QPStateErr)
}

func TestXRCNoSuchQueue(t *testing.T) {
	conformance.Rule(t, "6.6-34")
	elsewhere := NewXRCD()
	elsewhere.Add(NewXRCSRQ(respRing(4, queue.RecvElemSize(1)), respPD, nil, 6))
	for _, tt := range []struct {
		name string
		pkts func(r *respRig) []respReq
	}{
		{"no queue", func(*respRig) []respReq { return toSRQ(5, respSend(1000, nil)...) }},
		{"of another domain", func(*respRig) []respReq { return toSRQ(6, respSend(1000, nil)...) }},
		{"WRITE", func(r *respRig) []respReq { return toSRQ(5, r.write(1000, 0, []byte("no"))...) }},
		{"READ", func(r *respRig) []respReq { return toSRQ(5, r.read(1000, 0, 4)) }},
		{"atomic", func(r *respRig) []respReq {
			return toSRQ(5, respPkt(wire.FetchAdd, 1000).atomic(r.at(0), r.mr.RKey(), 1, 0))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t, respXRC)
			r.post(1, 0, 64)
			r.arrive(tt.pkts(r)...)
			r.expect(respNak(wire.NakRemoteAccess, 1000, 0))
			r.expectState(ibv.QPStateErr)
			r.expectEvents(ibv.EventCommEst, ibv.EventQPAccessErr, ibv.EventQPLastWQEReached)
			r.expectCompletions()
			r.expectMemory(0, make([]byte, 8))
			if n := r.xrcSRQ().Posted(); n != 1 {
				t.Errorf("%d receives are posted, want 1", n)
			}
		})
	}
}

// The first packet of a message says which queue it is for.
func TestXRCMessageChangesItsQueue(t *testing.T) {
	conformance.Rule(t, "6.6-35")
	r := newRespRig(t, respXRC)
	other := r.xrcQueue(5, 99)
	r.post(1, 0, 1024)
	other.post(2, 0, 1024)
	pkts := respSend(1000, respFill(1, 600))
	r.arrive(toSRQ(xrcNum, pkts[0])...)
	r.arrive(toSRQ(5, pkts[1])...)
	r.expect(respNak(wire.NakInvalidRequest, 1001, 0))
	r.expectCompletions(respFailed(1, ibv.WCRemInvReqErr))
	other.expectCompletions()
	if n := other.s.Posted(); n != 1 {
		t.Errorf("the other queue has %d receives, want 1", n)
	}
}

// A queue that is destroyed in the middle of a message ends the connection, and
// nothing is written to its completion queue any more.
func TestXRCQueueGoesAway(t *testing.T) {
	for _, end := range []struct {
		name string
		run  func(r *respRig, rest []respReq)
		want []respAnswer
	}{
		{"the message goes on", func(r *respRig, rest []respReq) { r.arrive(rest...) }, []respAnswer{respNak(wire.NakRemoteAccess, 1001, 0)}},
		{"the target fails", func(r *respRig, _ []respReq) { r.fail() }, nil},
		{"the target is reset", func(r *respRig, _ []respReq) {
			r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
		}, nil},
		{"its number comes again", func(r *respRig, rest []respReq) {
			r.xrcQueue(xrcNum, respPD)
			r.arrive(rest...)
		}, []respAnswer{respNak(wire.NakInvalidRequest, 1001, 0)}},
	} {
		t.Run(end.name, func(t *testing.T) {
			r := newRespRig(t, respXRC)
			r.post(1, 0, 1024)
			s := r.xrcSRQ()
			pkts := toSRQ(xrcNum, respSend(1000, respFill(1, 400))...)
			r.arrive(pkts[0])
			NewXRCD().Remove(s) // not in that one
			r.q.cfg.XRCD.Remove(s)
			end.run(r, pkts[1:])
			r.expect(end.want...)
			r.expectCompletions()
			if r.q.resp.wqe.held {
				t.Error("the receive is still held")
			}
		})
	}
}

// A number that is given out again names the new queue.
func TestXRCNumberComesAgain(t *testing.T) {
	r := newRespRig(t, respXRC)
	r.post(1, 0, 64)
	r.arrive(toSRQ(xrcNum, respSend(1000, nil)...)...)
	r.expectCompletions(respRecv(1, 0))
	r.q.cfg.XRCD.Remove(r.xrcSRQ())
	next := r.xrcQueue(xrcNum, 99)
	next.post(2, 0, 64)
	r.arrive(toSRQ(xrcNum, respSend(1001, []byte("new"))...)...)
	next.expectCompletions(respRecv(2, 3))
	next.expectMemory(0, []byte("new"))
}

func TestXRCEmptyQueue(t *testing.T) {
	conformance.Rule(t, "6.6-36")
	r := newRespRig(t, respXRC)
	r.arrive(toSRQ(xrcNum, respSend(1000, nil)...)...)
	r.expect(respNak(wire.SynRNR(respRNRCode), 1000, 0))
	r.post(1, 0, 8)
	r.post(2, 0, 8)
	r.xrcSRQ().SetLimit(2)
	r.expectEvents(ibv.EventCommEst)
	r.arrive(toSRQ(xrcNum, respSend(1000, nil)...)...)
	if got := r.rawAnswers(); len(got) != 1 || got[0].Syn != wire.SynACK(31) {
		t.Errorf("answers %+v, want an ACK with credit code 31", got)
	}
	r.expectCompletions(respRecv(1, 0))
	r.expectEvents(ibv.EventSRQLimitReached)
}

// A failure flushes the receive in use to the queue's completion queue and leaves
// the others.
func TestXRCTargetFails(t *testing.T) {
	r := newRespRig(t, respXRC)
	r.post(1, 0, 1024)
	r.post(2, 0, 1024)
	r.arrive(toSRQ(xrcNum, respSend(1000, respFill(1, 400))[0])...)
	r.fail()
	r.expectCompletions(respFailed(1, ibv.WCWRFlushErr))
	r.expectEvents(ibv.EventCommEst, ibv.EventQPLastWQEReached)
	if n := r.xrcSRQ().Posted(); n != 1 {
		t.Errorf("%d receives are posted, want 1", n)
	}
	// After RESET it serves the same queue again.
	attr := r.q.Query()
	attr.RQPSN = uint32(respStart)
	r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	r.connect(attr)
	r.arrive(toSRQ(xrcNum, respSend(1000, []byte("x"))...)...)
	r.expectCompletions(respRecv(2, 1))
}

// The queue that is served may have smaller elements than a target has places for.
func TestXRCImpossibleReceive(t *testing.T) {
	r := newRespRig(t, respXRC)
	small := r.xrcQueue(5, 99)
	slot := small.rq.Slot(0)
	queue.PutRecv(slot, &queue.RecvWQE{WRID: 1, NumSGE: ibv.MaxSGE})
	small.rq.Publish(1)
	r.arrive(toSRQ(5, respSend(1000, nil)...)...)
	small.expectCompletions(respFailed(1, ibv.WCLocQPOpErr))
	r.expect(respNak(wire.NakRemoteOp, 1000, 0))
}

// Each end takes only what is for it.
func TestXRCEndsHaveOneDirection(t *testing.T) {
	conformance.Rule(t, "6.6-37")
	r := newRespRig(t, respXRC)
	r.arrive(respSend(1000, nil)...)                                                         // of RC
	r.arrive(respReq{op: wire.XRC | wire.Acknowledge, psn: 1000, pad: -1}.word(0x1F00_0001)) // a response
	r.expectCount(DropOpcode, 1)
	r.expectCount(DropState, 1)
	r.q.state = ibv.QPStateRTS
	for _, p := range []psn.PSN{1000, 0xFFFFFF} { // as if it were new, or old
		r.arrive(respReq{op: wire.XRC | wire.Acknowledge, psn: p, pad: -1}.word(0x1F00_0001))
	}
	r.expectCount(DropStaleResponse, 1)
	r.expectCount(DuplicateAck, 1)
	r.expect()

	i := newReqRigOn(t, onXRC)
	p := toSRQ(reqSRQN, respSend(0, nil)...)[0].packet()
	i.qp.HandlePacket(i.now, p)
	i.counted(DropOpcode, 1)

	rc := newRespRig(t)
	rc.arrive(toSRQ(xrcNum, respSend(1000, nil)...)...)
	rc.expectCount(DropOpcode, 1)
}
