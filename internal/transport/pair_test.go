package transport_test

import (
	"bytes"
	"flag"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

var (
	pairSeed  = flag.Uint64("seed", 0, "run only this simulation; with -v it is traced")
	pairSeeds = flag.Uint64("seeds", 0, "number of simulations of each kind; 0 is each test's own")
)

// seedRange is which simulations a test runs: usual, from first on, unless the
// flags say otherwise.
func seedRange(first, usual uint64) (from, to uint64) {
	switch {
	case *pairSeed != 0:
		return *pairSeed, *pairSeed
	case *pairSeeds != 0:
		usual = *pairSeeds
	}
	return first, first + usual - 1
}

// TestPair joins two engines by a link that loses, repeats, reorders and
// corrupts, lets both run a random program, and compares completions and memory
// with a model that runs the program in order, once.
func TestPair(t *testing.T) {
	first, last := seedRange(1, 200)
	gaveUp := 0
	eachSeed(t, "", first, last, func(t *testing.T, seed uint64, rec worldRecorder) {
		p := drawParams(seed)
		p.rec = rec
		if runPair(t, p) {
			gaveUp++
		}
	})
	if total := int(last - first + 1); gaveUp > total/4 {
		t.Errorf("%d of %d connections broke: the conditions test little", gaveUp, total)
	}
}

// runPair reports whether a side ran out of retries.
func runPair(t *testing.T, p pairParams) (gaveUp bool) {
	return runPairWorld(newPairWorld(t, p))
}

func runPairWorld(w *pairWorld) (gaveUp bool) {
	for _, h := range w.hosts {
		h.writeProgram(w.ops[h.end])
	}
	w.runToEnd()
	for _, h := range w.hosts {
		gaveUp = gaveUp || h.prog.failed != ibv.WCSuccess
	}
	for _, h := range w.hosts {
		h.checkEnd(gaveUp)
	}
	return gaveUp
}

// checkEnd is what must be true when all is over.
func (h *pairHost) checkEnd(gaveUp bool) {
	w := h.w
	switch state := h.qp.State(); {
	case h.prog.failed != ibv.WCSuccess:
		if w.lossless() || h.prog.failed != ibv.WCRetryExcErr || state != ibv.QPStateErr {
			w.failf("%v: %v in %v, conditions %+v and %+v", h.end, h.prog.failed, state, w.fromA, w.fromB)
		}
	case state != ibv.QPStateRTS:
		w.failf("%v: ends in %v", h.end, state)
	}
	if !gaveUp {
		if at := firstDiff(h.mem.bytes, h.mem.model); at >= 0 {
			w.failf("%v: byte %#x of the memory is %#x, want %#x", h.end, at, h.mem.bytes[at], h.mem.model[at])
		}
	}
	if d := h.due(); d != mono.Never {
		w.failf("%v: idle, but due in %v", h.end, d.Sub(w.now))
	}
	if len(h.frames) != 0 && (!gaveUp || h.taker().State() == ibv.QPStateErr) {
		w.failf("%v: idle, but %d frames are kept", h.end, len(h.frames))
	}
	if w.perfect() && h.env.Counters[SendRNRErr] == 0 {
		// What arrives in order and is acknowledged is never sent again.
		for _, c := range []Counter{DuplicateRequest, OutOfSeqRequest, DropStaleResponse, DuplicateAck, ImpliedNak, RcvdSeqErr} {
			if n := h.env.Counters[c]; n != 0 {
				w.failf("%v: %v is %d on a perfect link", h.end, c, n)
			}
		}
	}
	for _, c := range []Counter{DropPeer, DropPKey, DropOpcode, DropResponse, DropSyndrome, PayloadFault} {
		if n := h.env.Counters[c]; n != 0 {
			w.failf("%v: %v is %d", h.end, c, n)
		}
	}
	if !gaveUp && h.env.Counters[DropState] != 0 {
		w.failf("%v: %d packets met no connection", h.end, h.env.Counters[DropState])
	}
}

// firstDiff is the index of the first difference of a and b, -1 if there is none.
func firstDiff(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
