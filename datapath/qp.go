package datapath

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// qp is a queue pair. It implements verbs.ProviderQP.
type qp struct {
	// What a turn and a packet touch comes first, close together: with thousands of
	// queue pairs none of it is in the cache.
	t      *transport.QP // is &engine, but for a queue pair without one yet
	w      *worker
	lane   *lane
	keeper *lane // that of who has made it, for which the frames count that it keeps

	posted     atomic.Bool // in the worker's posted list, or about to be
	failed     atomic.Bool // in ERR: receive requests are flushed as they are posted
	nextPosted *qp

	// Guarded by the worker's lock.
	state         ibv.QPState // last seen by changed
	dead          bool
	limited       bool // what it has in flight counts
	waiting       bool // in the worker's turns
	admitted      bool // has a turn with room in flight
	throttled     bool // waits for room in flight, in front of nextThrottled
	nextThrottled *qp
	timerPos      int         // in the worker's timers
	at            whereabouts // of the peer of a connection
	flush         flushForm

	engine transport.QP

	datagram bool // its packets go by address handles
	num      uint32
	slot     int // of its doorbell, noSlot without one
	dev      *Device
	owner    *Client // of a target, who has made it
	cfg      transport.Config
	srq      *srq // nil: a receive queue of its own

	xrcd    *xrcd     // of a target
	targets []*target // handles on it; guarded by the worker's lock

	// modify makes control calls on the queue pair follow one another.
	modify    sync.Mutex
	route     route // of the path, when there is one
	connected bool  // counts for the window, which UC and UD do not have
	groups    int   // multicast groups that it is attached to
	destroyed bool
}

// CreateQP makes a queue pair and gives it to the worker that has fewest, or to
// that of its shared receive queue.
func (c *Client) CreateQP(attr *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	receives := true
	switch attr.Type {
	case ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD:
	case ibv.QPTypeXRCSend:
		receives = false
	case ibv.QPTypeXRCRecv:
		return c.createTarget(attr)
	case ibv.QPTypeGSI:
		if !c.privileged() {
			return nil, fmt.Errorf("%w: queue pair 1 speaks for the whole port, which needs CAP_NET_RAW", ErrPermission)
		}
	default:
		return nil, fmt.Errorf("%w: queue pairs of type %v: RC, UC, UD, XRC and GSI are there", ErrUnsupported, attr.Type)
	}
	send, ok1 := c.ownCQ(attr.SendCQ, true)
	recv, ok2 := c.ownCQ(attr.RecvCQ, receives)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%w: a completion queue is not of this device, or an initiator has one to receive", ErrInvalid)
	}
	var shared *srq
	if attr.SRQ != nil && receives {
		if shared, ok1 = attr.SRQ.(*srq); !ok1 || shared == nil || shared.owner != c {
			return nil, fmt.Errorf("%w: the shared receive queue is not of this device", ErrInvalid)
		}
	}
	if !attr.Congestion.Valid() {
		return nil, fmt.Errorf("%w: congestion control %v", ErrInvalid, attr.Congestion)
	}
	q := &qp{dev: c.dev, owner: c, srq: shared, slot: noSlot, timerPos: noTimer, datagram: attr.Type.Datagram(), limited: attr.Type == ibv.QPTypeRC || attr.Type == ibv.QPTypeXRCSend}
	q.cfg = transport.Config{
		Type: attr.Type, PD: memory.PD(attr.PD), Cap: attr.Cap, SigAll: attr.SigAll, Context: attr.Context,
		SendCQ: send.t, DCQCN: c.dev.dcqcn(attr.Congestion), Owner: q,
	}
	if recv != nil {
		q.cfg.RecvCQ = recv.t
	}
	if shared != nil {
		q.cfg.SRQ = shared.t
	}
	if err := c.makeRings(q, receives && shared == nil); err != nil {
		return nil, err
	}
	if err := c.enterPD(attr.PD); err != nil {
		q.freeRings()
		return nil, err
	}
	if err := c.enroll(q, send, recv); err != nil {
		c.dev.leavePD(attr.PD)
		q.freeRings()
		return nil, err
	}
	return q, nil
}

