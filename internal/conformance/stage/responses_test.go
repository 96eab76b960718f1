package stage_test

import (
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// three SENDs are outstanding, and the first two have been acknowledged.
func threeSends(t *testing.T, rule string) *Stage {
	c := RC(t, rule)
	c.Post(Send(1), Send(2), Send(3))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq(), SendOnly(2).AckReq())
	c.Gets(Ack(1))
	c.Completes(Done(1), Done(2))
	return c
}

func TestStaleResponses(t *testing.T) {
	for _, p := range []Packet{Ack(0), Ack(-1), Ack(3), Ack(100), NakAccess(0), NakSeq(3), RNR(0, 1), RespOnly(0), RespOnly(3), AtomicAck(1, 5)} {
		c := threeSends(t, "6.4-1")
		c.At(Timeout / 2).Gets(p)
		c.Completes()
		c.Counts(transport.DropStaleResponse, 1)
		c.At(Timeout).Sends(SendOnly(2).AckReq())
	}
}

func TestRepeatedAck(t *testing.T) {
	c := threeSends(t, "6.4-2")
	c.At(Timeout/2).Gets(Ack(1), Ack(1))
	c.Completes()
	c.At(Timeout).Sends(SendOnly(2).AckReq())
}

func TestAckCompletesInOrder(t *testing.T) {
	c := RC(t, "6.4-3")
	c.Post(Send(2*MTU), Write(10), SendImm(0), Write(3*MTU), Send(1))
	c.Sends(SendFirst(0), SendLast(1).AckReq(), WriteOnly(2).AckReq(), SendOnlyImm(3).AckReq(),
		WriteFirst(4), WriteMiddle(5), WriteLast(6).AckReq(), SendOnly(7).AckReq())
	c.Gets(Ack(2))
	c.Completes(Done(1), Done(2))
	c.Gets(Ack(7))
	c.Completes(Done(3), Done(4), Done(5))
}

func TestAckInsideAMessage(t *testing.T) {
	c := RC(t, "6.4-4", Window(4))
	c.Post(Write(6 * MTU))
	c.Sends(WriteFirst(0), WriteMiddle(1), WriteMiddle(2), WriteMiddle(3).AckReq())
	c.Gets(Ack(1))
	c.Completes()
	c.Sends(WriteMiddle(4), WriteLast(5).AckReq())
	c.Gets(Ack(4))
	c.Completes()
	c.Gets(Ack(5))
	c.Completes(Done(1))
}

func TestImpliedNakOfARead(t *testing.T) {
	c := RC(t, "6.4-5")
	c.Post(Send(1), Read(3*MTU), Send(2))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq(), SendOnly(4).AckReq())
	c.Gets(Ack(4))
	c.Completes(Done(1))
	c.Counts(transport.ImpliedNak, 1)
	c.Sends(ReadRequest(1).AckReq())
	c.Gets(RespFirst(1)) // the rest is lost again, and overdue soon: a round trip takes no time here
	c.At(100 * time.Microsecond).Sends(ReadRequest(2).AckReq())
	c.Gets(RespFirst(2), RespLast(3))
	c.Completes(Done(2), Done(3))
}

func TestImpliedNak(t *testing.T) {
	for _, m := range []Msg{Read(10), FetchAdd(1), CompareSwap(1, 2), AtomicWrite(), Flush(8)} {
		for _, at := range []int{0, 1} {
			c := RC(t, "6.4-5")
			c.Post(m, Send(1))
			c.Sends(m.Packet(0), SendOnly(1).AckReq())
			c.Gets(Ack(at))
			c.Completes()
			if at == 1 { // the SEND was executed
				c.Sends(m.Packet(0))
			} else {
				c.Sends(m.Packet(0), SendOnly(1).AckReq())
			}
		}
	}
}

func TestResponsesAcknowledgeWhatIsBefore(t *testing.T) {
	for _, tt := range []struct {
		m      Msg
		answer Packet
	}{{Read(10), RespOnly(3)}, {FetchAdd(1), AtomicAck(3, 9)}, {AtomicWrite(), RespOnly(3)}, {Flush(8), RespOnly(3)}} {
		c := RC(t, "6.4-6")
		c.Post(Send(1), Write(2*MTU), tt.m)
		c.Sends(SendOnly(0).AckReq(), WriteFirst(1), WriteLast(2).AckReq(), tt.m.Packet(3))
		c.Gets(tt.answer)
		c.Completes(Done(1), Done(2), Done(3))
	}
}

