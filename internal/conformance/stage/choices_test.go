package stage_test

import (
	"bytes"
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Sends wants M in every packet; here are packets of all kinds, in answer to a
// peer that does not set it.
func TestMigReqIsSet(t *testing.T) {
	clear := func(b *wire.BTH) { b.SetMigReq(false) }
	c := RC(t, "14-1")
	c.Post(Send(3*MTU), Write(10), Read(10), FetchAdd(1).Local(64), AtomicWrite(), Flush(8))
	c.Sends(SendFirst(0), SendMiddle(1), SendLast(2).AckReq(), WriteOnly(3).AckReq(), ReadRequest(4).AckReq(),
		FetchAdd(1).Packet(5), AtomicWrite().Packet(6), Flush(8).Packet(7))
	c.Gets(Ack(3), RespOnly(4), AtomicAck(5, 0), RespOnly(6), RespOnly(7))
	c.Completes(Done(1), Done(2), Done(3), Done(4), Done(5), Done(6))
	c.Gets(WriteOnly(0).AckReq().BTH(clear).Range(MTU, Short))
	c.Sends(Ack(0))
	c.Gets(Read(3 * MTU).Packet(1).BTH(clear))
	c.Sends(RespFirst(1), RespMiddle(2), RespLast(3))
	c.Gets(FetchAdd(0).Packet(4).BTH(clear))
	c.Sends(AtomicAck(4, wordAt(c, 0)))
	c.Gets(SendOnly(5).BTH(clear))
	c.Sends(RNR(5, 12))
	c.Gets(WriteOnly(5).Key(0xBAD).BTH(clear))
	c.Refuses(NakAccess(5))

	c = UC(t, "14-1")
	c.Post(Write(2 * MTU))
	c.Sends(WriteFirst(0), WriteLast(1))
	c.Completes(Done(1))

	c = UD(t, "14-1")
	c.Post(Send(10))
	c.Sends(SendOnly(0))
	c.Completes(Done(1))
}

func TestAckOfTheNewest(t *testing.T) {
	c := RC(t, "14-2")
	c.Recv(100, 100)
	c.Gets(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), SendOnly(2).AckReq(), WriteFirst(3), WriteLast(4).AckReq())
	c.Sends(Ack(4))
	c.Receives(Received(101, Short), Received(102, Short))
	c.Gets(WriteOnly(5).AckReq(), WriteOnly(6)) // which does not ask
	c.Sends(Ack(6))
}

func TestAcksAreDueAtOnce(t *testing.T) {
	c := RC(t, "14-3")
	c.At(Timeout)
	c.Gets(WriteOnly(0).AckReq())
	c.Due(Timeout)
	c.Sends(Ack(0))
	c.Idle()
	c.Gets(WriteOnly(1)) // which does not ask
	c.Idle()
}

func TestDuplicatesAreAcknowledgedUnasked(t *testing.T) {
	c := RC(t, "14-4")
	c.Recv(100)
	c.Gets(SendOnly(0), WriteOnly(1), WriteFirst(2), WriteLast(3))
	c.Receives(Received(101, Short))
	c.Idle()
	for _, p := range []Packet{SendOnly(0), WriteOnly(1), WriteFirst(2), WriteLast(3)} {
		c.Gets(p)
		c.Sends(Ack(3))
	}
	c.Receives()
}

// TestReadOfSeveralWindows: with 4 READs possible, a window of 16 PSNs is asked for
// in pieces of 4, each of which is a READ of its own when it is asked for again.
func TestReadOfSeveralWindows(t *testing.T) {
	c := RC(t, "14-5", Window(16))
	c.Post(Read(18 * MTU))
	piece := func(k, n int) Packet { return ReadRequest(k).Range(k*MTU, n*MTU).AckReq() }
	c.Sends(piece(0, 4), piece(4, 4), piece(8, 4), piece(12, 4))
	c.Gets(RespFirst(0), RespMiddle(1), RespMiddle(2), RespLast(3).Len(MTU))
	c.Sends(piece(16, 2))
	c.Gets(RespFirst(4), RespMiddle(5))
	c.At(Timeout).Sends(piece(6, 2), piece(8, 4), piece(12, 4), piece(16, 2))
	c.Gets(RespFirst(6), RespLast(7).Len(MTU))
	c.Gets(RespFirst(8), RespMiddle(9), RespMiddle(10), RespLast(11).Len(MTU))
	c.Gets(RespFirst(12), RespMiddle(13), RespMiddle(14), RespLast(15).Len(MTU))
	c.Gets(RespFirst(16), RespLast(17).Len(MTU))
	c.Completes(Done(1))
	for k := range 18 {
		c.LocalHas(k*MTU, PeerData(k, MTU))
	}
}

func TestPacketsAfterAGapAreKept(t *testing.T) {
	c := RC(t, "14-6", KeepBudget(2))
	packets := Write(5 * MTU).From(0)
	c.Gets(packets[0], packets[2], packets[3], packets[4]) // the last is more than the budget
	c.Sends(NakSeq(1))
	c.Counts(transport.OutOfOrderKept, 2)
	c.Gets(packets[1])
	c.Gets(packets[4])
	c.Sends(Ack(4))
	c.Counts(transport.OutOfOrderUsed, 2)
	c.RemoteHas(0, Payload(packets...))
}

