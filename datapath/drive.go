package datapath

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Who drives a worker, and how no wake-up is lost.
//
// A worker is driven by whoever holds its lock: an application's goroutine that
// polls (poller) or posts (poster), a control call, or the worker's background
// goroutine. Nobody but the background goroutine and control calls ever waits
// for the lock: a poller that does not get it has nothing to do, and what a
// poster has posted is seen by the holder.
//
// The background goroutine is in one of three states (word bg):
//
//	awake    it looks at everything again before it sleeps
//	armed    it sleeps until a frame arrives, until wake, or until the time in
//	         word until, whichever comes first; it sets word until before
//	napping  an application polls: it sleeps until wake or until word until, not
//	         longer than takeover after the last poll, and frames do not wake it
//
// Everything that needs a round is published in an atomic word before bg is
// looked at: work requests (posted), frames of other workers (inbox), memory
// that comes back (returns), a deadline or left-over work (due), the end of
// polling (lastPoll), the wish for the lock (wants), the end of the device.
// The background goroutine writes bg first and looks at those words then. As
// these operations have one total order, at least one side sees the other:
//
//   - who publishes while a driver holds the lock: the driver looks at the words
//     after it has released the lock, and who published tries the lock after
//     publishing, so one of the two runs the round;
//   - who publishes while the background goroutine goes to sleep: either it sees
//     the word, or who published sees the state and wakes it;
//   - frames that arrive: Waiter.Sleep arms the socket, then looks at the ring;
//   - clients in other processes, which ring doorbells in shared memory: the state
//     word that they read says asleep while the goroutine is armed, and with bg. They
//     wake it through the Waiter, which watches event counters of theirs. While it
//     naps, whoever drives the worker, or the end of the nap, sees the doorbells.
//
// An application counts as polling when two of its polls are no more than
// pollGap apart: one that polls now and then leaves the work to the background
// goroutine. While an application polls, the rest period of the background
// goroutine ends takeover after the last such poll: a program that stops polling
// is served again after that, and one that says so by sleeping in WaitEvent at
// once.

// States of the background goroutine.
const (
	bgNone    uint32 = iota // there is none
	bgAwake                 // looks before it sleeps
	bgArmed                 // sleeps, frames wake it
	bgNapping               // sleeps while an application polls
)

// driver says who held a worker's lock.
type driver uint8

const (
	poller driver = iota
	poster
	controller
	background
)

const (
	// takeover is how long after an application's last poll the background
	// goroutine takes over.
	takeover = time.Millisecond
	// pollGap is how far apart the polls of a program that spins are at most.
	pollGap = 100 * time.Microsecond
	// fullPoll is how many empty polls there are for each that runs a whole round,
	// deadlines included.
	fullPoll = 8
	// linger is how long after the last work the background goroutine looks again
	// by itself. Acknowledgement time-outs are longer as a rule, so that a post
	// finds it due to look before its own deadline, and need not wake it.
	linger = 20 * time.Millisecond
	// servedSpin is how long the background goroutine of a worker with clients in
	// other processes looks for more work at least: to be woken costs such a client a
	// system call, and the time of several messages.
	servedSpin = 100 * time.Microsecond
	// turnTime is how long it looks before it gives way to other processes, as long as
	// that takes: else a message that comes meanwhile waits for twice that.
	turnTime = 4 * time.Microsecond
	// errorPause keeps a waiter that fails from being a busy loop.
	errorPause = 10 * time.Millisecond
	// lostPause is the same where the interface is gone: there is nothing to wait
	// for but what programs still do, which wakes.
	lostPause = time.Second
	// workNow is a deadline that has passed.
	workNow mono.Time = 1
	// maxRelays bounds how often a driver goes on for what others have posted.
	maxRelays = 4
)

// drive has the words of the protocol, apart from a worker's other fields.
type drive struct {
	_        [cacheLine]byte
	lock     atomic.Uint32
	waiters  atomic.Int32 // control calls that wait for the lock
	wants    atomic.Bool  // the background goroutine waits for the lock
	_        [cacheLine]byte
	bg       atomic.Uint32
	until    atomic.Int64 // mono.Time at which a sleeping background goroutine looks again
	due      atomic.Int64 // mono.Time by which the worker must be driven
	lastPoll atomic.Int64 // mono.Time of the last poll of an application that spins, 0 when it stopped
	anyPoll  atomic.Int64 // mono.Time of the last poll
	_        [cacheLine]byte
	posted   postedList
	inbox    atomic.Uint64 // workers that have handed over frames
	returns  atomic.Uint64 // workers that have given back frames
	hungry   atomic.Bool   // frames to receive into are wanting
	_        [cacheLine]byte
}

// tryLock takes the lock if nobody holds it or has a better claim to it.
func (w *worker) tryLock() bool {
	return w.lock.Load() == 0 && w.waiters.Load() == 0 && w.lock.CompareAndSwap(0, 1)
}

