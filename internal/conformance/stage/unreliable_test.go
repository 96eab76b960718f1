package stage_test

import (
	"slices"
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestUCBeginsWithAnyPSN(t *testing.T) {
	for _, k := range []int{0, 1, 1000, -1, 1 << 22, 1<<23 + 5} {
		c := UC(t, "6.8-1", In(ibv.QPStateRTR))
		c.Gets(WriteMiddle(k-1), WriteLast(k-1))
		c.Events()
		c.Gets(WriteFirst(k), WriteLast(k+1))
		c.Events(ibv.EventCommEst)
		c.RemoteHas(0, Payload(WriteFirst(k), WriteLast(k+1)))
		c.Counts(transport.DropOutOfOrder, 2)
	}
}

func TestUCAbandonsAMessageWithAGap(t *testing.T) {
	c := UC(t, "6.8-2")
	c.Gets(WriteFirst(0).Range(0, 5*MTU), WriteMiddle(1), WriteMiddle(3), WriteMiddle(4), WriteLast(5))
	c.Counts(transport.AbandonedMessages, 1)
	c.Counts(transport.DropOutOfOrder, 3)
	c.RemoteHas(0, PeerData(0, MTU))
	c.RemoteHas(2*MTU, c.FreshRemote(2*MTU, 4*MTU))
	c.Gets(WriteOnly(6).Range(8*MTU, Short), WriteFirst(9).Range(12*MTU, MTU+Short), WriteLast(10))
	c.RemoteHas(8*MTU, PeerData(6, Short))
	c.RemoteHas(12*MTU, Payload(WriteFirst(9), WriteLast(10)))
}

func TestUCAbandonedSendLeavesItsReceive(t *testing.T) {
	c := UC(t, "6.8-3")
	c.Recv(3*MTU, 10)
	c.Gets(SendFirst(0), SendMiddle(1), SendLast(3), SendFirst(4), SendLast(5))
	c.Receives(Received(101, MTU+Short))
	c.BufferHas(101, Payload(SendFirst(4), SendLast(5)))
	c.Gets(SendOnly(6).Len(10))
	c.Receives(Received(102, 10))
}

func TestUCAndUDNeverAnswer(t *testing.T) {
	c := UC(t, "6.8-4")
	c.Gets(SendOnly(0).AckReq(), WriteOnly(5).AckReq(), WriteLast(9).AckReq(), WriteOnly(10).Key(1).AckReq(), SendFirst(11).Len(3).AckReq(), WriteOnly(11).AckReq())
	c.Idle()
	c.State(ibv.QPStateRTS)
	c = UD(t, "6.8-4")
	c.Recv(40+Short, 45)
	c.Gets(SendOnly(0).AckReq(), SendOnly(1).QKey(1).AckReq(), SendOnly(2).AckReq())
	c.Receives(Datagram(101, Short))
	c.Idle()
	c.State(ibv.QPStateRTS)
}

// ucDrop is what UC drops where RC sends a NAK.
type ucDrop struct {
	name, rule string
	opts       []Option
	receive    int
	message    []Packet
	counts     transport.Counter
}

func TestUCDropsMessages(t *testing.T) {
	for _, tt := range []ucDrop{
		{"wrong key", "6.8-5", nil, 0, []Packet{WriteFirst(0).Key(1).Range(0, 2*MTU+Short), WriteMiddle(1), WriteLast(2)}, transport.DropAccess},
		{"past the region", "6.6-15", nil, 0, []Packet{WriteFirst(0).Range(0, AreaSize+1), WriteMiddle(1), WriteLast(2)}, transport.DropAccess},
		{"no rights", "6.8-5", []Option{RegionGrants(ibv.AccessLocalWrite)}, 0, []Packet{WriteOnly(0)}, transport.DropAccess},
		{"no permission", "6.8-5", grantsBut(ibv.AccessRemoteWrite), 0, []Packet{WriteOnly(0)}, transport.DropAccess},
		{"no permission", "6.6-6", grantsBut(ibv.AccessRemoteWrite), 0, []Packet{WriteFirst(0), WriteLast(1)}, transport.DropAccess},
		{"no receive", "6.6-10", nil, 0, []Packet{SendFirst(0), SendMiddle(1), SendLast(2)}, transport.DropNoReceive},
		{"no receive", "6.6-10", nil, 0, []Packet{WriteOnlyImm(0).Len(0)}, transport.DropNoReceive},
		{"short FIRST", "6.6-13", nil, 3 * MTU, []Packet{SendFirst(0).Len(MTU - 4), SendLast(1)}, transport.DropLength},
		{"long LAST", "6.6-13", nil, 3 * MTU, []Packet{SendFirst(0), SendLast(1).Len(MTU + 1)}, transport.DropLength},
		{"too long", "6.6-14", nil, 0, []Packet{WriteFirst(0).Range(0, 1<<31+1), WriteLast(1)}, transport.DropLength},
		{"ends early", "6.6-16", nil, 0, []Packet{WriteOnly(0).Len(99).Range(0, 100)}, transport.DropLength},
		{"small receive", "6.6-18", nil, 99, []Packet{SendOnly(0).Len(100)}, transport.DropBufferSize},
		{"out of sequence", "6.6-5", nil, 3 * MTU, []Packet{SendFirst(0), WriteMiddle(1), SendLast(2)}, transport.DropOutOfOrder},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := UC(t, tt.rule, tt.opts...)
			if tt.receive > 0 {
				c.Recv(tt.receive)
			}
			c.Gets(tt.message...)
			c.Idle()
			c.State(ibv.QPStateRTS)
			c.RemoteHas(0, c.FreshRemote(0, AreaSize))
			if c.Env.Counters[tt.counts] == 0 {
				t.Errorf("%v is 0", tt.counts)
			}
			if tt.receive == 0 {
				c.Recv(Short)
			}
			c.Gets(SendOnly(len(tt.message)).Len(50))
			c.Receives(Received(101, 50))
			c.BufferHas(101, PeerData(len(tt.message), 50))
		})
	}
}

