package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestBindThatCannotBe(t *testing.T) {
	c := RC(t, "6.4-23")
	c.Post(Send(1), Bind(memory.Binding{Key: 0xBAD00, LKey: c.RemoteKey(), VA: c.RemoteVA(), Len: 8}), Send(2))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0))
	c.Completes(Done(1), Failed(2, ibv.WCMWBindErr), Flushed(3))
	c.State(ibv.QPStateErr)
}

func TestSendWithInvalidate(t *testing.T) {
	for _, send := range [][]Packet{{SendOnlyInv(0)}, {SendFirst(0), SendLastInv(1)}} {
		c := RC(t, "6.6-26")
		key := c.WindowKey(0, 8, ibv.AccessRemoteRead)
		c.Recv(MTU + Short)
		last := len(send) - 1
		send[last] = send[last].Key(key).AckReq()
		c.Gets(send...)
		c.Receives(Received(101, len(Payload(send...))).WithInv(key))
		c.BufferHasOnly(101, Payload(send...))
		c.Sends(Ack(last))
		c.Gets(Read(8).At(c.RemoteVA(), key).Packet(last + 1))
		c.Refuses(NakAccess(last + 1))
	}
}

func TestReadByAKeyThatIsInvalidatedLater(t *testing.T) {
	c := RC(t, "6.6-26")
	key := c.WindowKey(0, 8, ibv.AccessRemoteRead)
	c.Gets(Read(8).At(c.RemoteVA(), key).Packet(0))
	c.Sends(RespOnly(0))
	c.Recv(Short)
	c.Gets(SendOnlyInv(1).Key(key))
	c.Receives(Received(101, Short).WithInv(key))
}

func TestKeysThatAPeerMayNotInvalidate(t *testing.T) {
	for name, key := range map[string]func(*Stage) uint32{
		"no key":   func(*Stage) uint32 { return InvKey },
		"a region": func(c *Stage) uint32 { return c.RemoteKey() },
		"old key":  func(c *Stage) uint32 { return c.WindowKey(0, 8, ibv.AccessRemoteRead) ^ 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := RC(t, "6.6-27")
			c.Recv(Short, Short)
			c.Gets(SendOnlyInv(0).Key(key(c)).AckReq())
			c.Receives(Failed(101, ibv.WCRemInvReqErr), Flushed(102))
			c.Events(ibv.EventQPReqErr)
			c.State(ibv.QPStateErr)
			c.Idle()
			c.Counts(transport.DropInvalidate, 1)
		})
	}
}
