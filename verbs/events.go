package verbs

import "context"

// AsyncEvent is an asynchronous event (ibv_async_event). QP, CQ or SRQ is what it
// is about; all are nil for events of the port or device.
type AsyncEvent struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// NextEvent waits for the next asynchronous event, or for the end of ctx. Readers of it
// share the events; Subscribe makes readers that get all of them.
func (c *Context) NextEvent(ctx context.Context) (AsyncEvent, error) {
	return c.next(ctx, c.p.NextEvent)
}

// Subscribe makes a reader of the device's asynchronous events that has all that come from
// now on, whoever else reads: of the given types, or, with none, of all. Close it.
//
// What it does not read waits: of the port and the device 256 events at most, more are
// lost and counted as async_events_lost; of each object one of each type.
func (c *Context) Subscribe(types ...EventType) (*Events, error) {
	p, err := c.p.Subscribe(types...)
	if err != nil {
		return nil, opErr("subscribe to events", c.Name(), err)
	}
	return &Events{c: c, p: p}, nil
}

// Events is a reader of asynchronous events. Its methods are safe for concurrent use.
type Events struct {
	c *Context
	p ProviderEvents
}

// Next waits for the next event, or for the end of ctx. It is ErrClosed after Close, and
// when the device is closed.
func (e *Events) Next(ctx context.Context) (AsyncEvent, error) {
	return e.c.next(ctx, e.p.NextEvent)
}

// Close ends the reader, and has who waits in Next return. Twice is no error.
func (e *Events) Close() { e.p.Close() }

// next takes the next event of from that concerns anybody, and names its object.
func (c *Context) next(ctx context.Context, from func(context.Context) (ProviderEvent, error)) (AsyncEvent, error) {
	for {
		e, err := from(ctx)
		if err != nil {
			return AsyncEvent{}, err
		}
		// An event of an object that was destroyed meanwhile concerns nobody.
		if out, ok := c.named(&e); ok {
			return out, nil
		}
	}
}

// named is an event with the program's objects; false if its object is not there any more.
func (c *Context) named(e *ProviderEvent) (AsyncEvent, bool) {
	out := AsyncEvent{Type: e.Type}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.QP != nil {
		out.QP = c.qps[e.QP]
	}
	if e.SRQ != nil {
		out.SRQ = c.srqs[e.SRQ]
	}
	if e.CQ != nil {
		for cq := range c.cqs {
			if cq.p == e.CQ {
				out.CQ = cq
			}
		}
	}
	return out, (e.QP == nil || out.QP != nil) && (e.CQ == nil || out.CQ != nil) && (e.SRQ == nil || out.SRQ != nil)
}
