package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestResponderSortsByPSN(t *testing.T) {
	tests := []struct {
		name     string
		expected psn.PSN
		arrives  psn.PSN
		answer   respAnswer
		executed bool
	}{
		{"in order", 1000, 1000, respAck(1000, 1), true},
		{"in order, first PSN", 0, 0, respAck(0, 1), true},
		{"in order, last PSN", psn.Mask, psn.Mask, respAck(psn.Mask, 1), true},
		{"gap of one", 1000, 1001, respNak(wire.NakPSNSeq, 1000, 0), false},
		{"gap across the wrap", psn.Mask, 0, respNak(wire.NakPSNSeq, psn.Mask, 0), false},
		{"largest gap", 1000, 1000 + psn.Half - 1, respNak(wire.NakPSNSeq, 1000, 0), false},
		{"past by one", 1000, 999, respAck(999, 0), false},
		{"past across the wrap", 0, psn.Mask, respAck(psn.Mask, 0), false},
		{"oldest past", 1000, (1000 + psn.Half) & psn.Mask, respAck(999, 0), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t, respAt(tt.expected))
			r.arrive(r.write(tt.arrives, 0, []byte{0xAB})...)
			r.expect(tt.answer)
			if got := r.mem[0] == 0xAB; got != tt.executed {
				t.Errorf("executed: %v, want %v", got, tt.executed)
			}
		})
	}
}

func TestResponderCountsAcrossTheWrap(t *testing.T) {
	r := newRespRig(t, respAt(psn.Mask-1))
	data := respFill(1, 4*respMTU)
	r.arrive(r.write(psn.Mask-1, 0, data)...)
	r.expect(respAck(1, 1))
	r.expectMemory(0, data)
	r.arrive(r.write(2, 0, []byte{9})...)
	r.expect(respAck(2, 2))
}

func TestResponderMSNWraps(t *testing.T) {
	conformance.Rule(t, "5.4-2")
	r := newRespRig(t)
	r.q.resp.st.msn = psn.Mask
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.expect(respAck(1000, 0))
	if r.q.resp.st.msn != 0 {
		t.Errorf("MSN %#x", r.q.resp.st.msn)
	}
}

func TestResponderNAKsOnceForAGap(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1001, 1, []byte{1})...)
	r.expect(respNak(wire.NakPSNSeq, 1000, 0))
	r.arrive(r.write(1002, 2, []byte{2})...)
	r.expect()
	r.expectCount(OutOfSeqRequest, 2)
	r.expectCount(DropOutOfOrder, 2)

	// The missing packet ends the gap, the next one is NAKed anew.
	r.arrive(r.write(1000, 0, []byte{3})...)
	r.expect(respAck(1000, 1))
	r.arrive(r.write(1003, 3, []byte{4})...)
	r.expect(respNak(wire.NakPSNSeq, 1001, 1))
}

func TestResponderForgetsAnUnsentNAK(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1001, 1, []byte{2})...)
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.expect(respAck(1000, 1))
	r.expectCount(SentNaks, 0)
}

func TestResponderReportsCommEstOnce(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1001, 0, []byte{1})...) // a gap proves nothing
	r.expectEvents()
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.expectEvents(ibv.EventCommEst)
	r.arrive(r.write(1001, 0, []byte{1})...)
	r.expectEvents()
}

func TestResponderDropsBeforeTheStates(t *testing.T) {
	t.Run("wrong peer", func(t *testing.T) {
		r := newRespRig(t)
		p := r.write(1000, 0, []byte{1})[0].packet()
		p.SrcGID = respSelf
		r.q.HandlePacket(r.now, p)
		r.expect()
		r.expectCount(DropPeer, 1)
	})
	t.Run("state RESET", func(t *testing.T) {
		r := newRespRig(t)
		r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
		r.arrive(respSend(1000, nil)...)
		r.expect()
		r.expectCount(DropState, 1)
	})
}

func TestResponderStartsAgainAfterReset(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1024)
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.arrive(r.read(1001, 0, 4))
	r.arrive(respSend(1002, make([]byte, 2*respMTU))[0]) // a message in the middle
	gen := r.q.resp.st.generation
	r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	r.connect(ibv.QPAttr{
		Port: 1, AccessFlags: respAllAccess, PathMTU: ibv.MTU256, DestQPN: 0x22, RQPSN: 5,
		MaxDestRDAtomic: 1, AV: ibv.AddressVector{DGID: respPeer, Port: 1},
	})
	r.expect() // the ACK and the READ of the old connection are gone
	if got := r.q.resp.st.generation; got == gen {
		t.Errorf("generation is still %d", got)
	}
	r.arrive(respSend(5, nil)...) // and so is the receive work request
	r.expect(respNak(wire.SynRNR(0), 5, 0))
	r.fail()
	r.expectCompletions()
}
