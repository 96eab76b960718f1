package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestUnknownOpcodesAreDropped(t *testing.T) {
	c := RC(t, "2.1-30")
	for op := range 256 {
		if op := wire.Opcode(op); op.Info() == nil {
			c.Gets(SendOnly(0).AckReq().Opcode(op))
			c.Quiet()
			c.Drops(wire.DropOpcode)
		}
	}
}

func TestOtherServicesAreDropped(t *testing.T) {
	for op := range 256 {
		op := wire.Opcode(op)
		if op.Info() == nil || op.Transport() == wire.RC || op == wire.CNP {
			continue
		}
		c := RC(t, "2.1-31")
		c.Gets(WriteOnly(0).AckReq().Opcode(op))
		c.Quiet()
		if c.Env.Counters[transport.DropOpcode] == 0 {
			c.Drops(wire.DropLength) // its headers are longer than the packet
		}
	}
}

func TestSendAndWriteAreAcknowledged(t *testing.T) {
	c := RC(t, "2.1-32")
	c.Recv(10, 10)
	c.Gets(SendOnly(0).AckReq().Len(10))
	c.Sends(Ack(0))
	c.Gets(Write(3 * MTU).From(1)...)
	c.Sends(Ack(3))
	c.Gets(WriteOnlyImm(4).AckReq())
	c.Sends(Ack(4))
	c.Receives(Received(101, 10), Written(102, Short))
}

func TestReadIsAnsweredInPackets(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want []Packet
	}{
		{0, []Packet{RespOnly(0)}},
		{1, []Packet{RespOnly(0)}},
		{MTU, []Packet{RespOnly(0)}},
		{MTU + 1, []Packet{RespFirst(0), RespLast(1)}},
		{4 * MTU, []Packet{RespFirst(0), RespMiddle(1), RespMiddle(2), RespLast(3)}},
	} {
		c := RC(t, "2.1-33")
		c.Gets(Read(tt.n).Packet(0))
		c.Sends(tt.want...)
	}
}

func TestAtomicsAreAnsweredWithTheOldValue(t *testing.T) {
	c := RC(t, "2.1-34")
	c.SetWord(0, 40)
	c.Gets(FetchAdd(2).Packet(0), CompareSwap(42, 7).Packet(1), CompareSwap(42, 8).Packet(2))
	c.Sends(AtomicAck(0, 40).MSN(3), AtomicAck(1, 42).MSN(3), AtomicAck(2, 7).MSN(3))
	c.RemoteHasWord(0, 7)
}

func TestFlushAndAtomicWriteAreAnsweredWithNothing(t *testing.T) {
	c := RC(t, "2.1-35")
	c.Gets(Flush(100).Packet(0), AtomicWrite().Packet(1))
	c.Sends(RespOnly(0).MSN(2), RespOnly(1).MSN(2))
}

func TestNaksAreAcknowledges(t *testing.T) {
	for _, m := range []Msg{Read(10), FetchAdd(1), AtomicWrite(), Write(10), Flush(10)} {
		c := RC(t, "2.1-36")
		c.Gets(m.At(c.RemoteVA(), 0xBAD).Packet(0))
		c.Refuses(NakAccess(0))
	}
}

// A message is cut into packets; the responder puts it together again.
func TestMessagesAreCut(t *testing.T) {
	for _, tt := range []struct {
		rule string
		n    int
		want []Packet
	}{
		{"2.1-37", 0, []Packet{WriteOnly(0).AckReq()}},
		{"2.1-37", 1, []Packet{WriteOnly(0).AckReq()}},
		{"2.1-37", MTU - 1, []Packet{WriteOnly(0).AckReq()}},
		{"2.1-37", MTU, []Packet{WriteOnly(0).AckReq().Len(MTU)}},
		{"2.1-38", MTU + 1, []Packet{WriteFirst(0).Len(MTU), WriteLast(1).AckReq().Len(1)}},
		{"2.1-38", 2 * MTU, []Packet{WriteFirst(0).Len(MTU), WriteLast(1).AckReq().Len(MTU)}},
		{"2.1-38", 3*MTU + 1, []Packet{WriteFirst(0), WriteMiddle(1).Len(MTU), WriteMiddle(2).Len(MTU), WriteLast(3).AckReq().Len(1)}},
	} {
		c := RC(t, tt.rule)
		c.Post(Write(tt.n))
		c.Sends(tt.want...)
	}
}

func TestRETHHasTheWholeMessage(t *testing.T) {
	c := RC(t, "2.1-39")
	c.Post(Write(3*MTU).Remote(64), Write(20).Remote(500))
	c.Sends(WriteFirst(0).Range(64, 3*MTU), WriteMiddle(1), WriteLast(2).AckReq(), WriteOnly(3).Range(500, 20).AckReq())
}

