package datapath

import (
	"context"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// maxEvents is how many asynchronous events of the port and the device wait for a
// reader at most; more are lost and counted. Those of objects are never lost: of
// each type one waits.
const maxEvents = 256

// eventQueue has the asynchronous events that a reader has not read. A client may have
// many objects and read none of their events, and workers queue them: so all that is
// done to it takes the same time however many wait.
type eventQueue struct {
	mu          sync.Mutex
	types       eventMarks // that the reader wants; 0: all
	first, last *queuedEvent
	ports       int                      // of them, of the port or the device
	waiting     map[any]eventsOfAnObject // the others
	lost        uint64                   // that found no room
	some        chan struct{}            // has an element while a reader may find an event
}

// queuedEvent is an element of the list.
type queuedEvent struct {
	verbs.ProviderEvent
	before, next *queuedEvent
	same         *queuedEvent // the next one of the same object
}

// eventsOfAnObject are those that wait, one of each type at most.
type eventsOfAnObject struct {
	types eventMarks
	chain *queuedEvent // by same
}

// eventMarks are types of events, a bit each.
type eventMarks uint32

func newEventQueue(types ...ibv.EventType) *eventQueue {
	q := &eventQueue{some: make(chan struct{}, 1), waiting: map[any]eventsOfAnObject{}}
	for _, t := range types {
		q.types |= 1 << t
	}
	return q
}

// put queues e.
func (q *eventQueue) put(e verbs.ProviderEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bit := eventMarks(1) << e.Type
	if q.types != 0 && q.types&bit == 0 {
		return
	}
	object := objectOf(&e)
	w := q.waiting[object]
	switch {
	case object == nil && q.ports >= maxEvents:
		q.lost++
		return
	case w.types&bit != 0: // the reader has yet to learn of the last
		return
	}
	n := &queuedEvent{ProviderEvent: e, before: q.last, same: w.chain}
	if object == nil {
		q.ports++
	} else {
		q.waiting[object] = eventsOfAnObject{w.types | bit, n}
	}
	if q.last == nil {
		q.first = n
	} else {
		q.last.next = n
	}
	q.last = n
	q.signal()
}

func (q *eventQueue) signal() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// take removes the oldest event.
func (q *eventQueue) take() (e verbs.ProviderEvent, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.first
	if n == nil {
		return e, false
	}
	q.unlink(n)
	if object := objectOf(&n.ProviderEvent); object == nil {
		q.ports--
	} else {
		q.settle(object, n)
	}
	if q.first != nil { // for the next reader
		q.signal()
	}
	return n.ProviderEvent, true
}

// unlink takes n out of the list.
func (q *eventQueue) unlink(n *queuedEvent) {
	if n.before == nil {
		q.first = n.next
	} else {
		n.before.next = n.next
	}
	if n.next == nil {
		q.last = n.before
	} else {
		n.next.before = n.before
	}
}

// settle takes n, which was read, off those of its object.
func (q *eventQueue) settle(object any, n *queuedEvent) {
	w := q.waiting[object]
	at := &w.chain
	for *at != n {
		at = &(*at).same
	}
	*at = n.same
	if w.chain == nil {
		delete(q.waiting, object)
		return
	}
	w.types &^= eventMarks(1) << n.Type
	q.waiting[object] = w
}

// forget removes the events of an object that is destroyed: they concern nobody,
// and would keep it in memory.
func (q *eventQueue) forget(object any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w, ok := q.waiting[object]
	if !ok {
		return
	}
	delete(q.waiting, object)
	for n := w.chain; n != nil; n = n.same {
		q.unlink(n)
	}
}

func (q *eventQueue) lostCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// next waits for the oldest event, the end of ctx, or that of the device or the reader.
func (q *eventQueue) next(ctx context.Context, done, ended <-chan struct{}) (verbs.ProviderEvent, error) {
	for {
		if e, ok := q.take(); ok {
			return e, nil
		}
		select {
		case <-q.some:
		case <-ctx.Done():
			return verbs.ProviderEvent{}, ctx.Err()
		case <-done:
			return verbs.ProviderEvent{}, ErrClosed
		case <-ended:
			return verbs.ProviderEvent{}, ErrClosed
		}
	}
}

// objectOf is what e is about, nil for the port and the device.
func objectOf(e *verbs.ProviderEvent) any {
	switch {
	case e.QP != nil:
		return e.QP
	case e.CQ != nil:
		return e.CQ
	case e.SRQ != nil:
		return e.SRQ
	}
	return nil
}
