package datapath

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// cq is a completion queue. It implements verbs.ProviderCQ.
type cq struct {
	dev   *Device
	owner *Client
	ring  atomic.Pointer[queue.Ring]
	t     *transport.CQ
	num   uint32
	// resizing is held from the start of a change of ring to its end; before the
	// device's lock.
	resizing sync.Mutex
	onEvent  atomic.Pointer[func()]
	raised   chan struct{}   // has an element while an event waits for a waiter
	workers  atomic.Uint64   // of the queue pairs that complete to it
	users    map[any]*worker // who completes to it; guarded by the device's lock
	gone     bool            // guarded by the device's lock
	// perWorker is how many of users each worker has; guarded by the device's lock.
	perWorker []int
}

// CreateCQ makes a completion queue for at least entries completions.
func (c *Client) CreateCQ(entries int) (verbs.ProviderCQ, error) {
	ring, err := c.newCQRing(entries)
	if err != nil {
		return nil, err
	}
	q, err := c.createCQ(ring)
	if err != nil {
		c.freeRing(ring)
		return nil, err
	}
	return q, nil
}

func (c *Client) createCQ(ring *queue.Ring) (*cq, error) {
	d := c.dev
	q := &cq{dev: d, owner: c, t: transport.NewCQ(ring), raised: make(chan struct{}, 1), users: map[any]*worker{}, perWorker: make([]int, len(d.workers))}
	q.ring.Store(ring)
	q.t.Owner = q
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.cqs) >= maxCQ {
		return nil, fmt.Errorf("%w: %d completion queues", ErrLimit, maxCQ)
	}
	if err := c.admit(&c.use.CQs, c.limits.CQs, "completion queues"); err != nil {
		return nil, err
	}
	d.lastCQN++
	q.num = d.lastCQN
	d.cqs[q] = struct{}{}
	return q, nil
}

func (c *Client) newCQRing(entries int) (*queue.Ring, error) {
	if entries < 1 || entries > ibv.MaxCQE {
		return nil, fmt.Errorf("%w: %d entries: 1 to %d are possible", ErrInvalid, entries, ibv.MaxCQE)
	}
	return c.newRing(entries, queue.CQESize)
}

// Ring carries the completions.
func (c *cq) Ring() *queue.Ring { return c.ring.Load() }

// Resize gives the queue room for at least entries completions; those that are in
// it stay. It is ErrInvalid when there are more of them.
func (c *cq) Resize(entries int) error {
	ring, err := c.owner.newCQRing(entries)
	if err != nil {
		return err
	}
	c.resizing.Lock() // one at a time, and the queue stays as long
	defer c.resizing.Unlock()
	m, err := c.startMove(ring, entries)
	if err != nil {
		c.owner.freeRing(ring)
		return err
	}
	m.Copy()
	if m.Finish() {
		c.raise()
	}
	c.owner.freeRing(c.ring.Swap(ring))
	return nil
}