func TestImmediateData(t *testing.T) {
	c := RC(t, "2.1-40")
	c.Post(SendImm(MTU+1), WriteImm(10))
	c.Sends(SendFirst(0), SendLastImm(1).Imm(Imm).AckReq(), WriteOnlyImm(2).Imm(Imm).AckReq())
	c.Recv(2*MTU, 0)
	c.Gets(SendFirst(0), SendLastImm(1).Imm(0x01020304), WriteOnlyImm(2).Imm(0xF0E0D0C0))
	c.Receives(Received(101, MTU+Short).WithImm(0x01020304), Written(102, Short).WithImm(0xF0E0D0C0))
}

func TestInvalidateKeyIsInTheLastPacket(t *testing.T) {
	c := RC(t, "2.1-41")
	c.Post(SendInv(MTU+1), SendInv(10))
	c.Sends(SendFirst(0), SendLastInv(1).Key(InvKey).AckReq(), SendOnlyInv(2).Key(InvKey).AckReq())
}

func TestSolicitedEventIsInTheLastPacket(t *testing.T) {
	c := RC(t, "2.1-42", Attr(func(a *ibv.QPAttr) { a.MaxRDAtomic = 8 }))
	all := []Msg{Send(2 * MTU), SendImm(10), SendInv(10), WriteImm(10), Write(10), Read(10), FetchAdd(1), Flush(10)}
	for _, m := range all {
		c.Post(m.Flags(ibv.SendSolicited))
	}
	c.Sends(SendFirst(0), SendLast(1).SE().AckReq(), SendOnlyImm(2).SE().AckReq(), SendOnlyInv(3).SE().AckReq(),
		WriteOnlyImm(4).SE().AckReq(), WriteOnly(5).AckReq(), ReadRequest(6).AckReq(), FetchAdd(1).Packet(7), Flush(10).Packet(8))
}

func TestUnsolicitedByDefault(t *testing.T) {
	c := RC(t, "2.1-42")
	c.Post(Send(10), WriteImm(10))
	c.Sends(SendOnly(0).AckReq(), WriteOnlyImm(1).AckReq())
}

// PSN 0 means one thing to the requester and another to the responder.
func TestOpcodesChooseTheHalf(t *testing.T) {
	c := RC(t, "2.1-43")
	c.Post(Read(10), FetchAdd(1), Write(10), Write(10))
	c.Sends(ReadRequest(0).AckReq(), FetchAdd(1).Packet(1), WriteOnly(2).AckReq(), WriteOnly(3).AckReq())
	c.Gets(RespOnly(0), WriteOnly(0), AtomicAck(1, 5), Ack(2), Read(10).Packet(1))
	c.Completes(Done(1), Done(2), Done(3))
	c.Sends(RespOnly(1).MSN(2))
	c.Gets(Ack(3))
	c.Completes(Done(4))
}

func TestPad(t *testing.T) {
	for n, pad := range map[int]uint8{0: 0, 1: 3, 2: 2, 3: 1, 4: 0, MTU - 1: 1, MTU: 0} {
		c := RC(t, "2.1-44")
		c.Post(Send(n))
		c.Sends(SendOnly(0).Pad(pad).AckReq())
		c.Recv(MTU)
		c.Gets(SendOnly(0).Len(n).Pad(pad))
		c.Receives(Received(101, n))
		c.BufferHasOnly(101, PeerData(0, n))
	}
}

func TestOperandsOfAtomics(t *testing.T) {
	c := RC(t, "2.1-45")
	c.Post(CompareSwap(0x1111, 0x2222), FetchAdd(0x3333))
	c.Sends(CompareSwap(0x1111, 0x2222).Packet(0), FetchAdd(0x3333).Packet(1))
	c.SetWord(0, 0x1111)
	c.Gets(CompareSwap(0x1111, 0x2222).Packet(0))
	c.Sends(AtomicAck(0, 0x1111))
	c.Gets(FetchAdd(0x3333).Packet(1))
	c.Sends(AtomicAck(1, 0x2222))
	c.RemoteHasWord(0, 0x5555)
}

func TestAtomicsWorkOnNumbers(t *testing.T) {
	const v = 0x0102030405060708
	c := RC(t, "2.1-46")
	c.SetWord(0, v)
	c.Gets(FetchAdd(1).Packet(0))
	c.Sends(AtomicAck(0, v))
	c.RemoteHasWord(0, v+1)
	c.Post(FetchAdd(9).Local(64))
	c.Sends(FetchAdd(9).Packet(0))
	c.Gets(AtomicAck(0, v))
	c.Completes(Done(1))
	c.LocalHasWord(64, v)
}

func TestAtomicWriteIsBytes(t *testing.T) {
	c := RC(t, "2.1-47")
	c.Gets(AtomicWrite().Packet(0).Data([]byte{1, 2, 3, 4, 5, 6, 7, 8}))
	c.Sends(RespOnly(0))
	c.RemoteHas(0, []byte{1, 2, 3, 4, 5, 6, 7, 8})
}