// makeRings makes the queues of q, of the capacities that it has.
func (c *Client) makeRings(q *qp, receives bool) (err error) {
	cp := &q.cfg.Cap
	if cp.MaxSendWR < 0 || cp.MaxSendWR > ibv.MaxQPWR || cp.MaxRecvWR < 0 || cp.MaxRecvWR > ibv.MaxQPWR ||
		cp.MaxSendSGE < 0 || cp.MaxSendSGE > ibv.MaxSGE || cp.MaxRecvSGE < 0 || cp.MaxRecvSGE > ibv.MaxSGE ||
		cp.MaxInline < 0 || cp.MaxInline > ibv.MaxInline {
		return fmt.Errorf("%w: capacities %+v", ErrInvalid, *cp)
	}
	// Rings round up, and what they have is what the queue pair can do.
	cp.MaxSendSGE, cp.MaxRecvSGE = max(cp.MaxSendSGE, 1), max(cp.MaxRecvSGE, 1)
	if q.cfg.SQ, err = c.newRing(max(cp.MaxSendWR, 1), queue.SendElemSize(cp.MaxSendSGE, cp.MaxInline)); err != nil {
		return err
	}
	if !receives {
		cp.MaxRecvWR, cp.MaxRecvSGE = 0, 0
		return nil
	}
	if q.cfg.RQ, err = c.newRing(max(cp.MaxRecvWR, 1), queue.RecvElemSize(cp.MaxRecvSGE)); err != nil {
		c.freeRing(q.cfg.SQ)
	}
	return err
}

// freeRings gives the memory of the queues back, which nobody uses any more.
func (q *qp) freeRings() {
	for _, r := range []*queue.Ring{q.cfg.SQ, q.cfg.RQ} {
		if r != nil {
			q.owner.freeRing(r)
		}
	}
}

// ownCQ is the completion queue p of the client, or none when the queue pair needs
// none.
func (c *Client) ownCQ(p verbs.ProviderCQ, needed bool) (q *cq, ok bool) {
	if !needed {
		return nil, p == nil
	}
	q, ok = p.(*cq)
	return q, ok && q != nil && q.owner == c
}

// enroll numbers q, gives it a worker and makes it known to all who deliver. A
// queue that q does not have is nil.
func (c *Client) enroll(q *qp, send, recv *cq) (err error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.admit(&c.use.QPs, c.limits.QPs, "queue pairs"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.use.QPs--
		}
	}()
	if send.isGone() || recv.isGone() {
		return fmt.Errorf("%w: a completion queue was destroyed", ErrInvalid)
	}
	if q.srq != nil && q.srq.gone {
		return fmt.Errorf("%w: the shared receive queue was destroyed", ErrInvalid)
	}
	num, err := d.number(q.cfg.Type)
	if err != nil {
		return err
	}
	w := slices.MinFunc(d.workers, func(a, b *worker) int { return a.qps - b.qps })
	switch {
	case q.srq != nil:
		w = q.srq.w
	case q.xrcd != nil:
		w = q.xrcd.w
	}
	q.num, q.cfg.QPN, q.w, q.lane = num, num, w, c.lanes[w.id]
	q.keeper = q.lane
	if q.xrcd != nil {
		q.lane = q.xrcd.lane
	}
	q.cfg.Flight = q.lane.flight
	q.engine.Init(w.env, q.cfg)
	q.t = &q.engine
	q.t.SetPortMTU(d.activeMTU().Bytes())
	hung := true
	if err := w.control(func() {
		q.lane.reserve(q.lane.members + 1)
		w.timers.reserve(w.qps + 1)
		if q.lane.bells != nil && q.cfg.SQ != nil {
			hung = q.lane.hang(q)
		}
	}); err != nil {
		return err
	}
	if !hung {
		return fmt.Errorf("%w: %d doorbells with one worker", ErrLimit, q.lane.bells.Slots())
	}
	if err := d.steer.AddQPN(num); err != nil {
		_ = w.control(func() { q.lane.unhang(q) }) // the first error is the one to report
		return err
	}
	w.qps++
	q.lane.members++
	if q.srq != nil {
		q.srq.users++
	}
	d.qps[q] = struct{}{}
	send.use(q, q.w)
	recv.use(q, q.w)
	d.table.put(num, q)
	return nil
}

