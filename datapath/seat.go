package datapath

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Where the thread of a worker runs that serves programs in other processes. One that
// polls and its worker are best on CPUs of their own. The kernel sees to that as long
// as there are idle ones; where all are busy it leaves threads where they are, and a
// worker may share a CPU with just that program that waits for it: each message then
// waits until one has made place for the other. A worker that finds itself there steps
// aside. What a client says of its CPU is believed as far as that.

const (
	// seatEvery is how often it looks, and stepTime how long it insists: after that the
	// kernel decides again, which leaves it there unless others need the CPU more. Then
	// it stays with its client until stepEvery is over.
	seatEvery = 1 * time.Millisecond
	stepTime  = 10 * time.Millisecond
	stepEvery = 100 * time.Millisecond
)

// seat is what the thread of a worker knows of it. It is the background goroutine's
// alone.
type seat struct {
	own     bool        // the goroutine is locked to its thread
	look    mono.Time   // when to look next
	stepped mono.Time   // when it last stepped aside, 0: never
	insists bool        // it may not run elsewhere yet
	allowed unix.CPUSet // where it may run after that
}

// settle is called before each round.
func (s *seat) settle(w *worker, now mono.Time) {
	if now < s.look {
		return
	}
	s.look = now.Add(seatEvery)
	switch serves := w.dev.opts.OwnThreads && w.belled.Load() != nil; {
	case !serves:
		s.leave()
	case !s.own:
		runtime.LockOSThread()
		s.own = true
	case s.insists && now.Sub(s.stepped) >= stepTime:
		s.relent()
	case s.stepped == 0 || now.Sub(s.stepped) >= stepEvery:
		s.step(now, w.pollers())
	}
}

// step steps aside if a client is on the same CPU.
func (s *seat) step(now mono.Time, clients unix.CPUSet) {
	mine := shm.CPU()
	if mine < 0 || !clients.IsSet(mine) || unix.SchedGetaffinity(0, &s.allowed) != nil {
		return
	}
	to, ok := without(s.allowed, clients)
	if ok && unix.SchedSetaffinity(0, &to) == nil {
		s.stepped, s.insists = now, true
	}
}

// relent lets the kernel decide again.
func (s *seat) relent() {
	// It fails only if none of these CPUs is there any more, where the thread may run
	// on what is left.
	_ = unix.SchedSetaffinity(0, &s.allowed)
	s.insists = false
}

// leave gives the thread back as it was.
func (s *seat) leave() {
	if !s.own {
		return
	}
	if s.insists {
		s.relent()
	}
	s.own = false
	runtime.UnlockOSThread()
}

// without are the CPUs of a set that are not in another, and whether there are any.
func without(set, others unix.CPUSet) (rest unix.CPUSet, ok bool) {
	for i := range rest {
		rest[i] = set[i] &^ others[i]
	}
	return rest, rest.Count() > 0
}

// pollers are the CPUs of clients that have rung a doorbell since the last time.
func (w *worker) pollers() (cpus unix.CPUSet) {
	belled := w.belled.Load()
	if belled == nil || !w.tryLock() {
		return cpus
	}
	for _, l := range *belled {
		if l.rang {
			if cpu := l.bells.CPU(); cpu >= 0 {
				cpus.Set(cpu) // one that is too large is ignored
			}
			l.rang = false
		}
	}
	w.release(background)
	return cpus
}
