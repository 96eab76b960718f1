package transport

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func (r *respRig) setWord(off int, v uint64) { binary.NativeEndian.PutUint64(r.mem[off:], v) }

func (r *respRig) expectWord(off int, want uint64) {
	r.t.Helper()
	if got := binary.NativeEndian.Uint64(r.mem[off:]); got != want {
		r.t.Errorf("word at %d is %#x, want %#x", off, got, want)
	}
}

func respAtomicAnswer(p, msn uint32, orig uint64) respAnswer {
	a := respAck(0, msn)
	a.Op, a.PSN, a.Orig = wire.AtomicAck, respStart.Add(int(p)), orig
	return a
}

func TestResponderExecutesAtomics(t *testing.T) {
	tests := []struct {
		name                   string
		op                     wire.Opcode
		before                 uint64
		swapAdd, compare, then uint64
	}{
		{"swap of equal", wire.CompareSwap, 5, 9, 5, 9},
		{"swap of unequal", wire.CompareSwap, 6, 9, 5, 6},
		{"swap of all bits", wire.CompareSwap, math.MaxUint64, 0, math.MaxUint64, 0},
		{"add", wire.FetchAdd, 5, 7, 0, 12},
		{"add, wraps", wire.FetchAdd, math.MaxUint64, 2, 0, 1},
		{"add of nothing", wire.FetchAdd, 0x0102030405060708, 0, 0, 0x0102030405060708},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.setWord(16, tt.before)
			r.arrive(respPkt(tt.op, 1000).atomic(r.at(16), r.mr.RKey(), tt.swapAdd, tt.compare))
			r.expectWord(16, tt.then)
			r.expect(respAtomicAnswer(0, 1, tt.before))
			r.expectWord(8, 0)
			r.expectWord(24, 0)
		})
	}
}

func TestResponderAtomicsAndReadsInOrder(t *testing.T) {
	r := newRespRig(t)
	add := func(p int) respReq {
		return respPkt(wire.FetchAdd, respStart.Add(p)).atomic(r.at(0), r.mr.RKey(), 1, 0)
	}
	r.arrive(add(0), r.read(1001, 8, 2*respMTU), add(3))
	r.arrive(r.write(1004, 1024, []byte{1})...)
	want := []respAnswer{respAtomicAnswer(0, 4, 0)}
	want = append(want, r.responses(1001, 4, make([]byte, 2*respMTU))...)
	r.expect(append(want, respAtomicAnswer(3, 4, 1), respAck(1004, 4))...)
}

func TestResponderAtomicWrite(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for cut := range 9 {
		r := newRespRig(t)
		r.arrive(respPkt(wire.AtomicWrite, 1000).reth(r.at(8), r.mr.RKey(), 8).with(data).cut(cut))
		r.expectMemory(0, append(append(make([]byte, 8), data...), 0))
		r.expect(respData(wire.ReadRespOnly, 1000, 1, nil))
	}
}

func respFETH(place wire.Placement, sel wire.Selectivity) uint32 {
	return uint32(sel)<<4 | uint32(place)
}

func TestResponderFlush(t *testing.T) {
	r := newRespRig(t)
	flush := func(p int, sel wire.Selectivity, va uint64, n uint32) respReq {
		return respPkt(wire.Flush, respStart.Add(p)).word(respFETH(wire.PlacementGlobal, sel)).reth(va, r.mr.RKey(), n)
	}
	r.arrive(flush(0, wire.SelectRange, r.at(0), respSize))
	r.expect(respData(wire.ReadRespOnly, 1000, 1, nil))
	r.arrive(flush(1, wire.SelectRegion, 0, math.MaxInt32)) // the range does not count
	r.expect(respData(wire.ReadRespOnly, 1001, 2, nil))
	r.arrive(flush(2, wire.SelectRange, r.at(0), respSize+1))
	r.expect(respNak(wire.NakRemoteAccess, 1002, 2))
}

