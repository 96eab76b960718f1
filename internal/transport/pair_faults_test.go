package transport_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// calmParams is a link without chance; all is posted before it begins.
func calmParams() pairParams {
	calm := simnet.Conditions{Delay: 5 * time.Microsecond, ReorderBy: 40 * time.Microsecond}
	return pairParams{
		seed: 1, mtu: ibv.MTU256, firstPSN: [2]uint32{0xfffffa, 0xfffffd}, ops: [2]int{16, 16}, window: [2]int{256, 256},
		rdAtomic: 4, sqDepth: 32, rqDepth: 32, timeout: 8, retries: 7, rnrRetries: 7, batch: 32, recvPause: time.Microsecond,
		fromA: calm, fromB: calm, eager: true,
	}
}

// timeout8 is the local ACK timeout of code 8.
const timeout8 = 4096 * time.Nanosecond << 8

// everyOp has each operation once, with messages of one packet and of several.
var everyOp = []fixedOp{
	{ibv.WRSend, 3*256 + 1}, {ibv.WRRDMAWrite, 2 * 256}, {ibv.WRRDMARead, 3*256 + 1}, {ibv.WRAtomicFetchAdd, 8},
	{ibv.WRSendWithImm, 5}, {ibv.WRAtomicCmpAndSwp, 8}, {ibv.WRRDMAWriteWithImm, 256}, {ibv.WRRDMARead, 10},
	{ibv.WRAtomicWrite, 8}, {ibv.WRFlush, 100}, {ibv.WRSend, 0},
}

// fate is what happens to the n-th frame of an end.
type fate struct {
	from simnet.End
	n    uint64
	fate simnet.Fate
}

func (f fate) String() string {
	return fmt.Sprintf("%s_%v%d", []string{"pass", "lose", "repeat", "delay"}[f.fate], f.from, f.n)
}

// runFaults runs everyOp from A, and a few from B, with these fates, and says
// how long it took.
func runFaults(t *testing.T, p pairParams, fates ...fate) (w *pairWorld, took time.Duration) {
	t.Helper()
	w = newPairWorld(t, p)
	w.link.Script = func(from simnet.End, n uint64, _ []byte) simnet.Fate {
		for _, f := range fates {
			if f.from == from && f.n == n {
				return f.fate
			}
		}
		return simnet.Chance
	}
	ops := everyOp
	switch {
	case p.windows:
		ops = everyKeyOp
	case p.typ == ibv.QPTypeXRCSend:
		ops = slices.DeleteFunc(slices.Clone(ops), func(o fixedOp) bool { return o.opcode == ibv.WRAtomicWrite || o.opcode == ibv.WRFlush })
	}
	w.hosts[0].writeFixed(ops...)
	w.hosts[1].writeFixed(fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRRDMARead, 300})
	w.disturbed = len(fates) > 0
	w.runToEnd()
	for _, h := range w.hosts {
		if h.prog.failed != ibv.WCSuccess {
			t.Fatalf("%v: %v", fates, h.prog.failed)
		}
		h.checkEnd(false)
	}
	return w, w.now.Sub(pairBegin)
}

// frames is how many frames each end sends when nothing goes wrong.
func frames(t *testing.T, p pairParams) [2]uint64 {
	t.Helper()
	w, _ := runFaults(t, p)
	return [2]uint64{w.link.Stats(simnet.A).Sent, w.link.Stats(simnet.B).Sent}
}

func TestPairOnACalmLink(t *testing.T) {
	w, took := runFaults(t, calmParams())
	// 11 requests of A are 16 packets; B answers a READ of 4 packets and five
	// requests of one. Each side acknowledges a batch once.
	for _, h := range w.hosts {
		if n := h.env.Counters[CompleterRetryErr]; n != 0 {
			t.Errorf("%v repeated %d times", h.end, n)
		}
	}
	if took > 200*time.Microsecond {
		t.Errorf("it took %v at 10 us for a round trip", took)
	}
}

