package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// pairParams are what a simulation of two queue pairs is made of.
type pairParams struct {
	seed       uint64
	typ        ibv.QPType // RC unless set
	mtu        ibv.MTU
	v6         bool
	firstPSN   [2]uint32
	ops        [2]int // work requests that each side posts
	window     [2]int
	keep       [2]int // out-of-order packets that each side may keep
	rdAtomic   uint8
	sqDepth    int
	rqDepth    int
	shared     bool  // receives come from a shared queue
	windows    bool  // requests go through windows, which programs bind and invalidate
	timeout    uint8 // local ACK timeout code
	retries    uint8
	rnrRetries uint8
	batch      int // packets of one Poll
	recvPause  time.Duration
	fromA      simnet.Conditions
	fromB      simnet.Conditions
	eager      bool // post everything at once, receives first
	lateRecvs  bool // post all sends at once, but receives one by one, recvPause apart
	stalls     bool // now and then a host stands still, and then takes packet by packet what has come
	rec        worldRecorder
}

// drawParams derives everything from a seed.
func drawParams(seed uint64) pairParams {
	rnd := rand.New(rand.NewPCG(seed, 1))
	psns := []uint32{0, 1, 0xfffffe, 0xffffff, 0xfffff0, 0x7ffffe, 0x800000, rnd.Uint32()}
	pick := func(v ...int) int { return v[rnd.IntN(len(v))] }
	p := pairParams{
		seed:       seed,
		mtu:        ibv.MTU256 + ibv.MTU(rnd.IntN(5)),
		v6:         rnd.IntN(2) == 0,
		rdAtomic:   uint8(pick(1, 2, 3, 4, 16)),
		sqDepth:    pick(1, 2, 8, 32),
		rqDepth:    pick(1, 2, 8, 32),
		timeout:    8,
		retries:    7,
		rnrRetries: 7,
		batch:      pick(1, 2, 7, 32),
		recvPause:  time.Duration(pick(1, 20, 200)) * time.Microsecond,
	}
	for i := range 2 {
		p.firstPSN[i] = psns[rnd.IntN(len(psns))]
		p.ops[i] = pick(0, 8, 20, 30)
		p.window[i] = pick(1, 2, 5, 16, 256)
		p.keep[i] = pick(0, 1, 5, 16, 300)
	}
	cond := func() simnet.Conditions {
		level := []float64{0, 0.002, 0.02, 0.1, 0.2}[rnd.IntN(5)]
		some := func() float64 { return level * float64(rnd.IntN(2)) }
		return simnet.Conditions{
			Delay:  time.Duration(1+rnd.IntN(20)) * time.Microsecond,
			Jitter: time.Duration(rnd.IntN(2)) * time.Microsecond,
			Drop:   some(), Duplicate: some(), Reorder: some(), Corrupt: some(),
			ReorderBy: time.Duration(pick(1, 10, 100, 2000)) * time.Microsecond,
		}
	}
	p.fromA, p.fromB = cond(), cond()
	return p
}

// lossless reports whether so little is lost that no retry count runs out.
func (p *pairParams) lossless() bool {
	bad := func(c *simnet.Conditions) float64 { return c.Drop + c.Corrupt }
	return bad(&p.fromA)+bad(&p.fromB) < 0.05
}

// perfect reports whether the link neither loses nor reorders anything.
func (w *pairWorld) perfect() bool {
	if w.disturbed || w.stalls {
		return false
	}
	good := func(c simnet.Conditions) bool {
		return c.Drop+c.Corrupt+c.Duplicate+c.Reorder == 0 && c.Jitter == 0
	}
	return good(w.fromA) && good(w.fromB)
}

// pairBegin is when simulations begin.
const pairBegin = mono.Time(1_000_000)

// pairWorld is two hosts, the link between them, and the time.
type pairWorld struct {
	testing.TB
	pairParams
	rnd   *rand.Rand
	link  *simnet.Link
	hosts [2]*pairHost
	now   mono.Time
	cut   func(frame []byte, headers int) [][]byte

	disturbed bool // the test loses or delays frames by itself
}

