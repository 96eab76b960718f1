package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestPKeysOfThePartition(t *testing.T) {
	for _, key := range []uint16{0xFFFF, 0x7FFF} {
		c := RC(t, "8.1-1")
		c.Gets(WriteOnly(0).AckReq().PKey(key))
		c.Sends(Ack(0))
		c.Post(Send(10))
		c.Sends(SendOnly(0).AckReq())
		c.Gets(Ack(0).PKey(key))
		c.Completes(Done(1))
	}
}

func TestPKeysOfOtherPartitions(t *testing.T) {
	for _, key := range []uint16{0, 0x8000, 0x7FFE, 0xFFFE, 0xBFFF, 0x3FFF, 1, 0x8001} {
		for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD} {
			c := On(t, typ, "8.1-2")
			c.Recv(2048)
			c.Gets(SendOnly(0).PKey(key), SendOnly(5).PKey(key))
			c.Counts(transport.DropPKey, 2)
			c.Untouched()
			c.Idle()
		}
		c := RC(t, "8.1-2")
		c.Post(Send(10))
		c.Sends(SendOnly(0).AckReq())
		c.Gets(Ack(0).PKey(key))
		c.Counts(transport.DropPKey, 1)
		c.Completes()
	}
}

// Sends compares the P_Key of every packet with that of the default partition;
// here is one of each kind, answers to limited members among them.
func TestPKeyThatIsSent(t *testing.T) {
	full := func(packets ...Packet) (all []Packet) {
		for _, p := range packets {
			all = append(all, p.PKey(0xFFFF))
		}
		return all
	}
	c := RC(t, "8.1-3")
	c.Post(Write(2*MTU), Read(10), FetchAdd(1).Local(64))
	c.Sends(full(WriteFirst(0), WriteLast(1).AckReq(), ReadRequest(2).AckReq(), FetchAdd(1).Packet(3))...)
	c.Gets(Ack(1), RespOnly(2), AtomicAck(3, 0))
	c.Completes(Done(1), Done(2), Done(3))
	c.SetWord(0, 5)
	c.Gets(WriteOnly(0).AckReq().PKey(0x7FFF).Range(MTU, Short))
	c.Sends(full(Ack(0))...)
	c.Gets(Read(MTU + 1).Packet(1).PKey(0x7FFF))
	c.Sends(full(RespFirst(1), RespLast(2))...)
	c.Gets(FetchAdd(1).Packet(3).PKey(0x7FFF))
	c.Sends(full(AtomicAck(3, 5))...)
	c.Gets(SendOnly(4).PKey(0x7FFF))
	c.Sends(full(RNR(4, 12))...)
	c.Gets(ReadRequest(4).Key(0xBAD).PKey(0x7FFF))
	c.Refuses(NakAccess(4).PKey(0xFFFF))

	c = UC(t, "8.1-3")
	c.Post(Send(2 * MTU))
	c.Sends(full(SendFirst(0), SendLast(1))...)
	c.Completes(Done(1))

	c = UD(t, "8.1-3")
	c.Post(Send(10))
	c.Sends(full(SendOnly(0))...)
	c.Completes(Done(1))
}

func TestQKeyOfADatagram(t *testing.T) {
	c := UD(t, "8.2-1")
	c.Recv(2048)
	for i, key := range []uint32{0, QKey + 1, QKey ^ 1<<31, ibv.GSIQKey} {
		c.Gets(SendOnly(i).QKey(key))
		c.Counts(transport.DropQKey, uint64(i+1))
	}
	c.Untouched()
	c.Idle()
	c.Gets(SendOnly(9).QKey(QKey))
	c.Receives(Datagram(101, Short))
}

func TestQKeyOfQP1(t *testing.T) {
	c := On(t, ibv.QPTypeGSI, "8.2-2")
	c.Recv(2048, 2048)
	c.Gets(SendOnly(0).QKey(QKey)) // what Modify was given
	c.Counts(transport.DropQKey, 1)
	c.Untouched()
	c.Gets(SendOnly(1).QKey(0x80010000))
	c.Receives(Datagram(101, Short))
	c.Post(Send(10), Send(10).To(PeerQPN, 0x80010001, AH))
	c.Sends(SendOnly(0).QKey(0x80010000), SendOnly(1).QKey(0x80010000))
	c.Completes(Done(1), Done(2))
}