func TestUCReceivesThatAreWrong(t *testing.T) {
	c := UC(t, "6.6-11")
	c.RecvRaw(recvOf(8, 0))
	c.Gets(SendOnly(0))
	c.Receives(Failed(101, ibv.WCLocQPOpErr))
	c.Events(ibv.EventQPFatal)
	c.Idle()
	c = UC(t, "6.6-12")
	c.Recv(MTU)
	c.LoseBuffers()
	c.Gets(SendOnly(0))
	c.Receives(Failed(101, ibv.WCLocProtErr))
	c.Events(ibv.EventQPFatal)
	c.State(ibv.QPStateErr)
	c.Idle()
}

func TestUDComparesNoPSNs(t *testing.T) {
	c := UD(t, "6.8-6")
	c.Recv(100, 100, 100, 100, 100)
	for i, k := range []int{5, 5, 0, 1 << 22, -1} {
		c.Gets(SendOnly(k).Len(10))
		c.Receives(Datagram(uint64(101+i), 10))
	}
}

func TestDatagramWithoutReceive(t *testing.T) {
	c := UD(t, "6.8-7")
	c.Gets(SendOnly(0))
	c.Counts(transport.DropNoReceive, 1)
	c.Recv(40 + Short)
	c.Receives()
	c.Gets(SendOnly(1))
	c.Receives(Datagram(101, Short))
}

func TestDatagramThatDoesNotFit(t *testing.T) {
	c := UD(t, "6.8-8")
	c.Recv(40 + 10)
	c.Gets(SendOnly(0).Len(11))
	c.Counts(transport.DropBufferSize, 1)
	c.Untouched()
	c.Gets(SendOnly(1).Len(10))
	c.Receives(Datagram(101, 10))
}

func TestHeaderBeforeADatagram(t *testing.T) {
	const eth, v4 = 14, 20
	for name, header := range map[string]int{"IPv4": v4, "IPv6": 40} {
		t.Run(name, func(t *testing.T) {
			c := UD(t, "6.8-9")
			c.Recv(40 + Short)
			var ip []byte
			p := SendOnly(0).Frame(func(f []byte) { ip = slices.Clone(f[eth : eth+header]) })
			if header != v4 {
				p = p.From(ibv.GID{0: 0xFE, 1: 0x80, 15: 2}).To(ibv.GID{0: 0xFE, 1: 0x80, 15: 1})
			}
			c.Gets(p)
			c.Receives(Datagram(101, Short))
			if got := c.Buffer(101, 40+Short); !slices.Equal(got[40-header:], slices.Concat(ip, PeerData(0, Short))) {
				t.Errorf("% x, want it to end in % x and the payload", got, ip)
			}
		})
	}
}

func TestCompletionOfADatagram(t *testing.T) {
	c := UD(t, "6.8-10")
	c.Recv(100, 100)
	c.Gets(SendOnly(0).Len(10).SrcQP(0xABCDEF))
	want := Datagram(101, 10)
	want.ByteLen, want.Flags, want.SrcQP = 50, ibv.WCFlagGRH, 0xABCDEF
	c.Receives(want)
	c.Gets(SendOnlyImm(1).Len(0))
	c.Receives(Datagram(102, 0).WithImm(Imm))
}

func TestSolicitedEvents(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD} {
		c := On(t, typ, "6.8-11")
		c.Recv(200, 200, 200)
		c.Arm(true)
		c.Gets(SendOnly(0))
		c.Wakes(0)
		c.Gets(SendOnly(1).SE())
		c.Wakes(1)
		c.Gets(SendOnlyImm(2).SE()) // not armed any more
		c.Wakes(0)
		c.Discard()
	}
}
