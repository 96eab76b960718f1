package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// next are request packets that can follow another, with PSN k.
var next = []struct {
	name string
	make func(k int) Packet
	send bool // continues a SEND
	wr   bool // continues a WRITE
}{
	{"SEND_MIDDLE", SendMiddle, true, false},
	{"SEND_LAST", SendLast, true, false},
	{"SEND_LAST_IMM", SendLastImm, true, false},
	{"SEND_FIRST", SendFirst, false, false},
	{"SEND_ONLY", SendOnly, false, false},
	{"SEND_ONLY_IMM", SendOnlyImm, false, false},
	{"WRITE_MIDDLE", WriteMiddle, false, true},
	{"WRITE_LAST", func(k int) Packet { return WriteLast(k).Len(MTU) }, false, true},
	{"WRITE_LAST_IMM", func(k int) Packet { return WriteLastImm(k).Len(MTU) }, false, true},
	{"WRITE_FIRST", WriteFirst, false, false},
	{"WRITE_ONLY", WriteOnly, false, false},
	{"READ_REQUEST", ReadRequest, false, false},
	{"FETCH_ADD", FetchAdd(1).Packet, false, false},
	{"ATOMIC_WRITE", AtomicWrite().Packet, false, false},
	{"FLUSH", Flush(8).Packet, false, false},
}

// begins reports whether a packet can begin a message.
func begins(p Packet) bool { return p.Position(wire.RC)&wire.First != 0 }

// follows plays first and then p, and wants p to be accepted or not.
func follows(t *testing.T, rule string, legal bool, first []Packet, p Packet) {
	c := RC(t, rule)
	c.Recv(3*MTU, 3*MTU)
	c.Gets(first...)
	c.Discard()
	if legal {
		c.Gets(p)
		c.State(ibv.QPStateRTS)
		c.Counts(transport.SentNaks, 0)
		c.Discard()
		return
	}
	c.Rule("2.2-4")
	c.Gets(p)
	c.Refuses(NakInvalid(len(first)))
	c.Discard()
}

func TestWhatFollowsSendFirst(t *testing.T) {
	for _, n := range next {
		t.Run(n.name, func(t *testing.T) {
			follows(t, "2.2-1", n.send, []Packet{SendFirst(0)}, n.make(1))
			follows(t, "2.2-1", n.send, []Packet{SendFirst(0), SendMiddle(1)}, n.make(2))
		})
	}
}

func TestWhatFollowsWriteFirst(t *testing.T) {
	for _, n := range next {
		t.Run(n.name, func(t *testing.T) {
			// The message is such that the next packet may be in its midst or its end.
			size := 2 * MTU
			if n.name == "WRITE_MIDDLE" {
				size = 4 * MTU
			}
			follows(t, "2.2-2", n.wr, []Packet{WriteFirst(0).Range(0, size)}, n.make(1))
			follows(t, "2.2-2", n.wr, []Packet{WriteFirst(0).Range(0, size+MTU), WriteMiddle(1)}, n.make(2))
		})
	}
}

func TestWhatBeginsAMessage(t *testing.T) {
	for _, n := range next {
		t.Run(n.name, func(t *testing.T) {
			follows(t, "2.2-3", begins(n.make(0)), nil, n.make(0))
			follows(t, "2.2-3", begins(n.make(0)), []Packet{WriteFirst(0), WriteLast(1)}, n.make(2))
			follows(t, "2.2-3", begins(n.make(0)), []Packet{Read(10).Packet(0)}, n.make(1))
		})
	}
}

func TestUCDropsAMessageOutOfSequence(t *testing.T) {
	c := UC(t, "2.2-5")
	c.Recv(3 * MTU)
	c.Gets(SendFirst(0), WriteLast(1), SendLast(2))
	c.Receives()
	c.Counts(transport.AbandonedMessages, 1)
	c.Gets(SendFirst(3), SendOnly(4).Len(10))
	c.Receives(Received(101, 10))
	c.BufferHas(101, PeerData(4, 10)[:10])
}

func TestUCBeginsAnewInPlaceOfAMessage(t *testing.T) {
	c := UC(t, "2.2-5")
	c.Gets(WriteFirst(0).Range(0, 3*MTU), WriteMiddle(1), WriteFirst(2).Range(4*MTU, MTU+Short), WriteLast(3))
	c.Counts(transport.AbandonedMessages, 1)
	c.RemoteHas(4*MTU, Payload(WriteFirst(2), WriteLast(3)))
}

func TestReadResponsesOutOfSequence(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []Packet
	}{
		{"MIDDLE first", []Packet{RespMiddle(0)}},
		{"LAST first", []Packet{RespLast(0).Len(MTU)}},
		{"FIRST in the middle", []Packet{RespFirst(0), RespFirst(1)}},
		{"ONLY in the middle", []Packet{RespFirst(0), RespOnly(1)}},
		{"ONLY at the end", []Packet{RespFirst(0), RespMiddle(1), RespOnly(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "2.2-6")
			c.Post(Read(3*MTU), Send(1))
			c.Sends(ReadRequest(0).AckReq(), SendOnly(3).AckReq())
			c.Gets(tt.got...)
			c.Fails(1, ibv.WCBadRespErr)
		})
	}
}

func TestReadResponsesInSequence(t *testing.T) {
	c := RC(t, "2.2-6")
	c.Post(Read(3*MTU), Read(10).Local(3*MTU))
	c.Sends(ReadRequest(0).AckReq(), ReadRequest(3).AckReq())
	c.Gets(RespFirst(0), RespMiddle(1), RespLast(2).Len(MTU), RespOnly(3))
	c.Completes(Done(1), Done(2))
	c.LocalHas(0, Payload(RespFirst(0), RespMiddle(1), RespLast(2).Len(MTU), RespOnly(3).Len(10)))
}

func TestResponsesToARepeatedRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []Packet
	}{
		{"FIRST", []Packet{RespFirst(1), RespLast(2)}},
		{"MIDDLE", []Packet{RespMiddle(1), RespLast(2)}},
		{"ONLY", []Packet{RespMiddle(1), RespOnly(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "2.2-7")
			c.Post(Read(3 * MTU))
			c.Sends(ReadRequest(0).AckReq())
			c.Gets(RespFirst(0))
			c.At(Timeout).Sends(ReadRequest(1).AckReq())
			c.Gets(tt.got...)
			c.Completes(Done(1))
		})
	}
}

func TestNakEndsARead(t *testing.T) {
	for syn, status := range map[wire.Syndrome]ibv.WCStatus{
		wire.NakInvalidRequest: ibv.WCRemInvReqErr, wire.NakRemoteAccess: ibv.WCRemAccessErr, wire.NakRemoteOp: ibv.WCRemOpErr,
	} {
		c := RC(t, "2.2-8")
		c.Post(Read(3*MTU), Send(1))
		c.Sends(ReadRequest(0).AckReq(), SendOnly(3).AckReq())
		c.Gets(RespFirst(0), Nak(1, syn))
		c.Fails(1, status)
	}
}
