package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// world is several hosts around a switch, the programs that they run, and the
// time.
type world struct {
	worldParams
	rnd    *rand.Rand
	net    *simnet.Star
	hosts  []*worldHost
	now    mono.Time
	timers []worldTimer
	rec    worldRecorder // nil: nobody looks
}

// worldTimer is something that happens later.
type worldTimer struct {
	at mono.Time
	do func()
}

// worldRecorder sees what happens in a world.
type worldRecorder interface {
	frame(at mono.Time, host int, outbound bool, frame []byte)
	note(at mono.Time, host int, text string)
}

// worldFailure is the panic that ends a simulation.
type worldFailure string

// runWorld runs the simulation that p describes and returns what was wrong with
// it.
func runWorld(p worldParams, rec worldRecorder) (w *world, failure error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case worldFailure:
			failure = fmt.Errorf("seed %d: %s", p.seed, string(v))
		default:
			failure = fmt.Errorf("seed %d: panic: %v\n%s", p.seed, v, debug.Stack())
		}
	}()
	w = &world{worldParams: p, rnd: rand.New(rand.NewPCG(p.seed, 11)), now: pairBegin, rec: rec}
	w.build()
	w.run()
	w.checkEnd()
	w.tearDown()
	return w, nil
}

// build makes the network, the hosts and the connections.
func (w *world) build() {
	p := &w.worldParams
	w.net = simnet.NewStar(p.seed, len(p.hosts), simnet.Conditions{}, simnet.Conditions{})
	for i := range p.hosts {
		w.net.SetUp(i, p.hosts[i].up)
		w.net.SetDown(i, p.hosts[i].down)
		w.hosts = append(w.hosts, newWorldHost(w, i))
	}
	for i := range p.conns {
		w.connect(i, &p.conns[i])
	}
	for _, f := range p.faults {
		w.after(f.at, func() { w.hosts[f.host].suffer(f) })
	}
}

func (w *world) gid(host int) ibv.GID {
	if w.v6 {
		return ibv.GIDOf(netip.MustParseAddr(fmt.Sprintf("fd00::%d", host+1)))
	}
	return ibv.GIDOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(host + 1)}))
}

// failf ends the simulation.
func (w *world) failf(format string, args ...any) {
	panic(worldFailure(fmt.Sprintf("at %v: ", w.now.Sub(pairBegin)) + fmt.Sprintf(format, args...)))
}

func (w *world) must(err error) {
	if err != nil {
		w.failf("%v", err)
	}
}

// note tells the recorder.
func (h *worldHost) note(format string, args ...any) {
	if h.w.rec != nil {
		h.w.rec.note(h.w.now, h.n, fmt.Sprintf(format, args...))
	}
}

// after has do called when d has passed.
func (w *world) after(d time.Duration, do func()) {
	w.timers = append(w.timers, worldTimer{w.now.Add(d), do})
}

// next is when something happens next.
func (w *world) next() mono.Time {
	t := w.net.Next()
	for i := range w.timers {
		t = mono.Min(t, w.timers[i].at)
	}
	for _, h := range w.hosts {
		t = mono.Min(t, mono.Min(h.nextApp, h.due()))
	}
	return t
}

// run lets time pass until all programs have ended and nothing is under way.
func (w *world) run() {
	end, same := w.now.Add(pairMaxTime), 0
	for steps := 0; ; {
		acts := w.net.Next() <= w.now
		w.fire()
		w.deliver()
		for _, h := range w.hosts {
			due := h.due() <= w.now
			acts = acts || due
			if h.nextApp <= w.now {
				h.app()
			} else if due {
				h.service()
			}
		}
		// A program may look each microsecond for room, whatever the engine waits for.
		if acts {
			steps++
		}
		next := w.next()
		switch {
		case next == mono.Never:
			if stuck := w.unfinished(); stuck != "" {
				w.failf("deadlock: nothing is due, but %s", stuck)
			}
			return
		case next > end || steps > pairMaxSteps:
			w.failf("no end after %d steps: %s", steps, w.unfinished())
		case next > w.now:
			w.now, same = next, 0
		default:
			if same++; same > pairSameTime {
				w.failf("time stands still: %s", w.unfinished())
			}
		}
	}
}

// fire runs the timers that are due.
func (w *world) fire() {
	for i := 0; i < len(w.timers); {
		if w.timers[i].at > w.now {
			i++
			continue
		}
		do := w.timers[i].do
		w.timers = slices.Delete(w.timers, i, i+1)
		do()
	}
}

// deliver hands over what has arrived, in batches as a driver takes them from its
// rings.
func (w *world) deliver() {
	for w.net.Next() <= w.now {
		touched := make([]bool, len(w.hosts))
		for range 1 + w.rnd.IntN(8) {
			to, frame, ok := w.net.Receive(w.now)
			if !ok {
				break
			}
			w.hosts[to].receive(frame)
			touched[to] = true
		}
		for i, h := range w.hosts {
			if touched[i] {
				h.service()
			}
		}
	}
}

// unfinished is the first program that has not ended, in words.
func (w *world) unfinished() string {
	for _, h := range w.hosts {
		for _, q := range h.qps {
			if !q.finished() {
				return q.String()
			}
		}
	}
	return ""
}
