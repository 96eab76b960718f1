package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// A worker that was not driven for a while, because other programs had the CPU or
// the machine stood still, finds that timers have run out. The answers that they
// wait for may not have had their chance either: frames stay in queues of the
// kernel, and a peer on the same machine was kept from running too. So timers wait
// a little longer then.
const (
	graceAfter = 5 * time.Millisecond // how long it was not driven while a timer was due
	graceTime  = 5 * time.Millisecond // how long timers wait then
)

// grace is what a worker remembers of it.
type grace struct {
	lastRound mono.Time // when the worker was last driven
	until     mono.Time // timers wait until then
	spent     bool      // they have waited, and not run since
}

// deadline is when a queue pair's timer, or the patience with what is in flight,
// runs out.
func (w *worker) deadline() mono.Time {
	first := w.timers.next()
	for l := w.waiting; l != nil; l = l.nextWait {
		first = mono.Min(first, l.fullUntil)
	}
	return first
}

// nextTimer is when the worker must be driven for that.
func (w *worker) nextTimer() mono.Time { return max(w.deadline(), w.grace.until) }

// timersRun reports whether timers may run out in the round at now, and tells
// the engine.
func (w *worker) timersRun(now mono.Time) bool {
	g, t := &w.grace, w.deadline()
	seen := g.lastRound
	g.lastRound = now
	if t > now {
		g.spent, w.env.Behind = false, false
		return false
	}
	// Once only: the rounds of a program that polls rarely are all late.
	if !g.spent && now.Sub(max(seen, t)) >= graceAfter {
		g.spent, g.until = true, now.Add(graceTime)
	}
	w.env.Behind = now < g.until || w.behind()
	if !w.env.Behind {
		g.spent = false
	}
	return !w.env.Behind
}

// behind reports whether something has come in that was not looked at: what a
// timer waits for may be among it.
func (w *worker) behind() bool {
	return w.rxMore || len(w.loop) != 0 || w.inbox.Load() != 0 || w.port.RxAvail() != 0
}
