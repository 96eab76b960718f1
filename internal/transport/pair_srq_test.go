package transport_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// TestPairShared is TestPair with receives of a shared queue: what is lost, sent
// again or refused for want of a receive uses each of them once, in order.
func TestPairShared(t *testing.T) {
	gaveUp, refused := 0, uint64(0)
	const last = 60
	eachSeed(t, "", 1001, 1000+last, func(t *testing.T, seed uint64, rec worldRecorder) {
		p := drawParams(seed)
		p.shared, p.rec = true, rec
		w := newPairWorld(t, p)
		for _, h := range w.hosts {
			h.writeProgram(w.ops[h.end])
		}
		w.runToEnd()
		broke := false
		for _, h := range w.hosts {
			broke = broke || h.prog.failed != ibv.WCSuccess
		}
		for _, h := range w.hosts {
			h.checkEnd(broke)
			refused += h.env.Counters[SendRNRErr]
		}
		if broke {
			gaveUp++
		}
	})
	if gaveUp > last/4 || refused == 0 {
		t.Errorf("%d of %d connections broke, %d requests were refused: the conditions test little", gaveUp, last, refused)
	}
}

// Each frame in turn is lost, with receives of a shared queue.
func TestPairSharedEachFrameOnce(t *testing.T) {
	p := calmParams()
	p.shared = true
	total := frames(t, p)
	for _, from := range []simnet.End{simnet.A, simnet.B} {
		for n := range total[from] {
			runFaults(t, p, fate{from, n, simnet.Lose})
		}
	}
}
