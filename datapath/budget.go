package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// What all connections of a worker have in flight together is limited, however
// many there are: frames must find room in the peer's receive ring. A queue pair
// that the limit stops waits behind those that it stopped before, and is polled
// again when there is room, so each comes to its turn.

// budgetPatience is how long nothing in flight need be answered while queue
// pairs wait for room. Then it is taken for lost: its peers may be gone, and its
// queue pairs may have timeouts of hours, or none. As the peers may also just be
// busy, with all that was sent in their rings, it takes twice as long each time
// until there is an answer.
const budgetPatience = 200 * time.Millisecond

// maxImpatience is how many times the patience doubles at most.
const maxImpatience = 6

// flow is a worker's part in this.
type flow struct {
	throttled waitList
	admitted  int       // queue pairs that are, and have not had their turn
	landed    uint64    // as last seen of the engine
	fullUntil mono.Time // if nothing lands until then, all in flight is forgotten
	forgotten int       // how many times it was since something landed, up to maxImpatience
	connected int       // queue pairs that the limit is for; guarded by the device's lock
	limits    limits    // as last applied; guarded by the device's windowing
}

// waitList is the queue pairs that wait for room in flight, each once.
type waitList struct {
	head, tail *qp
}

func (l *waitList) empty() bool { return l.head == nil }

// pushFront puts q, which is not waiting, in front.
func (l *waitList) pushFront(q *qp) {
	q.throttled, q.nextThrottled = true, l.head
	if l.head == nil {
		l.tail = q
	}
	l.head = q
}

// push puts q at the end unless it waits already.
func (l *waitList) push(q *qp) {
	if q.throttled {
		return
	}
	q.throttled, q.nextThrottled = true, nil
	if l.head == nil {
		l.head = q
	} else {
		l.tail.nextThrottled = q
	}
	l.tail = q
}

// pop takes the one that has waited longest; there is one.
func (l *waitList) pop() *qp {
	q := l.head
	l.head, q.nextThrottled = q.nextThrottled, nil
	if l.head == nil {
		l.tail = nil
	}
	q.throttled = false
	return q
}

// hasRoom reports whether queue pairs wait that may send.
func (w *worker) hasRoom() bool {
	return !w.throttled.empty() && w.env.InFlight() < w.env.Budget
}

// throttle has q, which the budget has stopped, wait for room. One that had been
// admitted, and found others to have taken the room, keeps its place.
func (w *worker) throttle(now mono.Time, q *qp, admitted bool) {
	if w.throttled.empty() {
		w.fullUntil = now.Add(budgetPatience << w.forgotten)
	}
	if admitted && !q.throttled {
		w.throttled.pushFront(q)
	} else {
		w.throttled.push(q)
	}
}

// wakeSender gives q, to which work requests were posted, a turn. While others
// wait for room it waits behind them, and is not looked at before.
func (w *worker) wakeSender(q *qp) {
	switch {
	case q.dead:
	case !q.limited || w.throttled.empty() || q.failed.Load():
		w.activate(q)
	default:
		w.throttled.push(q)
	}
}

// admit gives turns to queue pairs that waited for room, to as many as it is
// enough for.
func (w *worker) admit(now mono.Time) {
	if w.throttled.empty() {
		return
	}
	if n := w.env.Landed(); n != w.landed {
		w.landed, w.forgotten = n, 0
		w.fullUntil = now.Add(budgetPatience)
	} else if now >= w.fullUntil && w.env.InFlight() >= w.env.Budget && !w.env.Behind {
		w.env.Forget()
		w.count(ctrFlightForgotten)
		w.forgotten = min(w.forgotten+1, maxImpatience)
		w.fullUntil = now.Add(budgetPatience << w.forgotten)
	}
	// Those who have not come to their turn yet will take a part of the room.
	for room := w.env.Budget - w.env.InFlight() - w.admitted*turnPackets; room > 0 && !w.throttled.empty(); room -= turnPackets {
		q := w.throttled.pop()
		q.admitted = true
		w.admitted++
		w.activate(q)
	}
}

// settleTurn ends the turn of q, in which it has sent that many requests. One
// that was admitted and could not send any keeps the right to.
func (w *worker) settleTurn(now mono.Time, q *qp, requests int, more bool) {
	unused := q.admitted && requests == 0
	if q.admitted && !(unused && more) {
		q.admitted = false
		w.admitted--
	}
	if q.t.Throttled() && !q.dead {
		w.throttle(now, q, unused)
	}
}