// QPN is the queue pair's number.
func (q *qp) QPN() uint32 { return q.num }

// noSlot is that of a queue pair without a doorbell in shared memory.
const noSlot = -1

// Worker is the index of the worker that the queue pair lives on.
func (q *qp) Worker() int { return q.w.id }

// Slot is the queue pair's doorbell among ClientConfig.Bells of its worker, -1 when
// it has none.
func (q *qp) Slot() int { return q.slot }

// SQ is the send queue; the caller is its producer.
func (q *qp) SQ() *queue.Ring { return q.cfg.SQ }

// RQ is the receive queue, nil if it is shared; the caller is its producer.
func (q *qp) RQ() *queue.Ring { return q.cfg.RQ }

// Doorbell says that send work requests were published. It transmits in the
// caller's goroutine unless somebody drives the worker, who does it then.
func (q *qp) Doorbell() {
	w := q.w
	if w.tryLock() {
		w.wakeSender(q)
	} else {
		w.posted.push(q)
		if !w.tryLock() {
			return
		}
	}
	now := clock()
	if w.deadline() <= now {
		w.receive(now) // a program that posts without a pause must not keep answers from being seen
	}
	w.transmit(now)
	w.finish()
	w.release(poster)
}

// RecvDoorbell says that receive work requests were published. Only a queue pair
// in ERR, which flushes them, has to know at once.
func (q *qp) RecvDoorbell() {
	if q.failed.Load() {
		q.Doorbell()
	}
}

// Query tells the attributes and the state.
func (q *qp) Query() (attr ibv.QPAttr, err error) {
	if err := q.w.acquire(); err != nil {
		return attr, err
	}
	attr = q.t.Query()
	q.w.release(controller)
	return attr, nil
}

// Modify changes attributes and state. With AV it finds the way to the peer first,
// which may take as long as the peer needs to answer for its address: until ctx ends,
// resolve.DefaultWait if that has no deadline. Meanwhile nothing else of the queue pair is
// held up, and what happens to it then counts.
func (q *qp) Modify(ctx context.Context, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	return q.modifyFor(ctx, q.owner, attr, mask)
}

// modifyFor is Modify by a client that has the queue pair.
func (q *qp) modifyFor(ctx context.Context, c *Client, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	if err := q.checkModify(attr, mask); err != nil {
		return err
	}
	if mask&ibv.QPAttrAV == 0 {
		return q.take(attr, mask, ibv.GID{}, nil)
	}
	return c.patiently(ctx, func(ctx context.Context) error { return q.direct(ctx, attr, mask) })
}

// checkModify refuses what the device, or the client, may not.
func (q *qp) checkModify(attr *ibv.QPAttr, mask ibv.AttrMask) error {
	q.modify.Lock()
	gone := q.destroyed
	q.modify.Unlock()
	if gone {
		return ErrClosed
	}
	if err := q.owner.checkQKey(attr, mask); err != nil {
		return err
	}
	if mask&ibv.QPAttrState != 0 && attr.State != ibv.QPStateReset && attr.State != ibv.QPStateErr {
		if err := q.dev.checkThere(); err != nil {
			return err
		}
	}
	if mask&ibv.QPAttrPathMTU != 0 {
		return q.dev.checkMTU(attr.PathMTU)
	}
	return nil
}

// direct is Modify with an address vector.
func (q *qp) direct(ctx context.Context, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	remote, err := q.precheck(attr, mask)
	if err != nil {
		return err
	}
	for {
		changes := q.dev.changes.Load()
		self, r, err := q.findRoute(ctx, attr, remote)
		if err != nil {
			return err
		}
		if done, err := q.takeRoute(attr, mask, self, r, changes); done || err != nil {
			return err
		}
	}
}

