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
// queue pairs may have timeouts of hours, or none.
const budgetPatience = 200 * time.Millisecond

// flow is a worker's part in this.
type flow struct {
	throttled waitList
	fullSince mono.Time // no room since then, while queue pairs wait for it
	connected int       // queue pairs that the limit is for; guarded by the device's lock
	limits    limits    // as last applied; guarded by the device's windowing
}

// waitList is the queue pairs that wait for room in flight, each once.
type waitList struct {
	head, tail *qp
}

func (l *waitList) empty() bool { return l.head == nil }

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

// throttle has q, which the budget has stopped, wait for room.
func (w *worker) throttle(now mono.Time, q *qp) {
	if w.throttled.empty() {
		w.fullSince = now
	}
	w.throttled.push(q)
}

// admit gives turns to queue pairs that waited for room, to as many as it is
// enough for.
func (w *worker) admit(now mono.Time) {
	if w.throttled.empty() {
		return
	}
	room := w.env.Budget - w.env.InFlight()
	switch {
	case room > 0:
		w.fullSince = now
	case now.Sub(w.fullSince) >= budgetPatience:
		w.env.Forget()
		w.count(ctrFlightForgotten)
		w.fullSince, room = now, w.env.Budget
	}
	for ; room > 0 && !w.throttled.empty(); room -= turnPackets {
		q := w.throttled.pop()
		q.admitted = true
		w.activate(q)
	}
}
