package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// What all connections of a worker have in flight together is limited, however
// many there are: frames must find room in the peer's receive ring. Clients have a
// part of it each, see lane.divide. A queue pair that the limit stops waits behind those that it stopped before, and is polled
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
	waiting   *lane  // lanes with queue pairs that wait for room
	budget    int    // packets in flight of all lanes
	connected int    // queue pairs that the limit is for; guarded by the device's lock
	limits    limits // as last applied; guarded by the device's windowing
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
	for l := w.waiting; l != nil; l = l.nextWait {
		if l.hasRoom() {
			return true
		}
	}
	return false
}

func (l *lane) hasRoom() bool {
	return !l.throttled.empty() && l.restUntil == 0 && l.flight.InFlight() < l.flight.Budget
}

// throttle has q, which the budget has stopped, wait for room. One that had been
// admitted, and found others to have taken the room, keeps its place.
func (w *worker) throttle(now mono.Time, q *qp, admitted bool) {
	l := q.lane
	if l.throttled.empty() {
		l.fullUntil = now.Add(budgetPatience << l.forgotten)
	}
	if admitted && !q.throttled {
		l.throttled.pushFront(q)
	} else {
		l.throttled.push(q)
	}
	if !l.waits {
		l.waits, l.nextWait = true, w.waiting
		w.waiting = l
	}
}

// wakeSender gives q, to which work requests were posted, a turn. While others
// wait for room it waits behind them, and is not looked at before.
func (w *worker) wakeSender(q *qp) {
	switch {
	case q.dead:
	case !q.limited || q.lane.throttled.empty() || q.failed.Load():
		w.activate(q)
	default:
		q.lane.throttled.push(q)
	}
}

// admit gives turns to queue pairs that waited for room, to as many as it is
// enough for.
func (w *worker) admit(now mono.Time) {
	for at := &w.waiting; *at != nil; {
		l := *at
		w.admitTo(now, l)
		if !l.throttled.empty() {
			at = &l.nextWait
			continue
		}
		*at, l.waits, l.nextWait = l.nextWait, false, nil
	}
}

func (w *worker) admitTo(now mono.Time, l *lane) {
	f := l.flight
	if n := f.Landed(); n != l.landed {
		l.landed, l.forgotten = n, 0
		l.fullUntil = now.Add(budgetPatience)
	} else if now >= l.fullUntil && f.InFlight() >= f.Budget && !w.env.Behind {
		f.Forget()
		w.count(ctrFlightForgotten)
		l.forgotten = min(l.forgotten+1, maxImpatience)
		l.fullUntil = now.Add(budgetPatience << l.forgotten)
	}
	// Those who have not come to their turn yet will take a part of the room.
	for room := f.Budget - f.InFlight() - l.admitted*turnPackets; room > 0 && !l.throttled.empty(); room -= turnPackets {
		q := l.throttled.pop()
		q.admitted = true
		l.admitted++
		w.activate(q)
	}
}

// settleTurn ends the turn of q, in which it has sent that many requests. One
// that was admitted and could not send any keeps the right to.
func (w *worker) settleTurn(now mono.Time, q *qp, requests int, more bool) {
	unused := q.admitted && requests == 0
	if q.admitted && (!unused || !more) {
		q.admitted = false
		q.lane.admitted--
	}
	if q.t.Throttled() && !q.dead {
		w.throttle(now, q, unused)
	}
}
