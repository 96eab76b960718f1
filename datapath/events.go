package datapath

import (
	"context"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// events hands asynchronous events to all who read them, each of whom has a queue.
type events struct {
	main *eventQueue // of Device.NextEvent

	mu     sync.Mutex
	others []*eventQueue // of subscriptions
	lost   uint64        // in queues that are gone
}

func newEvents() *events { return &events{main: newEventQueue()} }

// each calls f for every queue, under the lock.
func (v *events) each(f func(*eventQueue)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(v.main)
	for _, q := range v.others {
		f(q)
	}
}

func (v *events) put(e verbs.ProviderEvent) { v.each(func(q *eventQueue) { q.put(e) }) }

// forget removes the events of an object that is destroyed.
func (v *events) forget(object any) { v.each(func(q *eventQueue) { q.forget(object) }) }

// drain removes what waits for Device.NextEvent.
func (v *events) drain() {
	for _, ok := v.main.take(); ok; _, ok = v.main.take() {
	}
}

// lostCount is how many events found no room in a queue.
func (v *events) lostCount() uint64 {
	var n uint64
	v.each(func(q *eventQueue) { n += q.lostCount() })
	v.mu.Lock()
	defer v.mu.Unlock()
	return n + v.lost
}

func (v *events) add(q *eventQueue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.others = append(v.others, q)
}

func (v *events) remove(q *eventQueue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.others = slices.DeleteFunc(v.others, func(o *eventQueue) bool { return o == q })
	v.lost += q.lostCount()
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
				d.events.put(out)
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
	d.events.put(out)
}

// reportPort queues an event of the port or the device.
func (d *Device) reportPort(t ibv.EventType) {
	d.events.put(verbs.ProviderEvent{Type: t, Port: 1})
}

// NextEvent waits for the next asynchronous event, the end of ctx, or the end of
// the device (ErrClosed).
func (d *Device) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	return d.events.main.next(ctx, d.done, nil)
}

// subscription is a further reader of events.
type subscription struct {
	dev   *Device
	queue *eventQueue
	ended chan struct{}
	once  sync.Once
}

// Subscribe makes a reader that gets the events of the types from now on, of all if
// there are none.
func (d *Device) Subscribe(types ...ibv.EventType) (verbs.ProviderEvents, error) {
	select {
	case <-d.done:
		return nil, ErrClosed
	default:
	}
	s := &subscription{dev: d, queue: newEventQueue(types...), ended: make(chan struct{})}
	d.events.add(s.queue)
	return s, nil
}

// NextEvent is Device.NextEvent, and ErrClosed after Close.
func (s *subscription) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	return s.queue.next(ctx, s.dev.done, s.ended)
}

// Close ends the reader.
func (s *subscription) Close() {
	s.once.Do(func() {
		s.dev.events.remove(s.queue)
		close(s.ended)
	})
}
