package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestAcksTellPostedReceives(t *testing.T) {
	for _, tt := range []struct {
		posted int
		code   uint8
	}{{0, 0}, {1, 1}, {3, 3}, {4, 4}, {5, 4}, {6, 5}, {7, 5}, {8, 6}, {12, 7}, {15, 7}} {
		c := RC(t, "5.2-2")
		for range tt.posted {
			c.Recv(10)
		}
		c.Gets(WriteOnly(0).AckReq())
		c.Sends(Ack(0).Credits(tt.code))
	}
}

func TestReceivesInUseAreNoCredit(t *testing.T) {
	c := RC(t, "5.2-2")
	c.Recv(2*MTU, 2*MTU)
	c.Gets(SendFirst(0).AckReq())
	c.Sends(Ack(0).Credits(1))
	c.Gets(SendLast(1).AckReq())
	c.Sends(Ack(1).Credits(1))
	c.Receives(Received(101, MTU+Short))
}

func TestSharedReceivesAreNoCredit(t *testing.T) {
	c := RC(t, "5.2-3", Shared())
	c.Recv(10, 10, 10)
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0).Credits(wire.NoCredits))
}

func TestResponsesTellPostedReceives(t *testing.T) {
	c := RC(t, "5.2-4")
	c.Recv(10, 10, 10, 10)
	c.SetWord(0, 7)
	c.Gets(Read(2*MTU).Packet(0), FetchAdd(1).Packet(2), Read(8).Packet(3))
	c.Sends(RespFirst(0).MSN(3).Credits(4), RespLast(1).MSN(3).Credits(4), AtomicAck(2, 7).MSN(3).Credits(4), RespOnly(3).Credits(4))
}

func TestNoCreditStallsNothing(t *testing.T) {
	c := RC(t, "5.2-5")
	c.Post(Send(10))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0).Credits(0))
	c.Completes(Done(1))
	c.Post(Send(10), WriteImm(10), Send(10))
	c.Sends(SendOnly(1).AckReq(), WriteOnlyImm(2).AckReq(), SendOnly(3).AckReq())
}

func TestRNRNakHasTheTimerOfTheResponder(t *testing.T) {
	for code := range uint8(32) {
		c := RC(t, "5.3-2", Attr(func(a *ibv.QPAttr) { a.MinRNRTimer = code }))
		c.Gets(SendOnly(0).AckReq())
		c.Sends(RNR(0, code))
	}
}
