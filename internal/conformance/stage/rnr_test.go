package stage_test

import (
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// rnrWait is the time of RNR timer code 12.
const rnrWait = 640 * time.Microsecond

func TestRNRRetryCount(t *testing.T) {
	for _, tt := range []struct {
		count uint8
		bears int
	}{{0, 0}, {1, 1}, {3, 3}, {6, 6}} {
		c := RC(t, "6.5-7", rnrRetries(tt.count))
		c.Post(Send(1))
		c.Sends(SendOnly(0).AckReq())
		for range tt.bears {
			c.Gets(RNR(0, 12))
			c.After(rnrWait).Sends(SendOnly(0).AckReq())
		}
		c.Gets(RNR(0, 12))
		c.Fails(1, ibv.WCRNRRetryExcErr)
	}
}

func TestRNRRetrySevenHasNoLimit(t *testing.T) {
	c := RC(t, "6.5-7", rnrRetries(7))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	for range 300 {
		c.Gets(RNR(0, 12))
		c.After(rnrWait).Sends(SendOnly(0).AckReq())
	}
}

func TestRNRNaksInARow(t *testing.T) {
	c := RC(t, "6.5-7", rnrRetries(1))
	c.Post(Send(1), Send(2), Send(3))
	all := []Packet{SendOnly(0).AckReq(), SendOnly(1).AckReq(), SendOnly(2).AckReq()}
	c.Sends(all...)
	for k := range 3 {
		c.Gets(RNR(k, 12))
		c.After(rnrWait).Sends(all[k:]...)
		c.Gets(Ack(k))
		c.Completes(Done(uint64(k + 1)))
	}
}

func TestRNRNaksAreNoRetries(t *testing.T) {
	c := RC(t, "6.5-8", retries(1), rnrRetries(7))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	for range 10 {
		c.Gets(RNR(0, 12))
		c.After(rnrWait).Sends(SendOnly(0).AckReq())
	}
	c.After(Timeout).Sends(SendOnly(0).AckReq())
	c.After(2*Timeout).Fails(1, ibv.WCRetryExcErr)
}

func TestNothingIsSentWhileWaiting(t *testing.T) {
	c := RC(t, "6.5-12")
	c.Post(Send(1), Write(10))
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq())
	c.Gets(RNR(0, 12))
	c.Quiet()
	c.At(rnrWait/2).Post(Write(20), Read(5))
	c.Quiet()
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0)) // what the peer asks for is another matter
	c.At(rnrWait).Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq(), WriteOnly(2).AckReq(), ReadRequest(3).AckReq())
}

// Rdma_rxe says both: RNR, and then that what came behind is a gap.
func TestSequenceNakWhileWaiting(t *testing.T) {
	c := RC(t, "6.5-13", retries(0))
	c.Post(Send(1), Send(2))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Gets(RNR(0, 12), NakSeq(0))
	c.Quiet()
	c.At(rnrWait / 2).Gets(NakSeq(0))
	c.At(rnrWait).Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Gets(Ack(1))
	c.Completes(Done(1), Done(2))
}

func TestSecondRNRNakWhileWaiting(t *testing.T) {
	c := RC(t, "6.5-14", rnrRetries(2))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(RNR(0, 12))
	c.At(rnrWait/2).Gets(RNR(0, 12), RNR(0, 20))
	c.At(rnrWait).Sends(SendOnly(0).AckReq())
	c.Gets(RNR(0, 12))
	c.At(2 * rnrWait).Sends(SendOnly(0).AckReq())
	c.Gets(RNR(0, 12))
	c.Fails(1, ibv.WCRNRRetryExcErr)
}
