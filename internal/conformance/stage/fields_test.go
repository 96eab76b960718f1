package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Offsets in a frame of the peer: Ethernet, IPv4, UDP, BTH.
const (
	frameIP  = wire.EthernetLen
	frameUDP = frameIP + wire.IPv4Len
	frameBTH = frameUDP + wire.UDPLen
)

// flip changes a bit after the ICRC was computed; set changes a byte and computes
// the ICRC anew.
func flip(at int) func([]byte) { return func(f []byte) { f[at] ^= 1 } }

func set(at int, v byte) func([]byte) {
	return func(f []byte) {
		f[at] = v
		wire.PutICRC(f, frameIP)
	}
}

func TestWrongICRCIsDropped(t *testing.T) {
	for name, at := range map[string]int{
		"identification": frameIP + 5, "source": frameIP + 15, "source port": frameUDP + 1, "opcode": frameBTH,
		"destination QP": frameBTH + 7, "PSN": frameBTH + 11, "payload": frameBTH + wire.BTHLen + wire.RETHLen, "ICRC": frameBTH + wire.BTHLen + wire.RETHLen + Short,
	} {
		t.Run(name, func(t *testing.T) {
			c := RC(t, "3.2-1")
			c.Gets(WriteOnly(0).AckReq().Frame(flip(at)))
			c.Drops(wire.DropICRC)
			c.Untouched()
			c.Idle()
		})
	}
}

func TestEthernetIsNotCovered(t *testing.T) {
	c := RC(t, "3.1-9")
	c.Gets(WriteOnly(0).AckReq().Frame(flip(0)), WriteOnly(1).AckReq().Frame(flip(11)))
	c.Sends(Ack(1))
}

func TestAnySourcePort(t *testing.T) {
	c := RC(t, "4.2-6")
	c.Rule("4.5-10")
	for i, hi := range []byte{0x00, 0xC0, 0xFF} {
		c.Gets(WriteOnly(i).AckReq().Frame(set(frameUDP, hi)))
		c.Sends(Ack(i))
	}
}

func TestAnySourceMAC(t *testing.T) {
	c := RC(t, "4.5-10")
	c.Gets(WriteOnly(0).AckReq().Frame(func(f []byte) { copy(f[6:12], "stran!") }))
	c.Sends(Ack(0))
}

func TestAnyUDPChecksum(t *testing.T) {
	c := RC(t, "4.3-5")
	c.Gets(WriteOnly(0).AckReq().Frame(func(f []byte) { f[frameUDP+6], f[frameUDP+7] = 0x12, 0x34 }))
	c.Sends(Ack(0))
}

func TestDatagramsAreAtMostThePortMTU(t *testing.T) {
	c := UD(t, "4.4-6")
	c.Post(Send(MTU), Send(MTU+1))
	c.Sends(SendOnly(0))
	c.Completes(Done(1), Failed(2, ibv.WCLocLenErr))
	c.State(ibv.QPStateSQE)
	c.Recv(2 * MTU)
	c.Gets(SendOnly(0).Len(MTU + 1))
	c.Counts(transport.DropLength, 1)
	c.Gets(SendOnly(1).Len(MTU))
	c.Receives(Datagram(101, MTU))
}

func TestPacketsOfAnotherMTU(t *testing.T) {
	for _, p := range []Packet{
		SendFirst(0).Len(MTU / 2), SendFirst(0).Len(2 * MTU), SendFirst(0).Len(MTU - 1), SendFirst(0).Len(MTU + 4),
		WriteFirst(0).Len(MTU/2).Range(0, 3*MTU), WriteFirst(0).Len(2*MTU).Range(0, 4*MTU),
	} {
		c := RC(t, "4.4-7")
		c.Recv(2048)
		c.Gets(p)
		c.Refuses(NakInvalid(0))
		c.Untouched()
		c.Discard()
	}
}

func TestMiddlePacketsOfAnotherMTU(t *testing.T) {
	for _, n := range []int{0, MTU - 4, MTU + 4, 2 * MTU} {
		c := RC(t, "4.4-7")
		c.Gets(WriteFirst(0).Range(0, 8*MTU), WriteMiddle(1).Len(n))
		c.Refuses(NakInvalid(1))
	}
}

