package datapath

import (
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	// batchSize is how many buffers a round receives and completes at a time.
	batchSize = 64
	// txBudget is how many packets a round sends, so that what comes in is looked
	// at again before a long list has gone out.
	txBudget = 64
	// turnPackets is how many packets a queue pair sends before the next has its
	// turn.
	turnPackets = 16
	// ringBatch is how many doorbells of a client are answered in a round.
	ringBatch = 256
	// retryTx is when to look again for room to transmit. A completion raises no
	// event that a waiter could sleep for.
	retryTx = 50 * time.Microsecond
	// retryDown is the same while the interface is down.
	retryDown = 10 * time.Millisecond
)

// worker is one receive queue's socket, memory and queue pairs. Except for the
// words of drive and the counters that are atomic, it is used by who holds its
// lock.
type worker struct {
	drive
	flow
	grace grace
	hold  hold
	seat  seat

	dev    *Device
	id     int
	port   xsk.Port
	waiter xsk.Waiter
	env    *transport.Env
	mem    []byte // of the UMEM

	rx       *xsk.Pool // frames to receive into
	tx       txPool
	kept     keepTable
	unfilled int  // frames that the fill ring should have and has not
	rxMore   bool // the last batch may not have been all
	received int  // frames of the last batch

	pkt   wire.Packet
	segs  [wire.MaxSegments][]byte
	descs []xsk.Desc // received
	addrs []uint64   // of frames on their way from one ring to another

	batch    *transport.Batch
	active   round
	timers   timerHeap
	out      []xsk.Desc // laid out, not taken by the port yet
	loop     []xsk.Desc // laid out for a queue pair of this device
	loopNext []xsk.Desc // the other buffer of loop
	kick     bool       // the port has something that the kernel has not taken
	noRoom   bool       // a queue pair could send, but the port or the slots are full
	down     bool       // the last kick found the interface down
	mtu      int        // of the link
	knownDue mono.Time  // what the word due holds
	idle     uint32     // polls in a row without work
	resumed  mono.Time  // when the background goroutine last came back from giving way
	rounds   uint32     // of the background goroutine that looks for more work
	lanes    []*lane    // of clients; the first is that of the device itself
	laidOut  uint64     // bytes of all frames that were laid out
	ringing  [ringBatch]uint32
	qps      int    // queue pairs of the worker; guarded by the device's lock
	srqs     int    // shared receive queues, likewise
	handed   uint64 // workers that got frames in this round
	gaveBack uint64 // workers that got memory back in this round
	giveFlag bool   // the fill ring is short of frames
	drops    [wire.NumDropReasons]uint64
	counts   [numCounters]uint64
	retryAt  mono.Time // when to kick again while down
	broken   bool      // the port failed for good, which was reported

	// belled are the lanes with doorbells in shared memory; nil: none.
	belled  atomic.Pointer[[]*lane]
	looking atomic.Int32                     // who looks at doorbells without the lock
	pipes   [maxWorkers]atomic.Pointer[pipe] // to other workers
	feeders atomic.Uint64                    // workers that have handed over frames lately
	sleeps  atomic.Uint64
	// sleepErrors counts sleeps that failed.
	sleepErrors atomic.Uint64
	lost        atomic.Bool // the interface does not exist any more

	napEnd   chan struct{}
	napTimer *time.Timer
}

func newWorker(d *Device, id int, port xsk.Port, waiter xsk.Waiter) *worker {
	s := &d.share
	w := &worker{
		dev:      d,
		id:       id,
		port:     port,
		waiter:   waiter,
		env:      transport.NewEnv(d.mem),
		mem:      port.UMEM().Bytes(),
		rx:       xsk.NewPool(port.UMEM(), id*s.frames(), s.rxFrames),
		tx:       newTxPool(s, id),
		kept:     newKeepTable(s.rxFrames, d.keptOf),
		descs:    make([]xsk.Desc, batchSize+wire.MaxSegments),
		addrs:    make([]uint64, batchSize),
		batch:    transport.NewBatch(txBudget),
		out:      make([]xsk.Desc, 0, s.slots*s.slotFrames),
		loop:     make([]xsk.Desc, 0, s.slots),
		loopNext: make([]xsk.Desc, 0, s.slots),
		unfilled: d.opts.RingSize,
		mtu:      d.link.mtu,
		napEnd:   make(chan struct{}, 1),
		napTimer: time.NewTimer(time.Hour),
		knownDue: mono.Never,
	}
	w.env.CNPInterval = d.opts.CNPInterval
	w.addLane(&lane{flight: &w.env.Flight})
	w.napTimer.Stop()
	w.due.Store(int64(mono.Never))
	w.until.Store(int64(mono.Never))
	w.refill()
	return w
}

func (w *worker) count(c counter) { w.counts[c]++ }

// finish ends a round: it reports what happened and publishes when the worker
// has to be driven next.
func (w *worker) finish() {
	w.settle()
	w.passOn()
	due := mono.Min(w.nextTimer(), w.env.NextEvent())
	switch {
	case len(w.loop) != 0 || w.rxMore:
		due = workNow
	case w.down && (w.kick || w.active.n != 0):
		due = mono.Min(due, w.retryAt)
	case w.noRoom || w.kick:
		due = mono.Min(due, clock().Add(retryTx))
	case w.active.n != 0 || w.hasRoom():
		due = workNow
	default:
		due = mono.Min(due, w.active.nextRise())
	}
	if due != w.knownDue {
		w.knownDue = due
		w.due.Store(int64(due))
	}
}

// settle empties the lists in which the engine reports.
func (w *worker) settle() {
	e := w.env
	for _, ref := range e.Released {
		for _, addr := range w.kept.take(ref) {
			w.free(addr)
		}
	}
	for _, c := range e.Woken {
		c.Owner.(*cq).raise()
	}
	for _, ev := range e.Events {
		report(ev)
	}
	clear(e.Woken)
	clear(e.Events)
	e.Released, e.Woken, e.Events = e.Released[:0], e.Woken[:0], e.Events[:0]
}

// activate gives q a turn to transmit.
func (w *worker) activate(q *qp) { w.active.push(q) }
