package transport

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestResponderPlacesWrites(t *testing.T) {
	for _, n := range []int{1, 3, 4, 255, 256, 257, 511, 512, 513, 2*respMTU + 5} {
		t.Run(fmt.Sprint(n, " bytes"), func(t *testing.T) {
			r := newRespRig(t)
			data := respFill(9, n)
			pkts := r.write(1000, 33, data)
			r.arrive(pkts...)
			r.expect(respAck(pkts[len(pkts)-1].psn, 1))
			r.expectMemory(33, data)
			if r.mem[32] != 0 || r.mem[33+n] != 0 {
				t.Error("bytes around the payload have changed")
			}
			r.expectCompletions()
			r.expectCount(RcvdBytes, uint64(n))
		})
	}
}

func TestResponderWriteAtTheEndsOfARegion(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1000, respSize-3, []byte{1, 2, 3})...)
	r.arrive(r.write(1001, 0, []byte{4})...)
	r.expect(respAck(1001, 2))
	r.expectMemory(respSize-3, []byte{1, 2, 3})
	r.expectMemory(0, []byte{4})
}

// A WRITE of no bytes names no memory that could be wrong.
func TestResponderWriteOfNothing(t *testing.T) {
	r := newRespRig(t)
	r.arrive(respPkt(wire.WriteOnly, 1000).reth(0xDEAD, 0xBAD, 0).asks())
	r.expect(respAck(1000, 1))
	r.expectState(ibv.QPStateRTR)
}

func TestResponderWriteSegmentsAtEveryOffset(t *testing.T) {
	const n = 17
	data := respFill(5, n)
	for align := range 8 {
		for cut1 := 0; cut1 <= n; cut1++ {
			for cut2 := cut1; cut2 <= n; cut2++ {
				r := newRespRig(t)
				r.arrive(r.write(1000, align, data)[0].cut(cut1, cut2))
				r.expectMemory(0, append(append(make([]byte, align), data...), 0))
				if t.Failed() {
					t.Fatalf("at offset %d, segments cut at %d, %d", align, cut1, cut2)
				}
			}
		}
	}
}

func TestResponderWriteStopsWhenTheRegionGoes(t *testing.T) {
	r := newRespRig(t)
	pkts := r.write(1000, 0, respFill(1, 3*respMTU))
	r.arrive(pkts[0])
	if err := r.env.Mem.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
	r.arrive(pkts[1])
	r.expect(respNak(wire.NakRemoteAccess, 1001, 0))
	r.expectMemory(respMTU, make([]byte, respMTU))
	r.expectEvents(ibv.EventCommEst, ibv.EventQPAccessErr)
	r.expectState(ibv.QPStateErr)
}

func TestResponderSendStopsWhenTheBufferGoes(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1024)
	pkts := respSend(1000, respFill(1, 2*respMTU))
	r.arrive(pkts[0])
	if err := r.env.Mem.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
	r.arrive(pkts[1])
	r.expect(respNak(wire.NakRemoteOp, 1001, 0))
	r.expectMemory(respMTU, make([]byte, respMTU))
	r.expectCompletions(respFailed(1, ibv.WCLocProtErr))
}

// A region whose memory turns out to be gone answers like a wrong key.
func TestResponderWriteToMemoryThatFails(t *testing.T) {
	r := newRespRig(t)
	ind := &respBrokenMemory{}
	mr, err := r.env.Mem.RegisterIndirect(respPD, 0x9000, 64, ind, ibv.AccessLocalWrite|ibv.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	r.arrive(respPkt(wire.WriteOnly, 1000).reth(0x9000, mr.RKey(), 4).with([]byte("good")))
	if string(ind.data) != "good" {
		t.Errorf("indirect memory got %q", ind.data)
	}
	ind.broken = true
	r.arrive(respPkt(wire.WriteOnly, 1001).reth(0x9000, mr.RKey(), 4).with([]byte("lost")))
	r.expect(respNak(wire.NakRemoteAccess, 1001, 1))
	r.expectState(ibv.QPStateErr)
}

// The last bytes of a message are written by themselves and last, so that a
// program that polls on them finds all others. Indirect memory shows it: there
// the final word is a write of its own.
func TestResponderWritesTheLastBytesLast(t *testing.T) {
	conformance.Rule(t, "10-16")
	data := respFill(1, respMTU+20)
	want := []int{100, respMTU - 100, 8, 8, 4} // 20 bytes of LAST cut at 8: the final word has 4
	setup := func(t *testing.T) (*respRig, *respBrokenMemory, *memory.Region) {
		r, ind := newRespRig(t), &respBrokenMemory{}
		mr, err := r.env.Mem.RegisterIndirect(respPD, 0x9000, 1024, ind, ibv.AccessLocalWrite|ibv.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		return r, ind, mr
	}
	check := func(t *testing.T, ind *respBrokenMemory) {
		if d := cmp.Diff(want, ind.sizes); d != "" {
			t.Errorf("sizes of writes (-want +got):\n%s", d)
		}
		if string(ind.data) != string(data) {
			t.Error("payload differs")
		}
	}
	t.Run("WRITE", func(t *testing.T) {
		r, ind, mr := setup(t)
		r.arrive(
			respPkt(wire.WriteFirst, 1000).reth(0x9000, mr.RKey(), respMTU+20).with(data[:respMTU]).cut(100),
			respPkt(wire.WriteLast, 1001).with(data[respMTU:]).cut(8),
		)
		check(t, ind)
	})
	t.Run("SEND", func(t *testing.T) {
		r, ind, mr := setup(t)
		r.postSGE(1,
			queue.SGE{Addr: 0x9000, Length: 100, LKey: mr.LKey()},
			queue.SGE{Addr: 0x9000 + 100, Length: 500, LKey: mr.LKey()},
		)
		r.arrive(
			respPkt(wire.SendFirst, 1000).with(data[:respMTU]),
			respPkt(wire.SendLast, 1001).with(data[respMTU:]).cut(8),
		)
		check(t, ind)
	})
}

// respBrokenMemory is an indirect memory that can go away.
type respBrokenMemory struct {
	data   []byte
	sizes  []int // of the writes
	broken bool
}

func (m *respBrokenMemory) ReadAt(dst []byte, _ uint64) error {
	if m.broken {
		return fmt.Errorf("gone")
	}
	copy(dst, m.data)
	return nil
}

func (m *respBrokenMemory) WriteAt(src []byte, _ uint64) error {
	if m.broken {
		return fmt.Errorf("gone")
	}
	m.data = append(m.data, src...)
	m.sizes = append(m.sizes, len(src))
	return nil
}