// startMove has workers go on in ring, before what the queue holds is there: there may
// be much of it, and nobody else waits for that to be copied.
func (c *cq) startMove(ring *queue.Ring, entries int) (*transport.CQMove, error) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.gone || c.dev.closed.Load() {
		return nil, ErrClosed
	}
	m, err := c.t.StartMove(ring, entries)
	switch {
	case err == nil:
		return m, nil
	case c.t.Overflowed():
		return nil, fmt.Errorf("%w: %w", verbs.ErrOverflow, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
}

// Modify sets the moderation of events.
func (c *cq) Modify(count int, period time.Duration) error {
	if count < 0 || count > ibv.MaxCQCount || period < 0 || period > ibv.MaxCQPeriod {
		return fmt.Errorf("%w: count %d, period %v: 0 to %d and 0 to %v are possible", ErrInvalid, count, period, ibv.MaxCQCount, ibv.MaxCQPeriod)
	}
	if c.dev.closed.Load() {
		return ErrClosed
	}
	if c.t.SetModeration(count, period) {
		c.raise()
	}
	return nil
}

// Query tells the size, the moderation, and whether a completion was lost.
func (c *cq) Query() (attr verbs.CQAttr, err error) {
	if c.dev.closed.Load() {
		return attr, ErrClosed
	}
	attr.Entries, attr.Overflowed = c.Ring().Entries(), c.t.Overflowed()
	attr.Count, attr.Period = c.t.Moderation()
	return attr, nil
}

// Num is the queue's number, which no other of the device ever had.
func (c *cq) Num() uint32 { return c.num }

// OnEvent has f called for each event that is raised, instead of having WaitEvent
// return. f runs in whichever goroutine drives the device and must not block. It is
// called once at first if an event was raised before.
func (c *cq) OnEvent(f func()) {
	c.onEvent.Store(&f)
	select {
	case <-c.raised:
		f()
	default:
	}
}

// raise wakes a waiter, now or when it comes.
func (c *cq) raise() {
	if f := c.onEvent.Load(); f != nil {
		(*f)()
		return
	}
	select {
	case c.raised <- struct{}{}:
	default:
	}
}

// Progress drives the workers that complete to the queue, after those that hand
// frames to them.
func (c *cq) Progress() bool {
	mine := c.workers.Load()
	if mine&(mine-1) == 0 && len(c.dev.workers) == 1 {
		return mine != 0 && c.dev.workers[0].poll()
	}
	var feeders uint64
	for m := mine; m != 0; m &= m - 1 {
		feeders |= c.dev.workers[bits.TrailingZeros64(m)].feeders.Load()
	}
	did := c.dev.pollEach(feeders &^ mine)
	return c.dev.pollEach(mine) || did
}

// pollEach drives the workers of a mask once.
func (d *Device) pollEach(mask uint64) (did bool) {
	for ; mask != 0; mask &= mask - 1 {
		did = d.workers[bits.TrailingZeros64(mask)].poll() || did
	}
	return did
}

// WaitEvent sleeps until an event is raised, ctx ends, or the device is closed.
func (c *cq) WaitEvent(ctx context.Context) error {
	select {
	case <-c.raised:
		return nil
	default:
	}
	if c.dev.opts.NoBackground {
		return c.driveUntilEvent(ctx)
	}
	// The application stops polling now. What its last poll left is sent, then
	// the background goroutines take over.
	for m := c.workers.Load(); m != 0; m &= m - 1 {
		w := c.dev.workers[bits.TrailingZeros64(m)]
		w.flush()
		w.stopPolling()
		for f := w.feeders.Load(); f != 0; f &= f - 1 {
			c.dev.workers[bits.TrailingZeros64(f)].stopPolling()
		}
	}
	return c.await(ctx)
}

func (c *cq) await(ctx context.Context) error {
	select {
	case <-c.raised:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.owner.done:
		return ErrClosed
	case <-c.dev.done:
		return ErrClosed
	}
}

// driveUntilEvent is WaitEvent of a device without background goroutines: the
// waiting goroutine takes their place, at a coarser rate.
func (c *cq) driveUntilEvent(ctx context.Context) error {
	const shortest, longest = 50 * time.Microsecond, 2 * time.Millisecond
	pause := shortest
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		if c.dev.Progress() {
			pause = shortest
		} else {
			pause = min(2*pause, longest)
		}
		timer.Reset(pause)
		select {
		case <-c.raised:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-c.owner.done:
			return ErrClosed
		case <-c.dev.done:
			return ErrClosed
		case <-timer.C:
		}
	}
}

// Destroy frees the queue. It is ErrBusy while queue pairs, or shared receive queues
// of XRC domains, complete to it.
func (c *cq) Destroy() error {
	c.resizing.Lock()
	defer c.resizing.Unlock()
	free, err := c.destroy()
	if free {
		c.owner.freeRing(c.ring.Load())
	}
	return err
}

// destroy is Destroy but for the memory of the ring, and reports whether that is to be
// freed.
func (c *cq) destroy() (free bool, err error) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.gone {
		return false, nil
	}
	if len(c.users) != 0 && !c.dev.closed.Load() {
		return false, fmt.Errorf("%w: %d queue pairs and shared receive queues complete to the queue: destroy them first", ErrBusy, len(c.users))
	}
	c.gone = true
	delete(c.dev.cqs, c)
	c.owner.use.CQs--
	c.owner.events.forget(c)
	if c.dev.closed.Load() { // programs that are not told yet may still look at the ring
		return false, nil
	}
	c.t.Abandon()
	return true, nil
}

// isGone reports whether c was destroyed; no queue was not. The device's lock is
// held.
func (c *cq) isGone() bool { return c != nil && c.gone }

// use says that user, a *qp or *srq on worker w, completes to c, or to no queue. The
// device's lock is held.
func (c *cq) use(user any, w *worker) {
	if c == nil {
		return
	}
	if c.users[user] != nil {
		return // by its other end
	}
	c.users[user] = w
	c.perWorker[w.id]++
	c.workers.Or(1 << w.id)
}

// unuse undoes use. The device's lock is held.
func (c *cq) unuse(user any) {
	w := c.users[user]
	if w == nil {
		return
	}
	delete(c.users, user)
	if c.perWorker[w.id]--; c.perWorker[w.id] == 0 {
		c.workers.And(^(uint64(1) << w.id))
	}
}
