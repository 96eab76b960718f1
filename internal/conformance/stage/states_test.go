package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

// enter makes the transitions that lead to a state.
func enter(c *Stage, states ...ibv.QPState) {
	c.Helper()
	for _, s := range states {
		if err := c.Enter(s); err != nil {
			c.Fatal(err)
		}
	}
}

func TestResetEmptiesTheQueues(t *testing.T) {
	c := RC(t, "7.1-20")
	c.Recv(100, 100)
	c.Post(Send(10), Read(10))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
	enter(c, ibv.QPStateReset)
	c.Idle()
	c.Completes()
	c.Receives()
	enter(c, ibv.QPStateInit, ibv.QPStateRTR, ibv.QPStateRTS)
	c.Idle()
	c.Gets(SendOnly(0).AckReq())
	c.Sends(RNR(0, 12))
	c.Discard()
}

func TestReceivesArePostedInINIT(t *testing.T) {
	c := RC(t, "7.1-21", In(ibv.QPStateInit))
	c.Recv(100)
	c.Gets(SendOnly(0).AckReq())
	c.Counts(transport.DropState, 1)
	c.Idle()
	enter(c, ibv.QPStateRTR)
	c.Gets(SendOnly(0).Len(100).AckReq())
	c.Sends(Ack(0))
	c.Receives(Received(101, 100))
	c.Events(ibv.EventCommEst)
}

func TestPostedSendsWaitInRTR(t *testing.T) {
	c := RC(t, "7.1-22", In(ibv.QPStateRTR))
	c.Post(Send(10), Write(20))
	c.Gets(WriteOnly(0).AckReq(), Read(100).Packet(1))
	c.Sends(RespOnly(1)) // which acknowledges the WRITE too
	c.Events(ibv.EventCommEst)
	c.After(Timeout).Quiet()
	enter(c, ibv.QPStateRTS)
	c.Sends(SendOnly(0).AckReq(), WriteOnly(1).AckReq())
	c.Gets(Ack(1))
	c.Completes(Done(1), Done(2))
}

func TestSQEFlushesSends(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeUC, ibv.QPTypeUD} {
		t.Run(typ.String(), func(t *testing.T) {
			c := On(t, typ, "7.1-23")
			c.Recv(300)
			c.Post(Send(10).LKey(0xBAD), Send(10))
			c.Quiet()
			c.Completes(Failed(1, ibv.WCLocProtErr), Flushed(2))
			c.State(ibv.QPStateSQE)
			c.Post(Send(10).Unsignaled())
			c.Quiet()
			c.Completes(Flushed(3))
			c.Gets(SendOnly(0).Len(100))
			if typ == ibv.QPTypeUC {
				c.Receives(Received(101, 100))
			} else {
				c.Receives(Datagram(101, 100))
			}
			enter(c, ibv.QPStateRTS)
			c.Post(Send(10))
			c.Discard()
			c.State(ibv.QPStateRTS)
		})
	}
}

func TestERRFlushesEverything(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD} {
		t.Run(typ.String(), func(t *testing.T) {
			c := On(t, typ, "7.1-24")
			c.Recv(100, 100)
			c.Post(Send(10).LKey(0xBAD), Send(10).Unsignaled())
			enter(c, ibv.QPStateErr)
			c.Completes(Flushed(1), Flushed(2))
			c.Receives(Flushed(101), Flushed(102))
			c.Recv(100)
			c.Post(Send(10))
			c.Quiet()
			c.Completes(Flushed(3))
			c.Receives(Flushed(103))
			c.Gets(SendOnly(0))
			c.Counts(transport.DropState, 1)
			c.Idle()
		})
	}
}

func TestResponsesAreDroppedInERR(t *testing.T) {
	c := RC(t, "7.1-24")
	c.Post(Read(10))
	c.Sends(ReadRequest(0).AckReq())
	enter(c, ibv.QPStateErr)
	c.Completes(Flushed(1))
	c.Gets(RespOnly(0))
	c.Counts(transport.DropState, 1)
	c.Untouched()
	c.Idle()
}

func TestNothingOfAnEarlierLifeIsAnswered(t *testing.T) {
	for _, way := range [][]ibv.QPState{{ibv.QPStateErr, ibv.QPStateReset}, {ibv.QPStateReset}} {
		var attr *ibv.QPAttr
		c := RC(t, "7.1-25", Attr(func(a *ibv.QPAttr) { attr = a }))
		c.SetWord(0, 7)
		c.Post(Write(10))
		c.Sends(WriteOnly(0).AckReq())
		c.Gets(Read(3*MTU).Packet(0), FetchAdd(1).Packet(3)) // their answers are due
		enter(c, way...)
		c.Discard()

		attr.SQPSN, attr.RQPSN = SQPSN+1, (RQPSN+4)&0xFFFFFF
		enter(c, ibv.QPStateInit, ibv.QPStateRTR, ibv.QPStateRTS)
		c.Idle()
		c.Gets(Ack(0), FetchAdd(1).Packet(3), Read(3*MTU).Packet(0))
		c.Idle()
		c.RemoteHasWord(0, 8)
		c.Post(Send(10))
		c.Gets(FetchAdd(1).Packet(4))
		c.Sends(AtomicAck(4, 8).MSN(1), SendOnly(1).AckReq())
		c.Gets(Ack(1))
		c.Completes(Done(2))
	}
}

const mostBytes = 1 << 31 // of one message

func TestRequestsOfTooManyBytes(t *testing.T) {
	c := RC(t, "7.3-1")
	half := queue.SGE{Addr: 0, Length: mostBytes / 2, LKey: 0xBAD}
	one := queue.SGE{Addr: 0, Length: 1, LKey: 0xBAD}
	c.Post(Write(mostBytes+1).SGEs(half, half, one))
	c.Fails(1, ibv.WCLocLenErr)

	c = RC(t, "7.3-1") // one byte less: it is the key that is wrong
	c.Post(Write(mostBytes).SGEs(half, half))
	c.Fails(1, ibv.WCLocProtErr)
}

func TestPeersAskForTooManyBytes(t *testing.T) {
	for _, p := range []Packet{ReadRequest(0), WriteFirst(0)} {
		c := RC(t, "7.3-1")
		c.Gets(p.Range(0, mostBytes+1))
		c.Refuses(NakInvalid(0))

		c = RC(t, "7.3-1") // one byte less: it is the region that has not so many
		c.Gets(p.Range(0, mostBytes))
		c.Refuses(NakAccess(0))
	}
}
