package datapath

import (
	"context"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// maxEvents is how many asynchronous events of the port and the device wait for a
// reader at most; more are lost and counted. Those of objects are never lost: of
// each type one waits.
const maxEvents = 256

// eventQueue has the asynchronous events that a reader has not read.
type eventQueue struct {
	mu      sync.Mutex
	types   eventMarks // that the reader wants; 0: all
	list    []verbs.ProviderEvent
	ports   int                // of them, of the port or the device
	waiting map[any]eventMarks // types of the others, by object
	lost    uint64             // that found no room
	some    chan struct{}      // has an element while a reader may find an event
}

// eventMarks are types of events, a bit each.
type eventMarks uint32

func newEventQueue(types ...ibv.EventType) *eventQueue {
	q := &eventQueue{some: make(chan struct{}, 1), waiting: map[any]eventMarks{}}
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
	switch object := objectOf(&e); {
	case object == nil && q.ports >= maxEvents:
		q.lost++
		return
	case object == nil:
		q.ports++
	case q.waiting[object]&bit != 0: // the reader has yet to learn of the last
		return
	default:
		q.waiting[object] |= bit
	}
	q.list = append(q.list, e)
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
	if len(q.list) == 0 {
		return e, false
	}
	e = q.list[0]
	q.list[0] = verbs.ProviderEvent{}
	q.list = q.list[1:]
	if object := objectOf(&e); object == nil {
		q.ports--
	} else if q.waiting[object] &^= eventMarks(1) << e.Type; q.waiting[object] == 0 {
		delete(q.waiting, object)
	}
	if len(q.list) != 0 { // for the next reader
		q.signal()
	}
	return e, true
}

// forget removes the events of an object that is destroyed: they concern nobody,
// and would keep it in memory.
func (q *eventQueue) forget(object any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[object] == 0 {
		return
	}
	delete(q.waiting, object)
	q.list = slices.DeleteFunc(q.list, func(e verbs.ProviderEvent) bool { return objectOf(&e) == object })
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