func TestLostResponse(t *testing.T) {
	c := RC(t, "6.4-7")
	c.Post(Read(5*MTU), Send(1))
	c.Sends(ReadRequest(0).AckReq(), SendOnly(5).AckReq())
	c.Gets(RespFirst(0), RespMiddle(2))
	c.Sends(ReadRequest(1).AckReq(), SendOnly(5).AckReq())
	c.Gets(RespMiddle(3), RespLast(4), Ack(5)) // of the burst behind the loss
	c.Quiet()
	c.Gets(RespFirst(1), RespMiddle(3))
	c.Sends(ReadRequest(2).AckReq())
	c.Gets(RespFirst(2), RespMiddle(3), RespLast(4))
	c.Completes(Done(1), Done(2))
}

func TestOnlyWhatIsMissingIsAskedFor(t *testing.T) {
	c := RC(t, "6.4-7", KeepBudget(64))
	c.Rule("6.5-10")
	c.Post(Read(6 * MTU))
	c.Sends(ReadRequest(0).AckReq())
	c.Gets(RespFirst(0), RespMiddle(3), RespMiddle(4))
	c.Sends(ReadRequest(1).Range(MTU, 2*MTU).AckReq())
	c.Gets(RespFirst(1), RespLast(2).Len(MTU), RespLast(5))
	c.Completes(Done(1))
	c.LocalHas(0, Payload(RespFirst(0), RespFirst(1), RespMiddle(2), RespMiddle(3), RespMiddle(4), RespLast(5).Len(MTU)))
}

// Some responders do not serve a part of a READ: then all of the rest is asked for.
func TestMissingPartThatIsOverdue(t *testing.T) {
	c := RC(t, "6.4-7", KeepBudget(64))
	c.Post(Read(6 * MTU))
	c.Sends(ReadRequest(0).AckReq())
	c.Gets(RespFirst(0), RespMiddle(2))
	c.Sends(ReadRequest(1).Range(MTU, MTU).AckReq())
	c.At(100 * time.Microsecond).Sends(ReadRequest(1).AckReq()) // a round trip took no time
	c.Gets(RespFirst(1), RespMiddle(2), RespMiddle(3), RespMiddle(4), RespLast(5))
	c.Completes(Done(1))
}

func TestLengthsOfReadResponses(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		n          int
		got        []Packet
	}{
		{"FIRST short", "6.4-8", 2 * MTU, []Packet{RespFirst(0).Len(MTU - 1)}},
		{"FIRST long", "6.4-8", 3 * MTU, []Packet{RespFirst(0).Len(MTU + 1)}},
		{"FIRST of all", "6.4-8", MTU, []Packet{RespFirst(0)}},
		{"FIRST of more", "6.4-8", 10, []Packet{RespFirst(0)}},
		{"MIDDLE short", "6.4-8", 3 * MTU, []Packet{RespFirst(0), RespMiddle(1).Len(MTU - 4)}},
		{"MIDDLE empty", "6.4-8", 3 * MTU, []Packet{RespFirst(0), RespMiddle(1).Len(0)}},
		{"MIDDLE of the rest", "6.4-8", 2 * MTU, []Packet{RespFirst(0), RespMiddle(1)}},
		{"LAST short", "6.4-9", MTU + 10, []Packet{RespFirst(0), RespLast(1).Len(9)}},
		{"LAST long", "6.4-9", MTU + 10, []Packet{RespFirst(0), RespLast(1).Len(11)}},
		{"LAST empty", "6.4-9", 2 * MTU, []Packet{RespFirst(0), RespLast(1).Len(0)}},
		{"LAST early", "6.4-9", 3 * MTU, []Packet{RespFirst(0), RespLast(1).Len(MTU)}},
		{"ONLY short", "6.4-9", 10, []Packet{RespOnly(0).Len(9)}},
		{"ONLY long", "6.4-9", 10, []Packet{RespOnly(0).Len(11)}},
		{"ONLY empty", "6.4-9", 10, []Packet{RespOnly(0).Len(0)}},
		{"ONLY of nothing", "6.4-9", 0, []Packet{RespOnly(0).Len(1)}},
		{"ONLY of a part", "6.4-9", 2 * MTU, []Packet{RespOnly(0).Len(MTU)}},
		{"ONLY larger than the MTU", "6.4-9", 2 * MTU, []Packet{RespOnly(0).Len(2 * MTU)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, tt.rule)
			c.Post(Read(tt.n), Send(1))
			c.Sends(ReadRequest(0).AckReq(), SendOnly(max(1, (tt.n+MTU-1)/MTU)).AckReq())
			c.Gets(tt.got...)
			c.Fails(1, ibv.WCLocLenErr)
		})
	}
}

