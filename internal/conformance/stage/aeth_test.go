package stage_test

import (
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestAckWithCreditsCompletes(t *testing.T) {
	c := RC(t, "5.1-1")
	for code := range uint8(31) {
		c.Post(Send(10))
		c.Sends(SendOnly(int(code)).AckReq())
		c.Gets(Ack(int(code)).Credits(code))
		c.Completes(Done(uint64(code) + 1))
	}
}

func TestAckWithoutCreditsCompletes(t *testing.T) {
	c := RC(t, "5.1-2")
	c.Post(Send(3 * MTU))
	c.Sends(SendFirst(0), SendMiddle(1), SendLast(2).AckReq())
	c.Gets(Ack(2).Credits(31))
	c.Completes(Done(1))
	c.Idle()
}

func TestEveryRNRCodeIsWaitedFor(t *testing.T) {
	for code := range uint8(32) {
		c := RC(t, "5.1-3")
		c.Rule("5.3-3")
		c.Post(Send(10))
		c.Sends(SendOnly(0).AckReq())
		c.Gets(RNR(0, code))
		c.At(wire.RNRTimer(code) - 1).Quiet()
		c.At(wire.RNRTimer(code)).Sends(SendOnly(0).AckReq())
		c.Counts(transport.RcvdRNRErr, 1)
	}
}

func TestSequenceNakSendsAgain(t *testing.T) {
	c := RC(t, "5.1-4")
	c.Post(Write(3 * MTU))
	c.Sends(WriteFirst(0), WriteMiddle(1), WriteLast(2).AckReq())
	c.At(time.Microsecond).Gets(NakSeq(1))
	c.Sends(WriteMiddle(1).AckReq())
	c.Gets(Ack(1)) // and not 2: it was not kept
	c.Sends(WriteLast(2).AckReq())
	c.Gets(Ack(2))
	c.Completes(Done(1))
}

func TestErrorNaks(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		syn    wire.Syndrome
		status ibv.WCStatus
	}{
		{"5.1-5", wire.NakInvalidRequest, ibv.WCRemInvReqErr},
		{"5.1-6", wire.NakRemoteAccess, ibv.WCRemAccessErr},
		{"5.1-7", wire.NakRemoteOp, ibv.WCRemOpErr},
		{"5.1-8", wire.NakInvalidRD, ibv.WCRemOpErr},
		{"5.1-8", 0x7F, ibv.WCRemOpErr},
	} {
		t.Run(tt.status.String(), func(t *testing.T) {
			c := RC(t, tt.rule)
			c.Post(Send(10), Write(10))
			c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq())
			c.Gets(Nak(0, tt.syn))
			c.Fails(1, tt.status)
			c.Idle()
		})
	}
}

func TestReservedSyndromesAreDropped(t *testing.T) {
	for _, syn := range []wire.Syndrome{0x40, 0x5F, 0x80, 0x9F, 0xA0, 0xE0, 0xFF} {
		c := RC(t, "5.1-9")
		c.Post(Send(10))
		c.Sends(SendOnly(0).AckReq())
		c.Gets(Nak(0, syn))
		c.Quiet()
		c.Counts(transport.DropSyndrome, 1)
		c.Gets(Ack(0))
		c.Completes(Done(1))
	}
}