// takeRoute applies attributes with the route that was found for them. It reports
// false when something has changed meanwhile, since the route may be true no more.
func (q *qp) takeRoute(attr *ibv.QPAttr, mask ibv.AttrMask, self ibv.GID, r route, changes uint64) (done bool, err error) {
	d := q.dev
	q.modify.Lock()
	defer q.modify.Unlock()
	d.routing.Lock()
	defer d.routing.Unlock()
	if d.changes.Load() != changes {
		return false, nil
	}
	var at whereabouts
	if err := at.lay(&r); err != nil {
		return false, err
	}
	if err := q.takeLocked(attr, mask, self, &at); err != nil {
		return false, err
	}
	d.setRoute(q, r)
	return true, nil
}

// take applies attributes unless the queue pair is gone.
func (q *qp) take(attr *ibv.QPAttr, mask ibv.AttrMask, self ibv.GID, at *whereabouts) error {
	q.modify.Lock()
	defer q.modify.Unlock()
	return q.takeLocked(attr, mask, self, at)
}

// takeLocked is take for who holds the lock.
func (q *qp) takeLocked(attr *ibv.QPAttr, mask ibv.AttrMask, self ibv.GID, at *whereabouts) error {
	if q.destroyed {
		return ErrClosed
	}
	if err := q.apply(attr, mask, self, at); err != nil {
		return err
	}
	if mask&ibv.QPAttrState != 0 {
		q.dev.setConnected(q, q.cfg.Type.Reliable() && attr.State >= ibv.QPStateRTR && attr.State <= ibv.QPStateSQD)
	}
	return nil
}

// apply has the engine take attributes, and the queue pair a way if there is one.
func (q *qp) apply(attr *ibv.QPAttr, mask ibv.AttrMask, self ibv.GID, at *whereabouts) error {
	var merr error
	err := q.w.control(func() {
		if merr = q.t.Modify(clock(), attr, mask, self, attr.AV.DGID); merr != nil {
			return
		}
		if at != nil {
			q.at, q.flush = *at, flushForm{}
		}
		q.w.activate(q)
	})
	if err != nil {
		return err
	}
	return merr
}

// precheck refuses a transition that cannot be before time is spent on the way
// to the peer, and returns the number of the peer's queue pair.
func (q *qp) precheck(attr *ibv.QPAttr, mask ibv.AttrMask) (remote uint32, err error) {
	now, err := q.Query()
	if err != nil {
		return 0, err
	}
	next, remote := now.State, now.DestQPN
	if mask&ibv.QPAttrState != 0 {
		next = attr.State
	}
	if mask&ibv.QPAttrDestQPN != 0 {
		remote = attr.DestQPN
	}
	return remote, transport.CheckTransition(q.cfg.Type, now.State, next, mask)
}

// Destroy frees the queue pair and returns when nothing can reach it or, through
// it, memory. Destroying twice is no error.
func (q *qp) Destroy() error {
	q.modify.Lock()
	defer q.modify.Unlock()
	if q.destroyed {
		return nil
	}
	q.destroyed = true
	d := q.dev
	steerErr := d.detachAll(q)
	d.mu.Lock()
	d.table.put(q.num, nil)
	d.mu.Unlock()
	if err := d.steer.DelQPN(q.num); steerErr == nil {
		steerErr = err
	}
	err := q.w.control(func() {
		q.dead = true
		q.w.timers.remove(q)
		q.lane.unhang(q)
		// RESET is allowed from every state and lets go of all that is held.
		_ = q.t.Modify(clock(), &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState, ibv.GID{}, ibv.GID{})
	})
	if err != nil {
		return nil // the device is closed: nothing is left of the queue pair
	}
	// The next queue pair of this number must not inherit its windows.
	d.mem.UnbindQP(q.num)
	d.setConnected(q, false)
	q.owner.events.forget(q)
	q.freeRings()
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.xrcd == nil { // else its handles count
		q.owner.use.QPs--
	}
	q.w.qps--
	q.lane.members--
	if q.srq != nil {
		q.srq.users--
	}
	delete(d.qps, q)
	for _, c := range []*transport.CQ{q.cfg.SendCQ, q.cfg.RecvCQ} {
		if c != nil {
			c.Owner.(*cq).unuse(q)
		}
	}
	if q.xrcd != nil {
		q.xrcd.users--
		d.dropXRCD(q.xrcd)
	} else {
		d.dropFromPD(uint32(q.cfg.PD))
	}
	return steerErr
}
