package stage_test

import (
	"slices"
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestCompletionsAreInTheOrderOfPosting(t *testing.T) {
	c := RC(t, "6.9-1")
	c.Post(Read(10), Send(1), FetchAdd(1), Write(10), Read(0))
	c.Sends(ReadRequest(0).AckReq(), SendOnly(1).AckReq(), FetchAdd(1).Packet(2), WriteOnly(3).AckReq(), ReadRequest(4).AckReq())
	c.Gets(RespOnly(0), RespOnly(4)) // that of the atomic is lost
	c.Completes(Done(1), Done(2))
	c.Sends(FetchAdd(1).Packet(2), ReadRequest(4).AckReq())
	c.Gets(AtomicAck(2, 5), RespOnly(4))
	c.Completes(Done(3), Done(4), Done(5))
}

func TestUnsignaledWorkRequests(t *testing.T) {
	c := RC(t, "6.9-2")
	c.Post(Send(1).Unsignaled(), Read(10).Unsignaled(), Write(2), Write(3).Unsignaled(), Send(4).Unsignaled())
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq(), WriteOnly(2).AckReq(), WriteOnly(3).AckReq(), SendOnly(4).AckReq())
	c.Gets(Ack(0), RespOnly(1), Ack(2))
	c.Completes(Done(3))
	c.Gets(NakAccess(3))
	c.Completes(Failed(4, ibv.WCRemAccessErr), Flushed(5))
}

func TestSignalAll(t *testing.T) {
	c := RC(t, "6.9-2", SigAll())
	c.Post(Send(1).Unsignaled())
	c.Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0))
	c.Completes(Done(1))
}

func TestFence(t *testing.T) {
	for _, tt := range []struct {
		m      Msg
		answer Packet
	}{{Read(10), RespOnly(1)}, {FetchAdd(1), AtomicAck(1, 5)}, {CompareSwap(1, 2), AtomicAck(1, 5)}} {
		c := RC(t, "6.9-3")
		c.Post(Send(1), tt.m, Write(2*MTU).Flags(ibv.SendFence), Send(2))
		c.Sends(SendOnly(0).AckReq(), tt.m.Packet(1))
		c.Gets(Ack(0))
		c.Completes(Done(1))
		c.Quiet()
		c.Gets(tt.answer)
		c.Completes(Done(2))
		c.Sends(WriteFirst(2), WriteLast(3).AckReq(), SendOnly(4).AckReq())
	}
}

func TestFenceAfterSends(t *testing.T) {
	c := RC(t, "6.9-3")
	c.Post(Send(1), Write(2).Flags(ibv.SendFence), Read(3).Flags(ibv.SendFence), Read(4).Flags(ibv.SendFence))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), ReadRequest(2).AckReq())
	c.Gets(RespOnly(2))
	c.Completes(Done(1), Done(2), Done(3))
	c.Sends(ReadRequest(3).AckReq())
}

func TestNoFence(t *testing.T) {
	c := RC(t, "6.9-4")
	c.Post(Read(2*MTU), FetchAdd(1), Send(1), Write(2))
	c.Sends(ReadRequest(0).AckReq(), FetchAdd(1).Packet(2), SendOnly(3).AckReq(), WriteOnly(4).AckReq())
}

func TestWhatCompletesWorkRequests(t *testing.T) {
	c := RC(t, "6.9-5")
	c.Post(Send(1), Write(2), Read(2*MTU).Local(64), FetchAdd(1).Local(8))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), ReadRequest(2).AckReq(), FetchAdd(1).Packet(4))
	c.Completes()
	c.Gets(Ack(0))
	c.Completes(Done(1))
	c.Gets(Ack(1))
	c.Completes(Done(2))
	c.Gets(RespFirst(2))
	c.Completes()
	c.Gets(RespLast(3))
	c.Completes(Done(3))
	c.LocalHas(64, slices.Concat(PeerData(2, MTU), PeerData(3, MTU)))
	c.Gets(AtomicAck(4, 99))
	c.Completes(Done(4))
	c.LocalHasWord(8, 99)
}

