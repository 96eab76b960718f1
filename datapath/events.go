package datapath

import (
	"context"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// maxEvents is how many asynchronous events of the port and the device wait for a
// reader at most; more are lost and counted. Those of objects are never lost: of
// each type one waits.
const maxEvents = 256

// eventQueue has the asynchronous events that nobody has read.
type eventQueue struct {
	mu    sync.Mutex
	list  []verbs.ProviderEvent
	ports int           // of them, of the port or the device
	lost  uint64        // that found no room
	some  chan struct{} // has an element while a reader may find an event
}

// eventMarks are the types of an object's events in the queue, a bit each;
// guarded by the queue's lock. The object is what the event names.
type eventMarks uint32

func newEventQueue() *eventQueue { return &eventQueue{some: make(chan struct{}, 1)} }

// put queues e. marks are those of its object, nil for the port and the device.
func (q *eventQueue) put(e verbs.ProviderEvent, marks *eventMarks) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch bit := eventMarks(1) << e.Type; {
	case marks == nil && q.ports >= maxEvents:
		q.lost++
		return
	case marks == nil:
		q.ports++
	case *marks&bit != 0: // the reader has yet to learn of the last
		return
	default:
		*marks |= bit
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
	if marks := marksOf(&e); marks != nil {
		*marks &^= eventMarks(1) << e.Type
	} else {
		q.ports--
	}
	if len(q.list) != 0 { // for the next reader
		q.signal()
	}
	return e, true
}

// forget removes the events of an object that is destroyed: they concern nobody,
// and would keep it in memory.
func (q *eventQueue) forget(marks *eventMarks) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if *marks == 0 {
		return
	}
	*marks = 0
	q.list = slices.DeleteFunc(q.list, func(e verbs.ProviderEvent) bool { return marksOf(&e) == marks })
}

// drain removes all events.
func (q *eventQueue) drain() {
	for _, ok := q.take(); ok; _, ok = q.take() {
	}
}

func (q *eventQueue) lostCount() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// marksOf are the marks of the object of e, nil for the port and the device.
func marksOf(e *verbs.ProviderEvent) *eventMarks {
	switch {
	case e.QP != nil:
		if h, ok := e.QP.(*target); ok {
			return &h.marks
		}
		return &e.QP.(*qp).events
	case e.CQ != nil:
		return &e.CQ.(*cq).events
	case e.SRQ != nil:
		return &e.SRQ.(*srq).events
	}
	return nil
}

// report queues an event of the engine. The lock of its worker is held.
func (d *Device) report(e transport.Event) {
	out := verbs.ProviderEvent{Type: e.Type, Port: 1}
	if e.QP != nil {
		q := e.QP.Config().Owner.(*qp)
		if q.xrcd != nil {
			// Every program that has the target hears of it.
			for _, h := range q.targets {
				out.QP = h
				d.events.put(out, &h.marks)
			}
			return
		}
		out.QP = q
	}
	if e.CQ != nil {
		out.CQ = e.CQ.Owner.(*cq)
	}
	if e.SRQ != nil {
		out.SRQ = e.SRQ.Owner.(*srq)
	}
	d.events.put(out, marksOf(&out))
}

// reportPort queues an event of the port or the device.
func (d *Device) reportPort(t ibv.EventType) {
	d.events.put(verbs.ProviderEvent{Type: t, Port: 1}, nil)
}

// NextEvent waits for the next asynchronous event, the end of ctx, or the end of
// the device (ErrClosed).
func (d *Device) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	for {
		if e, ok := d.events.take(); ok {
			return e, nil
		}
		select {
		case <-d.events.some:
		case <-ctx.Done():
			return verbs.ProviderEvent{}, ctx.Err()
		case <-d.done:
			return verbs.ProviderEvent{}, ErrClosed
		}
	}
}
