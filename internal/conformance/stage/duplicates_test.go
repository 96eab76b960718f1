package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

func TestDuplicateSendsAndWrites(t *testing.T) {
	c := RC(t, "6.7-1")
	c.Recv(Short, Short)
	c.Gets(WriteOnly(0), SendOnly(1))
	c.Quiet()
	c.Receives(Received(101, Short))
	for _, p := range []Packet{
		WriteOnly(0).Data(make([]byte, Short)), SendOnly(1).Data(make([]byte, Short)), SendOnly(1).AckReq(), WriteOnly(0).Key(1),
		WriteOnly(0).Len(7).Range(0, 8), SendOnly(1).Len(2 * MTU), WriteLast(0), WriteOnlyImm(1), SendMiddle(0),
	} {
		c.Gets(p)
		c.Sends(Ack(1))
	}
	c.Gets(WriteOnly(0), SendOnly(1), WriteOnly(0))
	c.Sends(Ack(1))
	c.RemoteHas(0, PeerData(0, Short))
	c.BufferHas(101, PeerData(1, Short))
	c.Counts(transport.DuplicateRequest, 12)
}

func TestAckOfADuplicate(t *testing.T) {
	c := RC(t, "6.7-2")
	c.SetWord(MTU, 5)
	c.Gets(WriteOnly(0), Read(3*MTU).Packet(1))
	c.Sends(RespFirst(1).MSN(2), RespMiddle(2), RespLast(3).MSN(2))
	c.Gets(WriteOnly(0))
	c.Sends(Ack(0).MSN(2)) // not of the READ, whose responses may be lost
	c.Gets(FetchAdd(1).Remote(MTU).Packet(4))
	c.Sends(AtomicAck(4, 5))
	c.Gets(WriteOnly(0))
	c.Sends(Ack(4))
	c.Gets(Flush(8).Packet(5), Read(8).Packet(6))
	c.Discard()
	c.Gets(WriteOnly(0))
	c.Sends(Ack(5).MSN(5))
}

func TestDuplicateReadIsExecutedAgain(t *testing.T) {
	c := RC(t, "6.7-3")
	c.Gets(Read(3 * MTU).Packet(0))
	c.Sends(RespFirst(0).MSN(1), RespMiddle(1), RespLast(2))
	clear(c.Remote(MTU, 2*MTU))
	c.Gets(Read(3 * MTU).Packet(0))
	c.Sends(RespFirst(0).MSN(1), RespMiddle(1), RespLast(2))
	c.Gets(ReadRequest(1).Range(MTU, 2*MTU))
	c.Sends(RespFirst(1), RespLast(2))
	c.Gets(WriteOnly(3).AckReq())
	c.Sends(Ack(3).MSN(2))
	c.Counts(transport.DuplicateRead, 2)
}

func TestAnyRestOfARead(t *testing.T) {
	const n = 4*MTU - 6
	all := []Packet{RespFirst(0), RespMiddle(1), RespMiddle(2), RespLast(3)}
	for from := range 4 {
		for to := from + 1; to <= 4; to++ {
			c := RC(t, "6.7-4")
			c.Gets(Read(n).Packet(0))
			c.Sends(all...)
			c.Gets(ReadRequest(from).Range(from*MTU, min(n, to*MTU)-from*MTU))
			var want []Packet
			for k := from; k < to; k++ {
				switch {
				case to-from == 1:
					want = append(want, RespOnly(k))
				case k == from:
					want = append(want, RespFirst(k))
				case k == to-1:
					want = append(want, RespLast(k))
				default:
					want = append(want, RespMiddle(k))
				}
			}
			c.Sends(want...)
		}
	}
}

func TestDuplicateReadOfSomethingElse(t *testing.T) {
	for name, p := range map[string]Packet{
		"another key":           Read(3 * MTU).Packet(0).Key(1),
		"another address":       Read(3 * MTU).Remote(8).Packet(0),
		"more bytes":            Read(3*MTU + 1).Packet(0),
		"more bytes at the end": ReadRequest(2).Range(2*MTU, MTU+1),
		"not at its packet":     ReadRequest(1).Range(0, MTU),
		"no packet boundary":    ReadRequest(1).Range(MTU+8, MTU),
	} {
		t.Run(name, func(t *testing.T) {
			c := RC(t, "6.7-5")
			c.Gets(Read(3 * MTU).Packet(0))
			c.Discard()
			c.Gets(p)
			c.Idle()
			c.Counts(transport.DropDuplicate, 1)
			c.State(ibv.QPStateRTS)
		})
	}
}