// What nobody kept and what was kept look the same on the wire.
func TestKeepingIsInvisible(t *testing.T) {
	for _, budget := range []int{0, 8} {
		c := RC(t, "14-6", KeepBudget(budget))
		packets := Write(4 * MTU).From(0)
		c.Gets(packets[1], packets[2])
		c.Sends(NakSeq(0))
		c.Gets(packets...)
		c.Sends(Ack(3))
		c.RemoteHas(0, Payload(packets...))
	}
}

func TestKeptPacketsAreUsedOnce(t *testing.T) {
	c := RC(t, "14-7", KeepBudget(8))
	c.SetWord(0, 5)
	c.Recv(100, 100)
	add, send := FetchAdd(1).Packet(1), SendOnly(2).AckReq()
	c.Gets(add, send, add, send)
	c.Sends(NakSeq(0))
	c.Counts(transport.OutOfOrderKept, 2)
	c.Gets(WriteOnly(0).Range(MTU, Short), add, send)
	c.Sends(AtomicAck(1, 5).MSN(3), Ack(2))
	c.RemoteHasWord(0, 6)
	c.Receives(Received(101, Short))
}

func TestNothingIsKeptAfterRNR(t *testing.T) {
	c := RC(t, "14-8", KeepBudget(8))
	fresh := bytes.Clone(c.Remote(0, Short))
	send, write := SendOnly(0).AckReq(), WriteOnly(1).AckReq()
	c.Gets(send, write)
	c.Counts(transport.OutOfOrderKept, 0)
	c.Discard()
	c.Recv(100)
	c.Gets(send)
	c.Sends(Ack(0)) // not of the WRITE
	c.RemoteHas(0, fresh)
	c.Receives(Received(101, Short))
	c.Gets(write)
	c.Sends(Ack(1))
	c.RemoteHas(0, PeerData(1, Short))
}

func TestFullCompletionQueue(t *testing.T) {
	c := RC(t, "14-9", CQEntries(2))
	c.Post(Send(1), Send(1), Send(1), Send(1), Send(1))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq(), SendOnly(2).AckReq(), SendOnly(3).AckReq(), SendOnly(4).AckReq())
	c.Gets(Ack(4))
	c.Completes(Done(1), Done(2))
	c.Events(ibv.EventCQErr, ibv.EventQPFatal)
	c.State(ibv.QPStateErr)

	c = RC(t, "14-9", CQEntries(2))
	c.Recv(100, 100, 100, 100)
	c.Gets(SendOnly(0), SendOnly(1), SendOnly(2), SendOnly(3))
	c.Receives(Received(101, Short), Received(102, Short))
	c.Events(ibv.EventCQErr, ibv.EventQPFatal)
	c.State(ibv.QPStateErr)
	c.Idle()
}

func TestSendsThatFailLocallyFailInOrder(t *testing.T) {
	for _, wrong := range []struct {
		Msg
		status ibv.WCStatus
	}{
		{Send(10).LKey(0xBAD), ibv.WCLocProtErr},
		{Read(10).LKey(0xBAD), ibv.WCLocProtErr},
		{Send(10).Edit(func(w *queue.SendWQE) { w.Opcode = 13 }), ibv.WCLocQPOpErr},
		{Send(10).Edit(func(w *queue.SendWQE) { w.NumSGE = 100 }), ibv.WCLocQPOpErr},
	} {
		c := RC(t, "14-14")
		c.Post(Send(10), Read(10), wrong.Msg, Send(10))
		c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
		c.Completes()
		c.State(ibv.QPStateRTS)
		c.Gets(Ack(0), RespOnly(1))
		c.Completes(Done(1), Done(2), Failed(3, wrong.status), Flushed(4))
		c.State(ibv.QPStateErr)
	}
}

func TestSharedReceivesGoToWhoComesFirst(t *testing.T) {
	c := RC(t, "14-12", Shared())
	c.Recv(700, 100)
	c.Gets(SendFirst(0))
	c.Gets(SendLast(1).AckReq(), SendOnly(2).AckReq())
	c.Sends(Ack(2))
	c.Receives(Received(101, MTU+Short), Received(102, Short))
}

func TestSharedReceiveOfARefusedPacket(t *testing.T) {
	c := UD(t, "14-12", Shared())
	c.Recv(100) // too short for the area of 40 bytes and the first datagram
	c.Gets(SendOnly(0).Len(61), SendOnly(1).QKey(1), SendOnly(2).Len(60))
	c.Receives(Datagram(101, 60))
}

func TestLimitOfASharedQueue(t *testing.T) {
	c := RC(t, "14-13", Shared())
	c.Recv(100, 100, 100, 100, 100)
	c.SRQ.SetLimit(3)
	c.Gets(SendOnly(0), SendOnly(1))
	c.Events() // three are left
	c.Gets(SendOnly(2))
	c.Events(ibv.EventSRQLimitReached)
	c.Gets(SendOnly(3), SendOnly(4))
	c.Receives(Received(101, Short), Received(102, Short), Received(103, Short), Received(104, Short), Received(105, Short))
	c.Events()
}