func newPairWorld(t testing.TB, p pairParams) *pairWorld {
	t.Helper()
	w := &pairWorld{
		TB: t, pairParams: p,
		rnd:  rand.New(rand.NewPCG(p.seed, 2)),
		link: simnet.NewLink(p.seed, p.fromA, p.fromB),
		now:  pairBegin,
	}
	w.cut = w.cutAnywhere
	for i := range w.hosts {
		w.hosts[i] = newPairHost(w, simnet.End(i))
	}
	w.hosts[0].peer, w.hosts[1].peer = w.hosts[1], w.hosts[0]
	for _, h := range w.hosts {
		h.connect()
	}
	return w
}

func (w *pairWorld) gid(e simnet.End) ibv.GID {
	addr := [2]string{"10.0.0.1", "10.0.0.2"}
	if w.v6 {
		addr = [2]string{"fd00::1", "fd00::2"}
	}
	return ibv.GIDOf(netip.MustParseAddr(addr[e]))
}

// failf ends the test; the message has the seed.
func (w *pairWorld) failf(format string, args ...any) {
	w.Helper()
	text := fmt.Sprintf(format, args...)
	for _, h := range w.hosts {
		h.note("FAILED: %s", text)
	}
	w.Fatalf("seed %d at %v: %s", w.seed, w.now.Sub(pairBegin), text)
}

// Limits of a simulation: what takes longer is stuck.
const (
	pairMaxTime  = 2 * time.Minute
	pairMaxSteps = 300_000 // in which the engine has something to do
	pairSameTime = 2_000   // steps without the clock moving
)

// run drives both hosts until until is true, then until nothing is under way.
func (w *pairWorld) run(until func() bool) {
	w.Helper()
	end, same := w.now.Add(pairMaxTime), 0
	for steps := 0; ; {
		acts := w.link.Next() <= w.now
		w.deliver()
		for _, h := range w.hosts {
			if w.stalls && !h.awake() {
				continue
			}
			if h.nextApp <= w.now {
				h.app()
			}
			if h.due() <= w.now {
				acts = true
				h.service()
			}
		}
		// A program may look each microsecond for room, whatever the engine waits for.
		if acts {
			steps++
		}
		next := mono.Min(w.link.Next(), mono.Min(w.hosts[0].next(), w.hosts[1].next()))
		switch {
		case next == mono.Never && until():
			return
		case next == mono.Never:
			w.failf("deadlock: nothing is due\n%v\n%v", w.hosts[0], w.hosts[1])
		case next > end || steps > pairMaxSteps:
			w.failf("no end after %d steps\n%v\n%v", steps, w.hosts[0], w.hosts[1])
		case next > w.now:
			w.now, same = next, 0
		default:
			if same++; same > pairSameTime {
				w.failf("time stands still\n%v\n%v", w.hosts[0], w.hosts[1])
			}
		}
	}
}

// runToEnd runs until both programs have ended.
func (w *pairWorld) runToEnd() {
	w.Helper()
	w.run(func() bool { return w.hosts[0].finished() && w.hosts[1].finished() })
}

// deliver hands over what has arrived, in batches as a driver takes them from a
// ring; a queue pair is polled after each.
func (w *pairWorld) deliver() {
	for w.link.Next() <= w.now {
		var touched [2]bool
		for range 1 + w.rnd.IntN(8) {
			to, frame, ok := w.link.Receive(w.now)
			if !ok {
				break
			}
			if w.hosts[to].absent(frame) {
				continue
			}
			w.hosts[to].receive(frame)
			touched[to] = true
		}
		for i, h := range w.hosts {
			if touched[i] {
				h.releaseFrames()
				h.service()
			}
		}
	}
}

// cutAnywhere splits a frame into up to four segments behind its headers, each
// in memory of its own.
func (w *pairWorld) cutAnywhere(frame []byte, headers int) [][]byte {
	segs := [][]byte{frame}
	for range w.rnd.IntN(4) {
		last := segs[len(segs)-1]
		from := 0
		if len(segs) == 1 {
			from = min(headers, len(last))
		}
		at := from + w.rnd.IntN(len(last)-from+1)
		segs = append(segs[:len(segs)-1], clip(last[:at]), clip(last[at:]))
	}
	return segs
}

// clip is a copy of b that ends with its allocation, so that a step too far
// panics.
func clip(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}
