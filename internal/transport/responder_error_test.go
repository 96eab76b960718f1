package transport

import (
	"math"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func (r *respRig) fail() {
	r.t.Helper()
	r.modify(ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
}

func TestResponderFlushesInOrder(t *testing.T) {
	r := newRespRig(t)
	for i := range 4 {
		r.post(uint64(i), 0, 1024)
	}
	r.arrive(respSend(1000, respFill(1, 2*respMTU))[0]) // 0 is in use
	r.fail()
	var want []queue.CQE
	for i := range 4 {
		want = append(want, respFailed(uint64(i), ibv.WCWRFlushErr))
	}
	r.expectCompletions(want...)
	r.expectCompletions()
	if free := r.rq.FreeNow(); free != 64 {
		t.Errorf("%d free elements, want 64", free)
	}

	// What is posted later is flushed by the next Poll, once.
	r.post(9, 0, 16)
	r.expect()
	r.expectCompletions(respFailed(9, ibv.WCWRFlushErr))
	r.expect()
	r.expectCompletions()
}

// Who enters ERR by itself tells the peer nothing.
func TestResponderForgetsWhatIsDueInErr(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.arrive(r.read(1001, 0, 300))
	r.fail()
	r.expect()
	if r.q.resp.st.pending != 0 {
		t.Errorf("%d results are still to be sent", r.q.resp.st.pending)
	}
}

func TestResponderNakLeavesOnce(t *testing.T) {
	r := newRespRig(t)
	bad := respPkt(wire.SendLast, 1000)
	r.arrive(bad)
	r.tx.Reset(0)
	if !r.q.Poll(r.now, r.tx) {
		t.Error("Poll without room says that nothing is left")
	}
	r.expect(respNak(wire.NakInvalidRequest, 1000, 0))
	r.expectCount(SentNaks, 1)
	r.arrive(bad)
	r.expect()
	if got := r.q.NextDeadline(); got <= r.now {
		t.Errorf("deadline %d after the last word", got)
	}
}

func TestResponderCorruptReceiveQueue(t *testing.T) {
	conformance.Rule(t, "14-10")
	r := newRespRig(t)
	r.post(1, 0, 16)
	r.rq.Publish(1000) // more than the ring holds
	r.arrive(respSend(1000, nil)...)
	r.expect(respNak(wire.NakRemoteOp, 1000, 0))
	r.expectEvents(ibv.EventCommEst, ibv.EventQPFatal)
	r.expectCompletions() // what is posted cannot be told any more
	r.expectState(ibv.QPStateErr)
}

func TestResponderWithoutAReceiveQueue(t *testing.T) {
	r := newRespRig(t, func(c *Config, _ *ibv.QPAttr) { c.RQ = respRing(1, queue.RecvElemSize(1)) })
	cfg := r.q.cfg
	cfg.RQ = nil
	r.q = NewQP(r.env, cfg)
	r.connect(ibv.QPAttr{
		Port: 1, AccessFlags: respAllAccess, PathMTU: ibv.MTU256, DestQPN: 0x22, RQPSN: uint32(respStart),
		AV: ibv.AddressVector{DGID: respPeer, Port: 1},
	})
	r.arrive(respSend(1000, nil)...)
	r.expect(respNak(wire.SynRNR(0), 1000, 0))
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.expect(respAck(1000, 1))
	r.fail()
	r.expectCompletions()
}

func TestResponderCompletionQueueOverflows(t *testing.T) {
	r := newRespRig(t, respCQEntries(2))
	for i := range 4 {
		r.post(uint64(i), 0, 16)
	}
	for i := range 3 {
		r.arrive(respSend(respStart.Add(i), nil)...)
	}
	r.expectState(ibv.QPStateErr)
	r.expectEvents(ibv.EventCommEst, ibv.EventCQErr, ibv.EventQPFatal)
	if got := r.q.NextDeadline(); got <= r.now {
		t.Errorf("deadline %d, nothing is to be sent", got)
	}
	if n, _ := r.cq.Avail(); n != 2 {
		t.Errorf("%d completions, want the 2 that had room", n)
	}
	r.expect()
}

func TestResponderStateNames(t *testing.T) {
	seen := map[string]respState{}
	for s := range numRespStates {
		name := s.String()
		if name == "" || name == "UNKNOWN" {
			t.Errorf("state %d has no name", s)
		}
		if other, dup := seen[name]; dup {
			t.Errorf("states %d and %d are both %s", s, other, name)
		}
		seen[name] = s
	}
	if got := respState(math.MaxUint8).String(); got != "UNKNOWN" {
		t.Errorf("state 255 is %s", got)
	}
}

// Every error that respFail handles says what it does.
func TestResponderFailuresAreComplete(t *testing.T) {
	own := map[respState]bool{respErrRNR: true, respErrInvalidate: true, respErrCorrupt: true}
	for s := respErrOpSeq; s < respDone; s++ {
		f := respFailures[s]
		if own[s] {
			continue
		}
		if f.nak.Kind() != wire.KindNAK || f.nak == wire.NakPSNSeq || f.status == ibv.WCSuccess || f.event == 0 {
			t.Errorf("%v: %+v", s, f)
		}
	}
}