func TestSentIsDone(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeUC, ibv.QPTypeUD} {
		c := On(t, typ, "6.9-6")
		n := map[ibv.QPType]int{ibv.QPTypeUC: 3 * MTU, ibv.QPTypeUD: MTU}[typ]
		c.Post(Send(n), Send(1))
		c.Completes()
		packets := (n+MTU-1)/MTU + 1
		for k := range packets {
			tx := transport.NewBatch(1)
			c.QP.Poll(c.Now(), tx)
			if len(tx.Intents) != 1 {
				t.Fatalf("packet %d: %d packets", k, len(tx.Intents))
			}
			switch k { // what the batch before had has been sent
			case packets - 1:
				c.Completes(Done(1))
			default:
				c.Completes()
			}
		}
		c.Quiet()
		c.Completes(Done(2))
		c.Idle()
	}
}

func TestInlineData(t *testing.T) {
	for _, m := range []Msg{Send(64), Write(9), SendImm(1), AtomicWrite()} {
		c := RC(t, "6.9-7")
		m = m.Flags(ibv.SendInline).LKey(0xBAD)
		c.Post(m)
		clear(c.Local(0, 64))
		c.Sends(m.Packet(0))
		c.LoseLocal()
		c.At(Timeout).Sends(m.Packet(0))
	}
}

func TestErrorFlushesBothQueues(t *testing.T) {
	c := RC(t, "6.9-8", OneCQ())
	c.Recv(10, 20, 30)
	c.Post(Send(1), Write(10), Read(10), Send(2))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), ReadRequest(2).AckReq(), SendOnly(3).AckReq())
	c.Gets(NakAccess(1))
	c.Completes(Done(1), Failed(2, ibv.WCRemAccessErr), Flushed(3), Flushed(4), Flushed(101), Flushed(102), Flushed(103))
	c.State(ibv.QPStateErr)
	c.Idle()
}

func TestSendErrorsOfUCAndUD(t *testing.T) {
	c := UC(t, "6.9-9")
	c.Recv(Short)
	c.Post(Write(10), Send(10).LKey(0xBAD), Send(1))
	c.Sends(WriteOnly(0))
	c.Completes(Done(1), Failed(2, ibv.WCLocProtErr), Flushed(3))
	c.State(ibv.QPStateSQE)
	c.Gets(WriteOnly(0), SendOnly(1))
	c.Receives(Received(101, Short))

	c = UD(t, "6.9-9")
	c.Recv(40 + Short)
	c.Post(Send(10).LKey(0xBAD), Send(1))
	c.Quiet()
	c.Completes(Failed(1, ibv.WCLocProtErr), Flushed(2))
	c.State(ibv.QPStateSQE)
	c.Gets(SendOnly(0))
	c.Receives(Datagram(101, Short))
}

func TestSharedReceivesAreNotFlushed(t *testing.T) {
	c := RC(t, "6.9-10", Shared())
	c.Recv(10, 2*MTU, 30)
	c.Gets(SendOnly(0).Len(10), SendFirst(1))
	c.Receives(Received(101, 10))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(NakAccess(0))
	c.Completes(Failed(1, ibv.WCRemAccessErr))
	c.Receives(Flushed(102)) // that was taken by the message in progress
	c.Events(ibv.EventQPLastWQEReached)
	c.Idle()
}

func TestSendQueueDrains(t *testing.T) {
	c := RC(t, "6.9-11", Window(2))
	c.Post(Write(4*MTU), Send(1))
	c.Sends(WriteFirst(0), WriteMiddle(1).AckReq())
	enter(c, ibv.QPStateSQD)
	c.Gets(Ack(1), WriteOnly(0).AckReq(), Read(10).Packet(1))
	c.Sends(RespOnly(1).MSN(2), WriteMiddle(2), WriteLast(3).AckReq())
	c.After(Timeout).Sends(WriteMiddle(2), WriteLast(3).AckReq())
	c.Gets(Ack(3))
	c.Completes(Done(1))
	c.Idle() // the SEND is not begun
}

