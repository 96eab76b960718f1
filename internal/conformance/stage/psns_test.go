package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
)

func TestHalfOfAllPSNsAreAhead(t *testing.T) {
	c := RC(t, "6.1-1")
	c.Gets(WriteOnly(1<<23 - 1))
	c.Sends(NakSeq(0))
	c.Gets(WriteOnly(1 << 23)) // is 2^23 before
	c.Sends(Ack(-1))
	c.Untouched()
}

func TestEveryRequestPacketTakesAPSN(t *testing.T) {
	c := RC(t, "6.1-2")
	c.Post(Send(0), Write(0), Write(3*MTU), Send(1))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), WriteFirst(2), WriteMiddle(3), WriteLast(4).AckReq(), SendOnly(5).AckReq())
	c.Recv(10)
	c.Gets(WriteOnly(0).Len(0), WriteFirst(1), WriteLast(2), SendOnly(3).Len(0).AckReq())
	c.Sends(Ack(3))
	c.Receives(Received(101, 0))
}

func TestReadTakesThePSNsOfItsResponses(t *testing.T) {
	c := RC(t, "6.1-3")
	c.Post(Read(0), Read(MTU), Read(MTU+1), Send(1))
	c.Sends(ReadRequest(0).AckReq(), ReadRequest(1).AckReq(), ReadRequest(2).AckReq(), SendOnly(4).AckReq())
	for _, read := range []struct{ n, psn, next int }{{0, 0, 1}, {MTU, 2, 3}, {3*MTU - 1, 4, 7}} {
		c.Gets(Read(read.n).Packet(read.psn))
		c.Discard()
		c.Gets(WriteOnly(read.next).AckReq())
		c.Sends(Ack(read.next))
	}
}

func TestAtomicsAndFlushTakeAPSN(t *testing.T) {
	c := RC(t, "6.1-4")
	c.Post(FetchAdd(1), CompareSwap(2, 3), AtomicWrite(), Flush(8*MTU), Write(10))
	c.Sends(FetchAdd(1).Packet(0), CompareSwap(2, 3).Packet(1), AtomicWrite().Packet(2), Flush(8*MTU).Packet(3), WriteOnly(4).AckReq())
	c.SetWord(0, 7)
	for k, m := range []Msg{FetchAdd(1), CompareSwap(8, 9), AtomicWrite(), Flush(8 * MTU)} {
		c.Gets(m.Packet(k))
		c.Sends([]Packet{AtomicAck(0, 7), AtomicAck(1, 8), RespOnly(2), RespOnly(3)}[k])
	}
	c.Gets(WriteOnly(4).AckReq())
	c.Sends(Ack(4))
}

func TestAckCoversWhatIsBefore(t *testing.T) {
	c := RC(t, "6.1-5")
	c.Gets(WriteOnly(0), WriteFirst(1), WriteLast(2).AckReq())
	c.Sends(Ack(2))
	c.Gets(WriteOnly(3))
	c.Quiet()
	c.Post(Send(1), Write(2*MTU), Send(1))
	c.Sends(SendOnly(0).AckReq(), WriteFirst(1), WriteLast(2).AckReq(), SendOnly(3).AckReq())
	c.Gets(Ack(2))
	c.Completes(Done(1), Done(2))
}

// PSNs count from SQPSN and RQPSN here, and wrap in the midst of the messages.
func TestMessagesSpanTheWrap(t *testing.T) {
	c := RC(t, "6.1-6")
	c.Post(Write(6*MTU), Read(3*MTU))
	c.Sends(append(Write(6*MTU).From(0), ReadRequest(6).AckReq())...)
	c.Gets(Ack(5), RespFirst(6), RespMiddle(7), RespLast(8))
	c.Completes(Done(1), Done(2))
	c.Gets(Write(6 * MTU).From(0)...)
	c.Sends(Ack(5))
	c.RemoteHas(0, Payload(Write(6*MTU).From(0)...))
}
