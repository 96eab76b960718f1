package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func TestFirstMessageHasMSN1(t *testing.T) {
	c := RC(t, "5.4-1")
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0).MSN(1))
	c.Gets(WriteOnly(1), WriteOnly(2).AckReq())
	c.Sends(Ack(2).MSN(3))
}

func TestMSNBeginsAnew(t *testing.T) {
	c := RC(t, "5.4-1")
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0).MSN(1))
	for _, state := range []ibv.QPState{ibv.QPStateReset, ibv.QPStateInit, ibv.QPStateRTR} {
		if err := c.Enter(state); err != nil {
			t.Fatal(err)
		}
	}
	c.Gets(WriteOnly(0).AckReq())
	c.Events(ibv.EventCommEst)
	c.Sends(Ack(0).MSN(1))
}

func TestMessageCountsWithItsLastPacket(t *testing.T) {
	c := RC(t, "5.4-3")
	c.Recv(2 * MTU)
	c.Gets(WriteFirst(0).AckReq().Range(0, 2*MTU))
	c.Sends(Ack(0).MSN(0))
	c.Gets(WriteLast(1).AckReq().Len(MTU))
	c.Sends(Ack(1).MSN(1))
	c.Gets(SendFirst(2).AckReq())
	c.Sends(Ack(2).MSN(1))
	c.Gets(SendLast(3).AckReq())
	c.Sends(Ack(3).MSN(2))
	c.Receives(Received(101, MTU+Short))
}

func TestReadCountsBeforeItsFirstResponse(t *testing.T) {
	c := RC(t, "5.4-4")
	c.Gets(Read(3 * MTU).Packet(0))
	c.Sends(RespFirst(0).MSN(1), RespMiddle(1), RespLast(2).MSN(1))
}

func TestAtomicsAndFlushCount(t *testing.T) {
	c := RC(t, "5.4-5")
	c.SetWord(0, 40)
	c.Gets(FetchAdd(2).Packet(0))
	c.Sends(AtomicAck(0, 40).MSN(1))
	c.Gets(AtomicWrite().Packet(1))
	c.Sends(RespOnly(1).MSN(2))
	c.Gets(Flush(64).Packet(2))
	c.Sends(RespOnly(2).MSN(3))
	c.Gets(CompareSwap(1, 2).Remote(8).Packet(3).Range(8, 8))
	c.Sends(AtomicAck(3, wordAt(c, 8)).MSN(4))
}

func TestDuplicatesDoNotCount(t *testing.T) {
	c := RC(t, "5.4-6")
	c.Gets(WriteOnly(0), Read(10).Packet(1))
	c.Sends(RespOnly(1).MSN(2))
	c.Gets(Read(10).Packet(1))
	c.Sends(RespOnly(1).MSN(2))
	c.Gets(WriteOnly(0))
	c.Sends(Ack(0).MSN(2))
	c.Gets(SendOnly(2))
	c.Sends(RNR(2, 12).MSN(2))
}

func TestNaksHaveTheCountBefore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refused Packet
		answer  Packet
	}{
		{"no receive", SendOnly(1), RNR(1, 12)},
		{"gap", WriteOnly(2), NakSeq(1)},
		{"wrong key", WriteOnly(1).Key(1), NakAccess(1)},
		{"wrong sequence", WriteLast(1), NakInvalid(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "5.4-7")
			c.Gets(WriteOnly(0), tt.refused)
			if tt.name == "no receive" || tt.name == "gap" {
				c.Sends(tt.answer.MSN(1))
			} else {
				c.Refuses(tt.answer.MSN(1))
			}
		})
	}
}

func TestMSNCompletesNothing(t *testing.T) {
	c := RC(t, "5.4-8")
	c.Post(Send(10), Send(20))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Gets(Ack(0).MSN(2))
	c.Completes(Done(1))
	c.Gets(Ack(1).MSN(1))
	c.Completes(Done(2))
}
