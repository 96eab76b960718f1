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
	main *eventQueue // of Client.NextEvent

	mu     sync.Mutex
	others []*subscription
	lost   uint64 // in queues that are gone
}

func newEvents() *events { return &events{main: newEventQueue()} }

// each calls f for every queue, under the lock.
func (v *events) each(f func(*eventQueue)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(v.main)
	for _, s := range v.others {
		f(s.queue)
	}
}

func (v *events) put(e verbs.ProviderEvent) { v.each(func(q *eventQueue) { q.put(e) }) }

// forget removes the events of an object that is destroyed.
func (v *events) forget(object any) { v.each(func(q *eventQueue) { q.forget(object) }) }

// drain removes what waits for Client.NextEvent.
func (v *events) drain() {
	for _, ok := v.main.take(); ok; _, ok = v.main.take() {
	}
}

// lostCount is how many events found no room in a queue.
func (v *events) lostCount() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.lost + v.main.lostCount()
	for _, s := range v.others {
		n += s.queue.lostCount()
	}
	return n
}

func (v *events) add(s *subscription) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.others = append(v.others, s)
}

func (v *events) remove(s *subscription) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.others = slices.DeleteFunc(v.others, func(o *subscription) bool { return o == s })
	v.lost += s.queue.lostCount()
}

// close ends the further readers.
func (v *events) close() {
	v.mu.Lock()
	all := slices.Clone(v.others)
	v.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
}

// report queues an event of the engine for who owns what it is about. The lock of
// its worker is held.
func report(e transport.Event) {
	out := verbs.ProviderEvent{Type: e.Type, Port: 1}
	var owner *Client
	if e.QP != nil {
		q := e.QP.Config().Owner.(*qp)
		if q.xrcd != nil {
			// Every program that has the target hears of it.
			for _, h := range q.targets {
				out.QP = h
				h.owner.events.put(out)
			}
			return
		}
		out.QP, owner = q, q.owner
	}
	if e.CQ != nil {
		c := e.CQ.Owner.(*cq)
		out.CQ, owner = c, c.owner
	}
	if e.SRQ != nil {
		s := e.SRQ.Owner.(*srq)
		out.SRQ, owner = s, s.owner
	}
	owner.events.put(out)
}

// reportPort queues an event of the port or the device for all clients.
func (d *Device) reportPort(t ibv.EventType) {
	for _, c := range *d.clients.Load() {
		c.events.put(verbs.ProviderEvent{Type: t, Port: 1})
	}
}

// lostEvents is how many events of all clients found no room.
func (d *Device) lostEvents() uint64 {
	n := d.eventsLost.Load()
	for _, c := range *d.clients.Load() {
		n += c.events.lostCount()
	}
	return n
}

// NextEvent waits for the next asynchronous event, the end of ctx, or the end of
// the client or the device (ErrClosed).
func (c *Client) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	return c.events.main.next(ctx, c.dev.done, c.done)
}

// subscription is a further reader of events.
type subscription struct {
	client *Client
	queue  *eventQueue
	ended  chan struct{}
	once   sync.Once
}

// Subscribe makes a reader that gets the events of the types from now on, of all if
// there are none.
func (c *Client) Subscribe(types ...ibv.EventType) (verbs.ProviderEvents, error) {
	c.dev.mu.Lock() // none is added after those that there are were closed
	defer c.dev.mu.Unlock()
	if c.gone() {
		return nil, ErrClosed
	}
	s := &subscription{client: c, queue: newEventQueue(types...), ended: make(chan struct{})}
	c.events.add(s)
	return s, nil
}

// NextEvent is Client.NextEvent, and ErrClosed after Close.
func (s *subscription) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	return s.queue.next(ctx, s.client.dev.done, s.ended)
}

// Close ends the reader.
func (s *subscription) Close() {
	s.once.Do(func() {
		s.client.events.remove(s)
		close(s.ended)
	})
}
