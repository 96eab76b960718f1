package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

var respRNR = wire.SynRNR(respRNRCode)

func TestResponderNotReady(t *testing.T) {
	r := newRespRig(t)
	send := respSend(1000, []byte{7})[0]
	r.arrive(send)
	r.expect(respNak(respRNR, 1000, 0))
	r.expectCount(SendRNRErr, 1)

	// Each repetition is answered again, until there is a receive.
	r.arrive(send)
	r.expect(respNak(respRNR, 1000, 0))
	r.post(1, 0, 16)
	r.arrive(send)
	r.expect(respAck(1000, 1))
	r.expectCompletions(respRecv(1, 1))
	r.expectMemory(0, []byte{7})
	r.expectState(ibv.QPStateRTR)
}

// What was sent behind the request is a gap that has had its answer.
func TestResponderNotReadyForABurst(t *testing.T) {
	r := newRespRig(t)
	r.env.KeepBudget = 8
	for i := range 3 {
		r.arrive(respSend(respStart.Add(i), []byte{1})...)
	}
	r.expect(respNak(respRNR, 1000, 0))
	r.expectCount(DropOutOfOrder, 2)
	r.expectCount(OutOfOrderKept, 0)

	// Once it is ready, packets after a gap are kept as before.
	r.post(1, 0, 16)
	r.arrive(respSend(1000, []byte{1})...)
	r.arriveKept(respSend(1002, []byte{1})[0])
}

func TestResponderNotReadyForTheImmediate(t *testing.T) {
	r := newRespRig(t)
	data := respFill(1, respMTU+4)
	first := respPkt(wire.WriteFirst, 1000).with(data[:respMTU]).reth(r.at(0), r.mr.RKey(), respMTU+4)
	last := respPkt(wire.WriteLastImm, 1001).word(42).with(data[respMTU:]).asks()
	r.arrive(first, last)
	r.expect(respNak(respRNR, 1001, 0))
	r.expectMemory(0, append(data[:respMTU:respMTU], 0, 0, 0, 0))

	// Only the packet that was not ready is repeated.
	r.post(5)
	r.arrive(last)
	r.expect(respAck(1001, 1))
	r.expectMemory(0, data)
	r.expectCompletions(queue.CQE{
		WRID: 5, ByteLen: respMTU + 4, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 42,
	})
}

func TestResponderNotReadyForAWriteOnly(t *testing.T) {
	r := newRespRig(t)
	only := respPkt(wire.WriteOnlyImm, 1000).reth(r.at(8), r.mr.RKey(), 1).word(1).with([]byte{3})
	r.arrive(only)
	r.expect(respNak(respRNR, 1000, 0))
	r.expectMemory(8, []byte{0})
	r.post(6, 0, 16)
	r.arrive(only)
	r.expectMemory(0, make([]byte, 8)) // the receive's own memory is not used
	r.expectMemory(8, []byte{3})
	r.expectCompletions(queue.CQE{WRID: 6, ByteLen: 1, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 1})
}

func TestResponderRNRTimerFollowsModify(t *testing.T) {
	r := newRespRig(t)
	r.modify(ibv.QPAttr{State: ibv.QPStateRTS, Timeout: 14, MinRNRTimer: 3}, ibv.QPAttrState|ibv.QPAttrTimeout|
		ibv.QPAttrRetryCnt|ibv.QPAttrRNRRetry|ibv.QPAttrSQPSN|ibv.QPAttrMaxQPRDAtomic|ibv.QPAttrMinRNRTimer)
	r.arrive(respSend(1000, nil)...)
	r.expect(respNak(wire.SynRNR(3), 1000, 0))
}