// Each frame in turn is lost, repeated or late, with and without frames kept at
// the receiver. A loss shows by what comes after it. Nothing comes after the last
// request of A, the last of B, and the last response to each: these four wait for
// the timer.
func TestPairEachFrameOnce(t *testing.T) {
	for _, keep := range []int{0, 16} {
		p := calmParams()
		p.keep = [2]int{keep, keep}
		total := frames(t, p)
		for _, what := range []simnet.Fate{simnet.Lose, simnet.Repeat, simnet.Delay} {
			timers := 0
			for _, from := range []simnet.End{simnet.A, simnet.B} {
				for n := range total[from] {
					f := fate{from, n, what}
					if _, took := runFaults(t, p, f); took > timeout8 {
						timers++
						if took > timeout8+time.Millisecond {
							t.Errorf("%v: %v", f, took)
						}
					}
				}
			}
			want := 0
			if what == simnet.Lose {
				want = 4
			}
			if timers != want {
				t.Errorf("keep %d, %v: %d of %d frames needed the timer, want %d", keep, fate{fate: what}, timers, total[0]+total[1], want)
			}
		}
	}
}

// Any two frames are lost: repetitions among them.
func TestPairEachTwoFramesLost(t *testing.T) {
	p := calmParams()
	p.keep = [2]int{4, 0}
	total := frames(t, p)
	var all []fate
	for from := range simnet.End(2) {
		for n := range total[from] + 4 { // a little more: of the repetitions
			all = append(all, fate{from, n, simnet.Lose})
		}
	}
	for i, f := range all {
		for _, g := range all[:i] {
			// The second timeout in a row lasts twice as long.
			if _, took := runFaults(t, p, f, g); took > 3*timeout8+time.Millisecond {
				t.Errorf("%v %v: %v", g, f, took)
			}
		}
	}
}

// Receives come late: RNR NAKs and the repetitions after them lose frames too.
func TestPairEachFrameOnceWithRNR(t *testing.T) {
	for _, keep := range []int{0, 16} {
		p := calmParams()
		p.keep = [2]int{keep, keep}
		p.lateRecvs, p.recvPause = true, 150*time.Microsecond
		w, _ := runFaults(t, p)
		if w.hosts[1].env.Counters[SendRNRErr] == 0 {
			t.Fatal("no RNR NAK was sent")
		}
		for _, from := range []simnet.End{simnet.A, simnet.B} {
			for n := range w.link.Stats(from).Sent {
				for _, what := range []simnet.Fate{simnet.Lose, simnet.Repeat, simnet.Delay} {
					runFaults(t, p, fate{from, n, what})
				}
			}
		}
	}
}

// Payload, pad and ICRC in up to three segments, cut at every two places.
func TestPairSegmentsCutEverywhere(t *testing.T) {
	var ops []fixedOp
	for n := range 10 {
		for _, op := range []ibv.WROpcode{ibv.WRSend, ibv.WRSendWithImm, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm, ibv.WRRDMARead} {
			ops = append(ops, fixedOp{op, n})
		}
	}
	ops = append(ops, fixedOp{ibv.WRAtomicFetchAdd, 8}, fixedOp{ibv.WRAtomicWrite, 8})
	p := calmParams()
	p.ops = [2]int{len(ops), 0}
	p.rqDepth = 64
	const longest = 9 + 3 + 4
	for i := range longest + 1 {
		for j := range i + 1 {
			w := newPairWorld(t, p)
			w.cut = func(frame []byte, headers int) [][]byte {
				a, b := min(headers+j, len(frame)), min(headers+i, len(frame))
				return [][]byte{clip(frame[:a]), clip(frame[a:b]), clip(frame[b:])}
			}
			w.hosts[0].writeFixed(ops...)
			w.run(w.hosts[0].finished)
			for _, h := range w.hosts {
				h.checkEnd(false)
			}
		}
	}
}
