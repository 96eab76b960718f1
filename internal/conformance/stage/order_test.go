package stage_test

import (
	"encoding/binary"
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestGapIsNaked(t *testing.T) {
	for _, p := range []Packet{WriteOnly(1), WriteOnly(1000), SendOnly(1), Read(10).Packet(1), FetchAdd(1).Packet(2), WriteLast(7), WriteOnly(1).Key(1)} {
		c := RC(t, "6.6-1")
		c.Recv(Short)
		c.Gets(p)
		c.Sends(NakSeq(0))
		c.Untouched()
		c.Gets(WriteOnly(0).AckReq())
		c.Sends(Ack(0))
	}
}

func TestOneNakForAGap(t *testing.T) {
	c := RC(t, "6.6-2")
	c.Gets(WriteOnly(1), WriteOnly(2))
	c.Sends(NakSeq(0))
	c.Gets(WriteOnly(3).AckReq(), Read(10).Packet(1), WriteOnly(9))
	c.Quiet()
	c.Untouched()
}

// While no round trip is known, a millisecond is given, and then twice as long
// each time.
func TestNakIsRenewed(t *testing.T) {
	c := RC(t, "6.6-2")
	c.Gets(WriteOnly(1))
	c.Sends(NakSeq(0))
	for at := range 6 {
		c.At((1<<(at+1) - 1) * time.Millisecond).Sends(NakSeq(0))
	}
	c.Gets(WriteOnly(1).AckReq())
	c.After(time.Hour).Idle()
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0))
	c.Idle()
	c.Counts(transport.RenewedNaks, 6)
}

func TestGapBehindAGapIsNakedAtOnce(t *testing.T) {
	c := RC(t, "6.6-3", KeepBudget(8))
	c.Gets(WriteOnly(1), WriteOnly(3).AckReq())
	c.Sends(NakSeq(0))
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(NakSeq(2))
	c.Gets(WriteOnly(2).AckReq())
	c.Sends(Ack(3))
}

func TestEachGapIsNaked(t *testing.T) {
	c := RC(t, "6.6-3")
	c.Gets(WriteOnly(1))
	c.Sends(NakSeq(0))
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0))
	c.Gets(WriteOnly(2))
	c.Sends(NakSeq(1))
	c.Gets(Read(3 * MTU).Packet(1))
	c.Sends(RespFirst(1).MSN(2), RespMiddle(2), RespLast(3).MSN(2))
	c.Gets(WriteOnly(5))
	c.Sends(NakSeq(4).MSN(2))
}

func TestExpectedPSNMovesByWhatIsUsed(t *testing.T) {
	c := RC(t, "6.6-4")
	c.Recv(0)
	next := 0
	for _, tt := range []struct {
		m    Msg
		uses int
	}{{Write(3 * MTU), 3}, {Send(0), 1}, {Read(4*MTU - 1), 4}, {FetchAdd(1), 1}, {AtomicWrite(), 1}, {Flush(5 * MTU), 1}, {Read(0), 1}, {Write(0), 1}} {
		c.Gets(tt.m.From(next)...)
		c.Discard()
		next += tt.uses
		c.Gets(WriteOnly(next).AckReq())
		c.Sends(Ack(next))
		next++
	}
}

func TestRequestsAreExecutedInOrder(t *testing.T) {
	c := RC(t, "6.6-28")
	c.SetWord(0, 1)
	word := binary.NativeEndian.AppendUint64(nil, 100)
	c.Gets(FetchAdd(1).Packet(0), WriteOnly(1).Data(word), FetchAdd(2).Packet(2), CompareSwap(102, 7).Packet(3), WriteOnly(4).Range(64, 8).Len(8))
	c.Sends(AtomicAck(0, 1).MSN(5), AtomicAck(2, 100).MSN(5), AtomicAck(3, 102).MSN(5))
	c.RemoteHasWord(0, 7)
}

func TestAcksDoNotPassReadResponses(t *testing.T) {
	c := RC(t, "6.6-28", BatchOf(2))
	c.SetWord(16*MTU, 4)
	c.Gets(Read(3*MTU).Packet(0), Write(Short).Remote(8*MTU).Packet(3), Read(MTU).Packet(4), FetchAdd(1).Remote(16*MTU).Packet(5))
	c.Sends(RespFirst(0).MSN(4), RespMiddle(1), RespLast(2).MSN(4), RespOnly(4).MSN(4), AtomicAck(5, 4))
	c.Gets(Read(2*MTU).Packet(6), Write(Short).Remote(8*MTU).Packet(8))
	c.Sends(RespFirst(6).MSN(6), RespLast(7).MSN(6), Ack(8))
}

func TestReceiveShowsThatWritesArePlaced(t *testing.T) {
	c := RC(t, "6.6-29")
	c.Recv(Short)
	c.Gets(Write(3*MTU + 5).From(0)...)
	c.Gets(SendOnly(4))
	c.Receives(Received(101, Short))
	c.RemoteHas(0, Payload(Write(3*MTU+5).From(0)...))
	c.Sends(Ack(4))
}

func TestCommunicationEstablished(t *testing.T) {
	for _, good := range [][]Packet{{WriteOnly(0), WriteOnly(1)}, {SendFirst(0), SendLast(1)}, {Read(10).Packet(0), SendOnly(1)}} {
		c := RC(t, "6.6-30", In(ibv.QPStateRTR))
		c.Recv(MTU + Short)
		c.Gets(WriteOnly(1), WriteOnly(0).PKey(1), WriteOnly(-1))
		c.Events()
		c.Gets(good[0])
		c.Events(ibv.EventCommEst)
		c.Gets(good[1])
		c.Events()
		c.Discard()
	}
}

func TestFieldsOfAnAck(t *testing.T) {
	c := RC(t, "6.6-31")
	c.Recv(Short)
	c.Gets(WriteOnly(0).AckReq(), SendOnly(1).AckReq().SE().PKey(0x7FFF))
	c.Sends(Ack(1).PKey(0xFFFF).DestQP(PeerQPN))
	c.Receives(Received(101, Short))
}

func TestWhatWasAcceptedIsAnsweredBeforeTheNak(t *testing.T) {
	c := RC(t, "6.6-32")
	c.SetWord(0, 3)
	c.Gets(FetchAdd(1).Packet(0), Read(2*MTU).Packet(1), WriteOnly(3).Range(4*MTU, Short).AckReq(), WriteOnly(4).Key(1))
	c.Sends(AtomicAck(0, 3).MSN(3), RespFirst(1).MSN(3), RespLast(2).MSN(3), NakAccess(4))
	c.Events(ibv.EventQPAccessErr)
	c.State(ibv.QPStateErr)
	c.Counts(transport.SentNaks, 1)
	c.Idle()
}