func TestResponderRefusesFlushes(t *testing.T) {
	tests := []struct {
		name string
		feth uint32
		want wire.Syndrome
	}{
		{"no placement", respFETH(0, 0), wire.NakInvalidRequest},
		{"reserved placement", respFETH(4|wire.PlacementGlobal, 0), wire.NakInvalidRequest},
		{"reserved selectivity", respFETH(wire.PlacementGlobal, 2), wire.NakInvalidRequest},
		{"persistence, not granted", respFETH(wire.PlacementPersistent, 0), wire.NakInvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.arrive(respPkt(wire.Flush, 1000).word(tt.feth).reth(r.at(0), r.mr.RKey(), 1))
			r.expect(respNak(tt.want, 1000, 0))
		})
	}
	// A queue pair may grant what no region can.
	t.Run("persistence, no such memory", func(t *testing.T) {
		r := newRespRig(t, respAccessFlags(respAllAccess|ibv.AccessFlushPersistent))
		r.arrive(respPkt(wire.Flush, 1000).word(respFETH(wire.PlacementPersistent, wire.SelectRegion)).reth(0, r.mr.RKey(), 0))
		r.expect(respNak(wire.NakRemoteAccess, 1000, 0))
	})
}

func TestResponderFlushTakesNoCredit(t *testing.T) {
	r := newRespRig(t, respDest(1))
	r.arrive(
		respPkt(wire.Flush, 1000).word(respFETH(wire.PlacementGlobal, wire.SelectRegion)).reth(0, r.mr.RKey(), 0),
		r.read(1001, 0, 0),
	)
	r.expect(respData(wire.ReadRespOnly, 1000, 2, nil), respData(wire.ReadRespOnly, 1001, 2, nil))
}

// FLUSH takes no credit of the peer's. More of them than there are places
// are treated as lost, so that they come again.
func TestResponderFlushesBehindAReadOverrun(t *testing.T) {
	r := newRespRig(t, respDest(1))
	r.arrive(r.read(1000, 0, 4))
	flush := func(p int) respReq {
		return respPkt(wire.Flush, respStart.Add(p)).word(respFETH(wire.PlacementGlobal, wire.SelectRegion)).reth(0, r.mr.RKey(), 0)
	}
	r.arrive(flush(1), flush(2), flush(3))
	r.expectCount(DropFlushOverrun, 1)
	r.expect(
		respData(wire.ReadRespOnly, 1000, 2, make([]byte, 4)),
		respData(wire.ReadRespOnly, 1001, 2, nil),
		respNak(wire.NakPSNSeq, 1002, 2),
	)
	r.arrive(flush(2), flush(3))
	r.expect(respData(wire.ReadRespOnly, 1002, 4, nil), respData(wire.ReadRespOnly, 1003, 4, nil))
}

func TestResponderAtomicsNeedDirectMemory(t *testing.T) {
	r := newRespRig(t)
	access := ibv.AccessLocalWrite | ibv.AccessRemoteWrite
	mr, err := r.env.Mem.RegisterIndirect(respPD, 0x9000, 64, &respBrokenMemory{}, access)
	if err != nil {
		t.Fatal(err)
	}
	r.arrive(respPkt(wire.AtomicWrite, 1000).reth(0x9000, mr.RKey(), 8).with(make([]byte, 8)))
	r.expect(respNak(wire.NakRemoteOp, 1000, 0))
	r.expectState(ibv.QPStateErr)
}

func TestResponderAtomicAtEveryAlignment(t *testing.T) {
	for off := range 9 {
		t.Run(fmt.Sprint("offset ", off), func(t *testing.T) {
			r := newRespRig(t)
			r.arrive(respPkt(wire.FetchAdd, 1000).atomic(r.at(off), r.mr.RKey(), 1, 0))
			if off%8 == 0 {
				r.expect(respAtomicAnswer(0, 1, 0))
				return
			}
			r.expect(respNak(wire.NakInvalidRequest, 1000, 0))
			r.expectMemory(0, make([]byte, 24))
		})
	}
}