func TestQKeyWithBit31(t *testing.T) {
	c := UD(t, "8.2-3")
	c.Post(Send(10).To(PeerQPN, 1<<31, AH), Send(10).To(PeerQPN, 0xFFFFFFFF, AH), Send(10).To(PeerQPN, 0x7FFFFFFF, AH))
	c.Sends(SendOnly(0).QKey(QKey), SendOnly(1).QKey(QKey), SendOnly(2).QKey(0x7FFFFFFF))
	c.Completes(Done(1), Done(2), Done(3))
}

func TestQP0DoesNotExist(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUD} {
		c := On(t, typ, "8.3-1")
		c.Recv(2048)
		c.Gets(SendOnly(0).DestQP(0))
		c.Drops(wire.DropDestQP)
		c.Untouched()
		c.Idle()
	}
}

func TestQP1TakesDatagrams(t *testing.T) {
	c := On(t, ibv.QPTypeGSI, "8.3-2")
	c.Recv(2048, 2048, 2048)
	c.Gets(SendOnly(7).Len(MTU), SendOnlyImm(3).Len(8))
	c.Receives(Datagram(101, MTU), Datagram(102, 8).WithImm(Imm))
	c.Gets(SendOnly(0).Opcode(wire.RC|wire.SendOnly), SendOnly(0).Opcode(wire.UC|wire.SendOnly))
	c.Counts(transport.DropOpcode, 2)
	c.Receives()
	c.Idle()
}

func TestMulticastNumber(t *testing.T) {
	c := UD(t, "8.4-1")
	c.Recv(2048)
	c.Gets(SendOnly(0).DestQP(0xFFFFFF))
	c.Receives(Datagram(101, Short))
	c.Post(Send(10).To(0xFFFFFF, QKey, AH))
	c.Sends(SendOnly(0).DestQP(0xFFFFFF))
	c.Completes(Done(1))
}

func TestKeysOfMulticast(t *testing.T) {
	c := UD(t, "8.4-4")
	c.Recv(2048)
	c.Gets(SendOnly(0).DestQP(0xFFFFFF).PKey(0xFFFE), SendOnly(1).DestQP(0xFFFFFF).QKey(QKey+1))
	c.Counts(transport.DropPKey, 1)
	c.Counts(transport.DropQKey, 1)
	c.Untouched()
	c.Gets(SendOnly(2).DestQP(0xFFFFFF).PKey(0x7FFF))
	c.Receives(Datagram(101, Short))
}

func TestNoConnectionToAGroup(t *testing.T) {
	groups := []ibv.GID{{10: 0xFF, 11: 0xFF, 12: 224, 15: 1}, {10: 0xFF, 11: 0xFF, 12: 239, 13: 255, 15: 1}, {0: 0xFF, 1: 0x0E, 15: 1}}
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC} {
		for _, group := range groups {
			self := ibv.GID{10: 0xFF, 11: 0xFF, 12: 10, 15: 1}
			if group[0] == 0xFF {
				self = ibv.GID{0: 0xFD, 15: 1}
			}
			var attr *ibv.QPAttr
			c := On(t, typ, "8.4-5", In(ibv.QPStateInit), Attr(func(a *ibv.QPAttr) { attr = a }))
			a := *attr
			a.State, a.AV.DGID = ibv.QPStateRTR, group
			mask := ibv.QPAttrState | ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
			if typ == ibv.QPTypeRC {
				mask |= ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
			}
			if err := c.QP.Modify(1, &a, mask, self, group); err == nil {
				t.Errorf("%v: a connection to %v", typ, group)
			}
			c.State(ibv.QPStateInit)
			enter(c, ibv.QPStateRTR)
		}
	}
}