// The SEND has been looked at, and waits for the window.
func TestWhatWaitsForTheWindowIsNotBegunInSQD(t *testing.T) {
	c := RC(t, "6.9-11", Window(2))
	c.Post(Write(2*MTU), Send(1))
	c.Sends(WriteFirst(0), WriteLast(1).AckReq())
	enter(c, ibv.QPStateSQD)
	c.Gets(Ack(1))
	c.Completes(Done(1))
	c.Idle()
	enter(c, ibv.QPStateRTS)
	c.Sends(SendOnly(2).AckReq())
}

func TestDrainedEvent(t *testing.T) {
	for _, notify := range []bool{false, true} {
		c := RC(t, "6.9-12")
		c.Post(Write(10), Read(10))
		c.Sends(WriteOnly(0).AckReq(), ReadRequest(1).AckReq())
		a := ibv.QPAttr{State: ibv.QPStateSQD, EnSQDAsyncNotify: notify}
		if err := c.Modify(&a, ibv.QPAttrState|ibv.QPAttrEnSQDAsyncNotify); err != nil {
			t.Fatal(err)
		}
		c.Gets(Ack(0))
		c.Events()
		c.Gets(RespOnly(1))
		c.Completes(Done(1), Done(2))
		if notify {
			c.Events(ibv.EventSQDrained)
		}
		c.Idle()
		c.Events()
	}
}

func TestLeavingSQD(t *testing.T) {
	c := RC(t, "6.9-13")
	c.Post(Write(10))
	c.Sends(WriteOnly(0).AckReq())
	enter(c, ibv.QPStateSQD)
	c.Post(Send(1), Read(10))
	c.Quiet()
	if err := c.Enter(ibv.QPStateRTS); err == nil {
		t.Fatal("left SQD before it had drained")
	}
	c.State(ibv.QPStateSQD)
	c.Gets(Ack(0))
	c.Completes(Done(1))
	c.Quiet()
	enter(c, ibv.QPStateRTS)
	c.Sends(SendOnly(1).AckReq(), ReadRequest(2).AckReq())
}

func TestLongDatagram(t *testing.T) {
	c := UD(t, "6.9-14")
	c.Post(Send(MTU), Send(MTU+1), Send(1))
	c.Sends(SendOnly(0))
	c.Completes(Done(1), Failed(2, ibv.WCLocLenErr), Flushed(3))
	c.State(ibv.QPStateSQE)
}

func TestMemoryIsCheckedBeforeTheFirstPacket(t *testing.T) {
	for _, m := range []Msg{Send(3 * MTU), Write(3 * MTU), Read(3 * MTU)} {
		for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC} {
			if typ == ibv.QPTypeUC && m.Packet(0).String() == "READ_REQUEST 0" {
				continue
			}
			c := On(t, typ, "6.9-15")
			c.Post(m.SGEs(
				queue.SGE{Addr: c.LocalVA(), Length: 3*MTU - 8, LKey: c.LocalKey()},
				queue.SGE{Addr: c.LocalVA() + AreaSize - 7, Length: 8, LKey: c.LocalKey()},
			))
			c.Quiet()
			c.Completes(Failed(1, ibv.WCLocProtErr))
		}
	}
}

func TestDestinationOfADatagram(t *testing.T) {
	c := UD(t, "6.9-16")
	c.Post(Send(1).To(0x33, 0x4444, AH), Send(2).To(0x55, 0x6666, AH), Send(3).To(0x55, 0, 99))
	c.Sends(SendOnly(0).DestQP(0x33).QKey(0x4444), SendOnly(1).DestQP(0x55).QKey(0x6666))
	c.Completes(Done(1), Done(2), Failed(3, ibv.WCLocQPOpErr)) // there is no path 99
	c.State(ibv.QPStateSQE)
}
