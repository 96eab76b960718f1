package stage_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func timeoutCode(code uint8) Option { return Attr(func(a *ibv.QPAttr) { a.Timeout = code }) }

func TestTimeout(t *testing.T) {
	for _, code := range []uint8{1, 8, 14, 20, 31} {
		c := RC(t, "6.5-1", timeoutCode(code))
		c.After(time.Second)
		c.Post(Send(1), Read(10))
		c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
		c.After(4096*time.Nanosecond<<code).Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
		c.Gets(RespOnly(1))
		c.Completes(Done(1), Done(2))
		c.Idle()
	}
}

func TestTimeoutZeroNeverEnds(t *testing.T) {
	c := RC(t, "6.5-2", timeoutCode(0))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.Idle()
	c.After(1000 * time.Hour).Quiet()
	c.Gets(Ack(0))
	c.Completes(Done(1))
}

func TestProgressStartsTheTimeoutAgain(t *testing.T) {
	c := RC(t, "6.5-3")
	c.Post(Send(2*MTU), Read(2*MTU))
	c.Sends(SendFirst(0), SendLast(1).AckReq(), ReadRequest(2).AckReq())
	c.At(Timeout / 2).Gets(Ack(0))
	c.Quiet()
	c.Due(Timeout/2 + Timeout)
	c.At(Timeout).Gets(RespFirst(2))
	c.Completes(Done(1))
	c.At(2 * Timeout).Sends(ReadRequest(3).AckReq())
}

func TestNothingButProgressStartsTheTimeoutAgain(t *testing.T) {
	c := RC(t, "6.5-3")
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.At(Timeout / 2).Post(Send(2))
	c.Sends(SendOnly(1).AckReq())
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0))
	c.Due(Timeout)
	c.At(Timeout).Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
}

func TestTimeoutsWithoutProgressGrow(t *testing.T) {
	c := RC(t, "6.5-4", retries(7))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	for _, at := range []time.Duration{1, 1 + 2, 1 + 2 + 4, 1 + 2 + 4 + 4, 1 + 2 + 4 + 4 + 4} {
		c.At(at * Timeout).Sends(SendOnly(0).AckReq())
	}
	c.Gets(Ack(0))
	c.Completes(Done(1))
	c.Post(Send(1))
	c.Sends(SendOnly(1).AckReq())
	c.Due((1 + 2 + 4 + 4 + 4 + 1) * Timeout)
}

func TestRetryCount(t *testing.T) {
	for n := range uint8(8) {
		c := RC(t, "6.5-5", retries(n))
		c.Post(Send(1))
		c.Sends(SendOnly(0).AckReq())
		for i := range int(n) {
			c.At(timeouts(i + 1)).Sends(SendOnly(0).AckReq())
		}
		c.At(timeouts(int(n)+1)).Fails(1, ibv.WCRetryExcErr)
	}
}

func TestRetryCountIsForSequenceNaksToo(t *testing.T) {
	c := RC(t, "6.5-5", retries(1))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(NakSeq(0))
	c.Sends(SendOnly(0).AckReq())
	overdue(c, SendOnly(0).AckReq())
	c.At(Timeout).Fails(1, ibv.WCRetryExcErr)

	c = RC(t, "6.5-5", retries(0))
	c.Post(Send(1))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(NakSeq(0))
	c.Fails(1, ibv.WCRetryExcErr)
}

// overdue wants p again whenever its repetition at the start is overdue, up to the
// timeout: with no round trip measured after a millisecond, then ever more rarely.
func overdue(c *Stage, p Packet) {
	for at := time.Millisecond; at < Timeout; at = 2*at + time.Millisecond {
		c.At(at).Sends(p)
	}
}