// acquire takes the lock for a control call. It fails when the device is closed,
// whose closing keeps the lock.
func (w *worker) acquire() error {
	w.waiters.Add(1)
	defer w.waiters.Add(-1)
	for i := 0; !w.lock.CompareAndSwap(0, 1); i++ {
		if w.dev.closed.Load() {
			return ErrClosed
		}
		// A round takes microseconds; a long one, with a system call inside, is
		// not worth burning a CPU for.
		if i < 64 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
	return nil
}

// seize takes the lock for good, as the device ends.
func (w *worker) seize() {
	w.waiters.Add(1)
	for !w.lock.CompareAndSwap(0, 1) {
		time.Sleep(50 * time.Microsecond)
	}
	w.waiters.Add(-1)
	w.napTimer.Stop()
}

// control runs f with the worker's lock and lets the worker go on with what f
// has started.
func (w *worker) control(f func()) error {
	if err := w.acquire(); err != nil {
		return err
	}
	f()
	w.transmit(clock())
	w.finish()
	w.release(controller)
	return nil
}

// quiesce returns when whoever drove the worker before has let go of it.
func (w *worker) quiesce() error {
	if err := w.acquire(); err != nil {
		return err
	}
	w.release(controller)
	return nil
}

// release gives the lock back, takes up what others have published meanwhile,
// and wakes the background goroutine for what is left.
func (w *worker) release(who driver) {
	w.lock.Store(0)
	for i := 0; i < maxRelays && !w.posted.empty() && w.tryLock(); i++ {
		w.transmit(clock())
		w.finish()
		w.lock.Store(0)
	}
	switch w.bg.Load() {
	case bgArmed:
		if w.pending() || w.due.Load() < w.until.Load() {
			w.waiter.Wake()
		}
	case bgNapping:
		// A poller comes back, or the nap ends soon after its last poll.
		if who != poller && (w.wants.Load() || w.pending() || w.due.Load() < w.until.Load()) {
			w.nudge()
		}
	}
}

// pending reports whether others have left work for the worker.
func (w *worker) pending() bool {
	return !w.posted.empty() || w.inbox.Load() != 0 || w.rung() || w.hungry.Load() && w.returns.Load() != 0
}

// notify is called after something was published for w by a driver of another
// worker. A driver of w sees it when it releases the lock.
func (w *worker) notify() {
	if w.lock.Load() == 0 && w.bg.Load() == bgArmed {
		w.waiter.Wake()
	}
}

// nudge ends a nap.
func (w *worker) nudge() {
	select {
	case w.napEnd <- struct{}{}:
	default: // it ends already
	}
}

// wake ends any sleep of the background goroutine.
func (w *worker) wake() {
	switch w.bg.Load() {
	case bgArmed:
		w.waiter.Wake()
	case bgNapping:
		w.nudge()
	}
}

// poll drives the worker once for an application and reports whether there was
// anything to do. Most polls of a program that spins find nothing: all but each
// fullPoll-th of these only look, without a clock reading, at what would make a
// round worth it.
func (w *worker) poll() bool {
	if !w.tryLock() {
		w.noticePoll(clock())
		return false
	}
	if w.idle%fullPoll != 0 && w.quiet() {
		w.idle++
		w.release(poller)
		return false
	}
	now := clock()
	w.noticePoll(now)
	var did bool
	if w.bg.Load() == bgNapping {
		// The application polls steadily. What came in reaches it first, and what
		// that asks to send leaves with its next call: an acknowledgement goes out
		// along with the request that the application posts in reply, in one system
		// call. Should the application not come back, the nap ends soon.
		did = w.transmit(now)
		did = w.receive(now) || did
	} else {
		did = w.receive(now)
		did = w.transmit(now) || did
	}
	w.finish()
	yield := w.breather(did)
	w.release(poller)
	if yield {
		w.dev.breath.take()
	}
	return did
}

// noticePoll records that an application polled, and whether it spins.
func (w *worker) noticePoll(now mono.Time) {
	if now.Sub(mono.Time(w.anyPoll.Swap(int64(now)))) < pollGap {
		w.lastPoll.Store(int64(now))
	}
}

// quiet reports whether a round would do nothing, deadlines aside. The lock is
// held.
func (w *worker) quiet() bool {
	return w.active.n == 0 && !w.hasRoom() && !w.pending() && len(w.loop) == 0 && len(w.out) == 0 &&
		!w.kick && !w.rxMore && w.port.RxAvail() == 0
}

// breather reports whether a poller should let others run: it counts rounds
// without work. The lock is held.
func (w *worker) breather(did bool) bool {
	if did {
		w.idle = 0
		return false
	}
	w.idle++
	return w.dev.breath.Due(w.idle)
}

// flush sends what the last poll of an application has left to send.
func (w *worker) flush() {
	if mono.Time(w.due.Load()) <= workNow && w.tryLock() {
		w.transmit(clock())
		w.finish()
		w.release(poster)
	}
}

// stopPolling says that the application goes to sleep: the background goroutine
// takes over without waiting for takeover.
func (w *worker) stopPolling() {
	w.lastPoll.Store(0)
	if w.bg.Load() == bgNapping {
		w.nudge()
	}
}

// run is the background goroutine.
func (w *worker) run() {
	defer w.dev.background.Done()
	defer w.seat.leave()
	var lastWork mono.Time
	for !w.dev.closed.Load() {
		now := clock()
		w.seat.settle(w, now)
		if rest := w.restAfterPoll(now); rest > 0 {
			w.nap(now, rest)
			continue
		}
		if !w.tryLock() {
			w.waitForLock(now)
			continue
		}
		did := w.round(now)
		held := w.hold.since != 0
		w.count(ctrBackgroundRounds)
		w.finish()
		w.release(background)
		if did {
			lastWork = now
		}
		if did || held || w.dev.opts.Poll == PollBusy || lastWork != 0 && now.Sub(lastWork) < w.spinTime() {
			w.giveWay(now, did || held)
			continue
		}
		if err := w.sleep(now, lastWork); err != nil {
			w.sleepErrors.Add(1)
			w.pause(now)
		}
	}
	w.bg.Store(bgNone)
}

// spinTime is how long the background goroutine looks for more work.
func (w *worker) spinTime() time.Duration {
	if w.dev.opts.Poll == PollAdaptive && w.belled.Load() != nil {
		return max(w.dev.opts.SpinTime, servedSpin)
	}
	return w.dev.opts.SpinTime
}

// giveWay lets others run between two rounds of the background goroutine. Clients in
// other processes need a CPU to have anything for it to do; without them other
// goroutines are all that waits.
func (w *worker) giveWay(now mono.Time, busy bool) {
	if w.belled.Load() == nil {
		runtime.Gosched()
		return
	}
	if !busy && now.Sub(w.resumed) >= turnTime {
		shm.Yield()
		w.resumed = clock()
	}
	if w.seat.own {
		return
	}
	// Gosched may wake a thread to look for other goroutines, which takes a CPU from
	// those whom this is for.
	if w.rounds++; w.rounds%yieldShared == 0 {
		runtime.Gosched()
	}
}

// restAfterPoll is how long the background goroutine leaves the worker to an
// application that polls.
func (w *worker) restAfterPoll(now mono.Time) time.Duration {
	last := mono.Time(w.lastPoll.Load())
	if last == 0 {
		return 0
	}
	return takeover - now.Sub(last)
}

// nap leaves the worker to an application that polls, for at most d, whatever
// arrives.
func (w *worker) nap(now mono.Time, d time.Duration) {
	w.until.Store(int64(now.Add(d)))
	w.bg.Store(bgNapping)
	if w.lastPoll.Load() != 0 && !w.dev.closed.Load() {
		w.rest(d)
	}
	w.bg.Store(bgAwake)
}

// waitForLock sleeps until the holder of the lock has released it. Should that
// be a poller, restAfterPoll has more to say.
func (w *worker) waitForLock(now mono.Time) {
	w.wants.Store(true)
	w.until.Store(int64(now.Add(takeover)))
	w.bg.Store(bgNapping)
	if (w.lock.Load() != 0 || w.waiters.Load() != 0) && !w.dev.closed.Load() {
		w.rest(takeover)
	}
	w.bg.Store(bgAwake)
	w.wants.Store(false)
}

// pause keeps a waiter that fails from making a busy loop of the background
// goroutine.
func (w *worker) pause(now mono.Time) {
	d := errorPause
	if w.lost.Load() && w.belled.Load() == nil {
		d = lostPause // else clients' doorbells are seen in passing
	}
	w.until.Store(int64(now.Add(d)))
	w.bg.Store(bgNapping)
	if !w.dev.closed.Load() {
		w.rest(d)
	}
	w.bg.Store(bgAwake)
}

// rest sleeps for d or until nudge.
func (w *worker) rest(d time.Duration) {
	w.napTimer.Reset(d)
	select {
	case <-w.napEnd:
		w.napTimer.Stop()
	case <-w.napTimer.C:
	}
}

// sleep waits for frames, for wake, or for the time at which the worker is due.
func (w *worker) sleep(now, lastWork mono.Time) error {
	until := mono.Time(w.due.Load())
	if rest := lastWork.Add(w.dev.linger); lastWork != 0 && rest > now {
		until = mono.Min(until, rest)
	}
	if until <= now {
		return nil
	}
	w.until.Store(int64(until))
	w.bg.Store(bgArmed)
	w.dev.posture.set(w.id, queue.WorkerAsleep)
	defer func() {
		w.dev.posture.set(w.id, queue.WorkerAwake)
		w.bg.Store(bgAwake)
	}()
	if w.pending() || mono.Time(w.due.Load()) < until || w.dev.closed.Load() {
		return nil
	}
	d := time.Duration(-1)
	if until != mono.Never {
		d = until.Sub(now)
	}
	w.sleeps.Add(1)
	_, err := w.waiter.Sleep(d)
	if w.dev.closed.Load() {
		return nil
	}
	return err
}
