package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
)

func TestAckReqEndsAMessage(t *testing.T) {
	c := RC(t, "6.3-1")
	c.Post(Send(10), Write(2*MTU), Read(10), FetchAdd(1), AtomicWrite(), Flush(8))
	c.Sends(SendOnly(0).AckReq(), WriteFirst(1), WriteLast(2).AckReq(), ReadRequest(3).AckReq(),
		FetchAdd(1).Packet(4), AtomicWrite().Packet(5), Flush(8).Packet(6))
}

func TestAckReqInsideAMessage(t *testing.T) {
	c := RC(t, "6.3-2", Window(128), BatchOf(128))
	c.Post(Write(70*MTU), Send(1), Write(40*MTU))
	want := append(Write(70*MTU).From(0), SendOnly(70).AckReq())
	want = append(want, Write(40*MTU).From(71)...)
	for _, k := range []int{31, 63, 71 + 31} {
		want[k] = want[k].AckReq()
	}
	c.Sends(want...)
}

func TestAckReqBeforeAStop(t *testing.T) {
	c := RC(t, "6.3-3", Window(3))
	c.Post(Write(9 * MTU))
	c.Sends(WriteFirst(0), WriteMiddle(1), WriteMiddle(2).AckReq())
	c.Gets(Ack(0))
	c.Sends(WriteMiddle(3).AckReq())

	c = RC(t, "6.3-3", BatchOf(3))
	c.Post(Write(7 * MTU))
	c.Sends(WriteFirst(0), WriteMiddle(1), WriteMiddle(2).AckReq(), WriteMiddle(3), WriteMiddle(4), WriteMiddle(5).AckReq(), WriteLast(6).AckReq())
}

func TestNoAckReqWithoutAcks(t *testing.T) {
	c := UC(t, "6.3-4", BatchOf(2))
	c.Post(Send(3*MTU), WriteImm(10))
	c.Sends(SendFirst(0), SendMiddle(1), SendLast(2), WriteOnlyImm(3))
	c.Completes(Done(1), Done(2))
	c = UD(t, "6.3-4")
	c.Post(Send(10))
	c.Sends(SendOnly(0))
	c.Completes(Done(1))
}

func TestAnswersHaveNoAckReq(t *testing.T) {
	c := RC(t, "6.3-4")
	c.SetWord(0, 5)
	c.Gets(Read(3*MTU).Packet(0), WriteOnly(3).AckReq())
	c.Sends(RespFirst(0).MSN(2), RespMiddle(1), RespLast(2).MSN(2), Ack(3))
	c.Gets(FetchAdd(1).Packet(4))
	c.Sends(AtomicAck(4, wordAt(c, 0)-1))
	c.Gets(SendOnly(5).AckReq())
	c.Sends(RNR(5, 12))
	c.Gets(WriteOnly(5).AckReq().Key(1))
	c.Refuses(NakAccess(5))
}

func TestOneAckForABatch(t *testing.T) {
	c := RC(t, "6.3-5")
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0))
	c.Gets(WriteOnly(1).AckReq(), WriteOnly(2), WriteOnly(3).AckReq())
	c.Sends(Ack(3))
}

func TestNoAckUnlessAsked(t *testing.T) {
	c := RC(t, "6.3-6")
	c.Recv(Short)
	c.Gets(WriteOnly(0), WriteFirst(1), WriteLast(2), SendOnly(3))
	c.Idle()
	c.Receives(Received(101, Short))
}

func TestReadsAndAtomicsAreAnsweredUnasked(t *testing.T) {
	c := RC(t, "6.3-7")
	c.SetWord(0, 5)
	c.Gets(Read(10).Packet(0).NoAckReq())
	c.Sends(RespOnly(0))
	c.Gets(FetchAdd(1).Packet(1).NoAckReq())
	c.Sends(AtomicAck(1, 5))
	c.Gets(CompareSwap(1, 2).Packet(2).NoAckReq())
	c.Sends(AtomicAck(2, 6))
}

func TestAckReqWithoutAcksMeansNothing(t *testing.T) {
	c := UC(t, "6.3-8")
	c.Recv(Short)
	c.Gets(WriteOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Idle()
	c.Receives(Received(101, Short))
	c = UD(t, "6.3-8")
	c.Recv(40 + Short)
	c.Gets(SendOnly(0).AckReq())
	c.Idle()
	c.Receives(Datagram(101, Short))
}