func TestResponsesOfTheWrongKind(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    Msg
		got  Packet
	}{
		{"READ response to FETCH_ADD", FetchAdd(1), RespOnly(0).Len(8)},
		{"READ response to COMPARE_SWAP", CompareSwap(1, 2), RespOnly(0)},
		{"READ response to SEND", Send(10), RespOnly(0)},
		{"READ response to WRITE", Write(10), RespFirst(0)},
		{"ATOMIC_ACKNOWLEDGE to READ", Read(8), AtomicAck(0, 5)},
		{"ATOMIC_ACKNOWLEDGE to SEND", Send(10), AtomicAck(0, 5)},
		{"ATOMIC_ACKNOWLEDGE to ATOMIC_WRITE", AtomicWrite(), AtomicAck(0, 5)},
		{"ATOMIC_ACKNOWLEDGE to FLUSH", Flush(8), AtomicAck(0, 5)},
		{"READ_RESPONSE_FIRST to FLUSH", Flush(8), RespFirst(0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "6.4-10")
			c.Post(tt.m, Send(1))
			c.Sends(tt.m.Packet(0), SendOnly(1).AckReq())
			c.Gets(tt.got)
			c.Fails(1, ibv.WCBadRespErr)
			c.Untouched()
		})
	}
}

func TestAtomicAcknowledge(t *testing.T) {
	c := RC(t, "6.4-11")
	c.Post(FetchAdd(1).Local(64), CompareSwap(1, 2).Local(128))
	c.Sends(FetchAdd(1).Packet(0), CompareSwap(1, 2).Packet(1))
	c.Gets(AtomicAck(0, 0x0102030405060708))
	c.Completes(Done(1))
	c.Gets(AtomicAck(1, 77))
	c.Completes(Done(2))
	c.LocalHasWord(64, 0x0102030405060708)
	c.LocalHasWord(128, 77)
}

func TestEmptyResponses(t *testing.T) {
	for _, m := range []Msg{Flush(8), AtomicWrite()} {
		c := RC(t, "6.4-12")
		c.Post(m, m)
		c.Sends(m.Packet(0), m.Packet(1))
		c.Gets(RespOnly(0))
		c.Completes(Done(1))
		c.Gets(RespOnly(1).Len(4))
		c.Fails(2, ibv.WCLocLenErr)
	}
}

func TestSequenceNak(t *testing.T) {
	for _, kept := range []bool{false, true} {
		c := RC(t, "6.4-13")
		c.Post(Send(1), Write(2*MTU), Send(3))
		c.Sends(SendOnly(0).AckReq(), WriteFirst(1), WriteLast(2).AckReq(), SendOnly(3).AckReq())
		c.Gets(NakSeq(2))
		c.Completes(Done(1))
		c.Sends(WriteLast(2).AckReq())
		if !kept {
			c.Gets(Ack(2))
			c.Completes(Done(2))
			c.Sends(SendOnly(3).AckReq())
			c.Gets(Ack(3))
			c.Completes(Done(3))
			continue
		}
		c.Gets(Ack(3))
		c.Completes(Done(2), Done(3))
		c.Idle()
	}
}

func TestRNRNakAcknowledgesWhatIsBefore(t *testing.T) {
	c := RC(t, "6.4-14")
	c.Post(Send(1), Write(10), Send(2*MTU))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), SendFirst(2), SendLast(3).AckReq())
	c.Gets(RNR(2, 12))
	c.Completes(Done(1), Done(2))
	c.At(wire.RNRTimer(12)).Sends(SendFirst(2), SendLast(3).AckReq())
}

func TestNaksAcknowledgeWhatIsBefore(t *testing.T) {
	for syn, status := range map[wire.Syndrome]ibv.WCStatus{
		wire.NakInvalidRequest: ibv.WCRemInvReqErr, wire.NakRemoteAccess: ibv.WCRemAccessErr, wire.NakRemoteOp: ibv.WCRemOpErr,
	} {
		for at := 1; at <= 3; at++ {
			c := RC(t, "6.4-15")
			c.Post(Send(1), Write(3*MTU), Send(3))
			c.Sends(SendOnly(0).AckReq(), WriteFirst(1), WriteMiddle(2), WriteLast(3).AckReq(), SendOnly(4).AckReq())
			c.Gets(Nak(at, syn))
			c.Completes(Done(1), Failed(2, status), Flushed(3))
			c.State(ibv.QPStateErr)
		}
	}
}

func TestNaksOfWhatIsAcknowledged(t *testing.T) {
	for _, p := range []Packet{NakSeq(1), RNR(1, 1), NakInvalid(1), NakAccess(1), NakOp(1), NakSeq(0), NakAccess(-1)} {
		c := threeSends(t, "6.4-16")
		c.Gets(p)
		c.Quiet()
		c.State(ibv.QPStateRTS)
		c.Gets(Ack(2))
		c.Completes(Done(3))
	}
}

func TestNakEndsAReadAnywhere(t *testing.T) {
	for at := range 3 {
		c := RC(t, "6.4-17")
		c.Post(Read(3*MTU), Send(1))
		c.Sends(ReadRequest(0).AckReq(), SendOnly(3).AckReq())
		c.Gets(RespFirst(0), RespMiddle(1), NakAccess(at))
		c.Fails(1, ibv.WCRemAccessErr)
	}
}