func TestUCPacketsOfAnotherMTU(t *testing.T) {
	c := UC(t, "4.4-7")
	c.Gets(WriteFirst(0).Len(MTU/2).Range(0, MTU/2+Short), WriteLast(1))
	c.Counts(transport.DropLength, 1)
	c.Untouched()
}

func TestUCTakesNoDestinationZero(t *testing.T) {
	c := UC(t, "4.5-5")
	c.Gets(WriteOnly(0).DestQP(0))
	c.Drops(wire.DropDestQP)
	c.Untouched()
}

func TestRequestsByState(t *testing.T) {
	for state := ibv.QPStateReset; state <= ibv.QPStateRTS; state++ {
		t.Run(state.String(), func(t *testing.T) {
			c := RC(t, "4.5-7", In(state))
			if state < ibv.QPStateRTR {
				c.Gets(WriteOnly(0).AckReq())
				c.Counts(transport.DropState, 1)
				c.Untouched()
				return
			}
			c.Gets(WriteOnly(0).AckReq())
			c.Sends(Ack(0))
			c.RemoteHas(0, PeerData(0, Short))
			c.Discard()
		})
	}
}

func TestRequestsInSQD(t *testing.T) {
	c := RC(t, "4.5-7")
	if err := c.Enter(ibv.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	c.Gets(WriteOnly(0).AckReq())
	c.Sends(Ack(0))
}

func TestRequestsInSQE(t *testing.T) {
	c := UC(t, "4.5-7")
	c.Post(Send(10).LKey(0xBAD))
	c.Quiet()
	c.Completes(Failed(1, ibv.WCLocProtErr))
	c.State(ibv.QPStateSQE)
	c.Gets(WriteOnly(0))
	c.RemoteHas(0, PeerData(0, Short))
}

func TestNothingInERR(t *testing.T) {
	c := RC(t, "4.5-7")
	if err := c.Enter(ibv.QPStateErr); err != nil {
		t.Fatal(err)
	}
	c.Gets(WriteOnly(0).AckReq(), Ack(0))
	c.Counts(transport.DropState, 2)
	c.Untouched()
	c.Idle()
}

func TestResponsesInRTR(t *testing.T) {
	c := RC(t, "4.5-8", In(ibv.QPStateRTR))
	c.Post(Send(10))
	c.Gets(Ack(0))
	c.Counts(transport.DropState, 1)
	if err := c.Enter(ibv.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	c.Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0))
	c.Completes(Done(1))
}

var stranger = ibv.GID{10: 0xFF, 11: 0xFF, 12: 10, 15: 9}

func TestOnlyThePeerIsHeard(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC} {
		c := On(t, typ, "4.5-9")
		c.Gets(WriteOnly(0).From(stranger), WriteOnly(0).To(stranger))
		c.Counts(transport.DropPeer, 2)
		c.Untouched()
		c.Idle()
	}
}

func TestAcksOfStrangersCompleteNothing(t *testing.T) {
	c := RC(t, "4.5-9")
	c.Post(Send(10))
	c.Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0).From(stranger))
	c.Completes()
	c.Gets(Ack(0))
	c.Completes(Done(1))
}

func TestIgnoredBitsOfTheBTH(t *testing.T) {
	c := RC(t, "4.5-12")
	for i, change := range []func(*wire.BTH){
		func(b *wire.BTH) { b.SetMigReq(false) },
		func(b *wire.BTH) { b.SetFECN(true) },
		func(b *wire.BTH) { b.SetBECN(true) },
		func(b *wire.BTH) { b[4] |= 0x3F },
		func(b *wire.BTH) { b[8] |= 0x7F },
	} {
		c.Gets(WriteOnly(i).AckReq().BTH(change))
		c.Sends(Ack(i))
	}
}

func TestTagsAreTakenOff(t *testing.T) {
	for name, tag := range map[string][]byte{"VLAN 5": {0x81, 0, 0, 5}, "priority tag": {0x81, 0, 0xE0, 0}} {
		t.Run(name, func(t *testing.T) {
			c := RC(t, "4.5-11")
			c.Gets(WriteOnly(0).AckReq().Tagged(tag))
			c.Sends(Ack(0))
		})
	}
}