func TestDuplicateAtomics(t *testing.T) {
	c := RC(t, "6.7-6")
	c.SetWord(0, 40)
	c.Gets(FetchAdd(2).Packet(0))
	c.Sends(AtomicAck(0, 40))
	c.Gets(CompareSwap(42, 7).Packet(1))
	c.Sends(AtomicAck(1, 42))
	for range 3 {
		c.Gets(FetchAdd(2).Packet(0))
		c.Sends(AtomicAck(0, 40).MSN(2))
		c.Gets(CompareSwap(42, 7).Packet(1))
		c.Sends(AtomicAck(1, 42))
	}
	c.RemoteHasWord(0, 7)
	c.Counts(transport.DuplicateAtomic, 6)
}

func TestDuplicateFlushAndAtomicWrite(t *testing.T) {
	c := RC(t, "6.7-7")
	c.Gets(AtomicWrite().Packet(0))
	c.Sends(RespOnly(0))
	c.Gets(Flush(8).Packet(1))
	c.Sends(RespOnly(1))
	c.Gets(AtomicWrite().Packet(0).Data(make([]byte, 8)), Flush(8).Packet(1))
	c.Sends(RespOnly(0).MSN(2), RespOnly(1))
	c.RemoteHas(0, PeerData(0, 8))
}

func TestOldDuplicates(t *testing.T) {
	for _, m := range []Msg{Read(8), FetchAdd(1), AtomicWrite(), Flush(8)} {
		c := RC(t, "6.7-8", credits(1, 1))
		for k := range 20 {
			c.Gets(m.Packet(k))
			c.Discard()
		}
		before := wordAt(c, 0)
		c.Gets(m.Packet(0))
		c.Idle()
		c.Counts(transport.DropDuplicate, 1)
		c.RemoteHasWord(0, before)
	}
}

func TestResultsThatAreKept(t *testing.T) {
	for _, n := range []uint8{1, 2, 3, 7, 16, 128} {
		c := RC(t, "6.7-9", credits(1, n))
		c.SetWord(0, 0)
		const before = 3 // results that may be forgotten
		for k := range before + int(n) {
			c.Gets(FetchAdd(1).Packet(k))
			c.Discard()
		}
		for k := before; k < before+int(n); k++ {
			c.Gets(FetchAdd(1).Packet(k))
			c.Sends(AtomicAck(k, uint64(k)).MSN(before + uint32(n)))
		}
	}
}

func TestDuplicatesCauseNoNak(t *testing.T) {
	c := RC(t, "6.7-10")
	c.Recv(MTU)
	done := []Packet{WriteOnly(0), SendOnly(1), Read(MTU + 1).Packet(2), FetchAdd(1).Packet(4), AtomicWrite().Packet(5), Flush(8).Packet(6)}
	c.Gets(done...)
	c.Discard()
	for _, p := range append(done, WriteFirst(0).Len(3), SendLast(1).Len(0), ReadRequest(3).Range(MTU, 1)) {
		c.Gets(p.Key(0xBAD), p.VA(1<<64-4), p)
		c.State(ibv.QPStateRTS)
	}
	c.LoseRemote()
	c.Gets(done...)
	c.State(ibv.QPStateRTS)
	c.Discard()
	c.Counts(transport.SentNaks, 0)
	c.Counts(transport.SendRNRErr, 0)
}

func TestAnotherOpcodeAtASavedPSN(t *testing.T) {
	saved := []Msg{Read(8), FetchAdd(1), CompareSwap(1, 2), AtomicWrite(), Flush(8)}
	for i, m := range saved {
		for j, other := range saved {
			if i == j {
				continue
			}
			c := RC(t, "6.7-11")
			c.Gets(m.Packet(0))
			c.Discard()
			before := wordAt(c, 0)
			c.Gets(other.Packet(0))
			c.Idle()
			c.Counts(transport.DropDuplicate, 1)
			c.RemoteHasWord(0, before)
		}
	}
}
