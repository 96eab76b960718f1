package datapath

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

// A worker shares its time and the room in flight out in two levels: clients take
// turns, and in the turns of a client its queue pairs do. So a client gets its part
// whatever the others have and do: many queue pairs, peers that do not answer, more
// work than can be done. Where there is one client the first level costs nothing.

// lane is a client's part of a worker, or that of an XRC domain, whose targets belong
// to several. It is used by who drives the worker.
type lane struct {
	turns  // of queue pairs that want to transmit
	flight *transport.Flight
	next   *lane // in the round
	listed bool  // in the round, or resting

	throttled waitList
	waits     bool      // in the worker's list of lanes with such queue pairs
	nextWait  *lane     // in that list
	admitted  int       // queue pairs that are, and have not had their turn
	landed    uint64    // as last seen of the engine
	fullUntil mono.Time // if nothing lands until then, all in flight is forgotten
	forgotten int       // how many times it was since something landed, up to maxImpatience

	doorbells
	pace      *pace     // nil: as fast as it can
	restUntil mono.Time // 0: it does not rest
	sent      traffic
	kept      int            // buffers of frames out of order that its queue pairs keep
	keptOf    []atomic.Int64 // by worker: those that all queue pairs of the client keep of its frames
	members   int            // queue pairs; guarded by the device's lock
}

// traffic is what has been sent.
type traffic struct{ packets, bytes uint64 }

func newLane() *lane { return &lane{flight: &transport.Flight{}} }

// busy reports whether the lane takes part in what may be in flight.
func (l *lane) busy() bool { return l.flight.InFlight() > 0 || !l.throttled.empty() }

// round is the round robin of lanes with queue pairs that want to transmit.
type round struct {
	head, tail *lane
	n          int   // queue pairs of these lanes
	resting    *lane // lanes that have sent more than they may
}

// push gives q a turn.
func (r *round) push(q *qp) {
	l := q.lane
	before := l.n
	l.turns.push(q)
	switch {
	case l.n == before: // it has one
	case !l.listed:
		r.append(l)
		r.n++
	case l.restUntil == 0:
		r.n++
	}
}

// append puts l at the end.
func (r *round) append(l *lane) {
	l.listed, l.next = true, nil
	if r.head == nil {
		r.head = l
	} else {
		r.tail.next = l
	}
	r.tail = l
}

// pop takes the queue pair whose turn it is, nil if there is none.
func (r *round) pop() *qp {
	l := r.head
	if l == nil {
		return nil
	}
	q := l.turns.pop()
	r.n--
	switch {
	case l.n == 0:
		r.head, l.listed = l.next, false
	case l.next != nil: // another lane comes first
		r.head = l.next
		r.append(l)
	}
	return q
}

// rest keeps l from its turns until then.
func (r *round) rest(l *lane, until mono.Time) {
	if l.restUntil == 0 {
		if l.listed {
			r.remove(l)
		}
		l.listed, l.next = true, r.resting
		r.resting = l
	}
	l.restUntil = until
}

// remove takes a lane out of the round.
func (r *round) remove(l *lane) {
	r.n -= l.n
	if r.head == l {
		r.head = l.next
		return
	}
	before := r.head
	for before.next != l {
		before = before.next
	}
	if before.next = l.next; l.next == nil {
		r.tail = before
	}
}

// rise ends the rest of lanes whose time has come.
func (r *round) rise(now mono.Time) {
	for at := &r.resting; *at != nil; {
		l := *at
		if l.restUntil > now {
			at = &l.next
			continue
		}
		*at = l.next
		l.listed, l.next, l.restUntil = false, nil, 0
		if l.n != 0 {
			r.append(l)
			r.n += l.n
		}
	}
}

// nextRise is when that is, of lanes that wait for it.
func (r *round) nextRise() mono.Time {
	first := mono.Never
	for l := r.resting; l != nil; l = l.next {
		if l.n != 0 || !l.throttled.empty() {
			first = mono.Min(first, l.restUntil)
		}
	}
	return first
}

// addLane makes l a part of the worker.
func (w *worker) addLane(l *lane) {
	w.setLanes(append(w.lanes, l))
}

// dropLane undoes that. Turns that its queue pairs, which are destroyed, still have
// come to nothing.
func (w *worker) dropLane(l *lane) {
	w.setLanes(slices.DeleteFunc(w.lanes, func(o *lane) bool { return o == l }))
}

func (w *worker) setLanes(list []*lane) {
	w.lanes = list
	var belled []*lane
	for _, l := range list {
		if l.bells != nil {
			belled = append(belled, l)
		}
	}
	if belled == nil {
		w.belled.Store(nil)
	} else {
		w.belled.Store(&belled)
	}
	w.divide()
}

// divide shares out what may be in flight among the lanes that have something there
// or want to. One that begins finds the others with more than their part for a
// moment, in which there may be as much again in flight: half a ring more.
func (w *worker) divide() {
	if len(w.lanes) == 1 {
		w.lanes[0].flight.Budget = w.budget
		return
	}
	busy := 0
	for _, l := range w.lanes {
		if l.busy() {
			busy++
		}
	}
	each := max(min(minWindow, w.budget), w.budget/max(busy, 1))
	for _, l := range w.lanes {
		l.flight.Budget = each
	}
}

// doorbells are those of a lane whose client shares memory with us.
type doorbells struct {
	bells *queue.Bells
	slots []*qp // by doorbell
	free  []int // doorbells that nobody has, of those in slots
	rang  bool  // lately; see seat
}

// hang gives q a doorbell and reports whether there was one.
func (d *doorbells) hang(q *qp) bool {
	switch last := len(d.free) - 1; {
	case last >= 0:
		q.slot, d.free = d.free[last], d.free[:last]
	case len(d.slots) < d.bells.Slots():
		q.slot = len(d.slots)
		d.slots = append(d.slots, nil)
	default:
		return false
	}
	d.slots[q.slot] = q
	return true
}

// unhang takes it away.
func (d *doorbells) unhang(q *qp) {
	if q.slot == noSlot {
		return
	}
	d.slots[q.slot] = nil
	d.free = append(d.free, q.slot)
}

// rung reports whether a client may have rung a doorbell. The lock need not be held.
func (w *worker) rung() bool {
	if w.belled.Load() == nil {
		return false
	}
	// Counted before the list is read: who has taken a client out of it waits for those
	// who still look at its doorbells, whose memory goes.
	w.looking.Add(1)
	defer w.looking.Add(-1)
	belled := w.belled.Load()
	if belled == nil {
		return false
	}
	for _, l := range *belled {
		if l.bells.Rung() {
			return true
		}
	}
	return false
}

// settleBells returns when nobody looks at doorbells any more of a client that was
// taken out before.
func (w *worker) settleBells() {
	for w.looking.Load() != 0 {
		runtime.Gosched()
	}
}

// answer gives queue pairs a turn whose doorbells were rung, of each client so many
// that no other waits long; the rest follow in the next round.
func (w *worker) answer() {
	belled := w.belled.Load()
	if belled == nil {
		return
	}
	for _, l := range *belled {
		if !l.bells.Rung() {
			continue
		}
		l.rang = true
		for _, slot := range w.ringing[:l.bells.Drain(w.ringing[:])] {
			if int(slot) < len(l.slots) && l.slots[slot] != nil {
				w.wakeSender(l.slots[slot])
			}
		}
	}
}