func TestProgressRestoresRetries(t *testing.T) {
	c := RC(t, "6.5-6", retries(1))
	c.Post(Send(1), Read(2*MTU))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
	c.At(1*Timeout).Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
	c.Gets(Ack(0))
	c.Completes(Done(1))
	c.At(2 * Timeout).Sends(ReadRequest(1).AckReq())
	c.Gets(RespFirst(1))
	c.At(3 * Timeout).Sends(ReadRequest(2).AckReq())
	c.At(5*Timeout).Fails(2, ibv.WCRetryExcErr)
}

func TestPacketsAreSentAgainAsTheyWere(t *testing.T) {
	for _, m := range []Msg{Send(5*MTU - 3), SendImm(5 * MTU), Write(5*MTU - 1), WriteImm(5 * MTU)} {
		for got := range 5 {
			c := RC(t, "6.5-9", retries(7))
			c.Post(m.Flags(ibv.SendSolicited), Send(1))
			all := append(m.Flags(ibv.SendSolicited).From(0), SendOnly(5).AckReq())
			c.Sends(all...)
			if got > 0 {
				c.Gets(Ack(got - 1))
			}
			c.At(1 * Timeout).Sends(all[got:]...)
			c.Gets(NakSeq(got)) // the timeout has restarted it already
			c.At(3 * Timeout).Sends(all[got:]...)
		}
	}
}

func TestReadIsRestartedAtAResponse(t *testing.T) {
	c := RC(t, "6.5-10")
	c.Post(Read(4*MTU - 9).Remote(64))
	c.Sends(ReadRequest(0).Range(64, 4*MTU-9).AckReq())
	c.Gets(RespFirst(0))
	c.At(1 * Timeout).Sends(ReadRequest(1).Range(64+MTU, 3*MTU-9).AckReq())
	c.Gets(RespFirst(1), RespMiddle(2))
	// An answer at once has shown that the request was lost: the link loses packets.
	c.At(Timeout + Timeout/8).Sends(ReadRequest(3).Range(64+3*MTU, MTU-9).AckReq())
	c.Gets(RespOnly(3))
	c.Completes(Done(1))
	c.LocalHas(0, slices.Concat(PeerData(0, MTU), PeerData(1, MTU), PeerData(2, MTU), PeerData(3, MTU-9)))
}

func TestOneRestartForABurstOfSequenceNaks(t *testing.T) {
	c := RC(t, "6.5-11")
	c.Post(Send(1), Send(2), Send(3))
	all := []Packet{SendOnly(0).AckReq(), SendOnly(1).AckReq(), SendOnly(2).AckReq()}
	c.Sends(all...)
	c.Gets(NakSeq(0), NakSeq(0))
	c.Sends(all[0])
	c.Gets(NakSeq(0))
	c.Quiet()
	overdue(c, all[0])
	c.At(Timeout).Sends(all...)
	c.Gets(NakSeq(0))
	c.Quiet()
	c.Gets(NakSeq(1)) // is progress
	c.Completes(Done(1))
	c.Sends(all[1])
}

func TestFewPacketsAfterATimeout(t *testing.T) {
	c := RC(t, "6.5-15")
	all := sixtySends(c)
	c.At(Timeout).Sends(all[:16]...)
	c.After(Timeout).Quiet()
	c.At(3 * Timeout).Sends(all[:8]...)
	c.Gets(Ack(0)) // at once
	c.Completes(Done(1))
	c.Sends(all[8 : 1+16]...)
}

func TestNothingMoreIsRepeatedForALatePeer(t *testing.T) {
	c := RC(t, "6.5-16")
	all := sixtySends(c)
	c.At(Timeout).Sends(all[:16]...)
	c.After(Timeout / 2)
	for k := range all {
		c.Gets(Ack(k))
		c.Completes(Done(uint64(k + 1)))
		c.Quiet()
	}
}

func sixtySends(c *Stage) (all []Packet) {
	for k := range 60 {
		c.Post(Send(1))
		all = append(all, SendOnly(k).AckReq())
	}
	c.Sends(all...)
	return all
}
