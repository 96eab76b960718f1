package verbs

import (
	"context"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// maxRemoteEvents is how many events of the port and the device wait for a reader at
// most. Of each object one of each type waits.
const maxRemoteEvents = 256

// remoteEvents gives the daemon's events to all who read them.
type remoteEvents struct {
	mu      sync.Mutex
	ended   error // why nothing comes any more
	main    *remoteReader
	readers map[*remoteReader]struct{}
}

// remoteReader is a reader of events. It implements ProviderEvents.
type remoteReader struct {
	from  *remoteEvents
	types []ibv.EventType // none: all

	// Guarded by the lock of from.
	list   []ProviderEvent
	queued map[ProviderEvent]struct{} // those of objects in it
	ports  int                        // how many others are in it
	closed bool
	some   chan struct{} // has an element while a reader may find an event, or the end
}

func (r *remoteEvents) init() {
	r.readers = map[*remoteReader]struct{}{}
	r.main = r.add(nil)
}

func (r *remoteEvents) add(types []ibv.EventType) *remoteReader {
	s := &remoteReader{from: r, types: slices.Clone(types), queued: map[ProviderEvent]struct{}{}, some: make(chan struct{}, 1)}
	r.readers[s] = struct{}{}
	return s
}

// put gives an event to all readers that want it.
func (r *remoteEvents) put(e ProviderEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return
	}
	for s := range r.readers {
		if len(s.types) != 0 && !slices.Contains(s.types, e.Type) {
			continue
		}
		s.put(e)
	}
}

func ofObject(e *ProviderEvent) bool { return e.QP != nil || e.CQ != nil || e.SRQ != nil }

// put queues an event unless there is no room, or the reader has yet to learn of the
// last such.
func (s *remoteReader) put(e ProviderEvent) {
	_, queued := s.queued[e]
	switch {
	case queued, !ofObject(&e) && s.ports >= maxRemoteEvents && e.Type != ibv.EventDeviceFatal:
		return
	case ofObject(&e):
		s.queued[e] = struct{}{}
	default:
		s.ports++
	}
	s.list = append(s.list, e)
	s.signal()
}

// forget removes the events of an object that is destroyed.
func (r *remoteEvents) forget(object any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.readers {
		if len(s.queued) == 0 {
			continue
		}
		s.list = slices.DeleteFunc(s.list, func(e ProviderEvent) bool {
			gone := ofObject(&e) && (e.QP == object || e.CQ == object || e.SRQ == object)
			if gone {
				delete(s.queued, e)
			}
			return gone
		})
	}
}

// end has every reader find the end behind what it has yet to read, and why it is; the
// first reason counts.
func (r *remoteEvents) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = why
	}
	for s := range r.readers {
		s.signal()
	}
}

func (s *remoteReader) signal() {
	select {
	case s.some <- struct{}{}:
	default:
	}
}

// take removes the oldest event. The error is why there will be none any more.
func (s *remoteReader) take() (e ProviderEvent, ok bool, end error) {
	s.from.mu.Lock()
	defer s.from.mu.Unlock()
	if len(s.list) != 0 && !s.closed {
		e = s.list[0]
		s.list = slices.Delete(s.list, 0, 1)
		if ofObject(&e) {
			delete(s.queued, e)
		} else {
			s.ports--
		}
		s.signal() // for the next reader
		return e, true, nil
	}
	if end = s.from.ended; s.closed {
		end = ErrClosed
	}
	if end != nil {
		s.signal()
	}
	return e, false, end
}

// NextEvent waits for the next event, the end of ctx, or that of the session
// (ErrClosed).
func (s *remoteReader) NextEvent(ctx context.Context) (ProviderEvent, error) {
	for {
		e, ok, end := s.take()
		switch {
		case ok:
			return e, nil
		case end != nil:
			return e, end
		}
		select {
		case <-s.some:
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
}

// Close ends the reader.
func (s *remoteReader) Close() {
	s.from.mu.Lock()
	defer s.from.mu.Unlock()
	s.closed = true
	delete(s.from.readers, s)
	s.signal()
}

func (d *remote) NextEvent(ctx context.Context) (ProviderEvent, error) {
	return d.events.main.NextEvent(ctx)
}

func (d *remote) Subscribe(types ...ibv.EventType) (ProviderEvents, error) {
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	if err := d.events.ended; err != nil {
		return nil, err
	}
	return d.events.add(types), nil
}

// pumpEvents reads what the daemon has to tell until it ends, of which it tells too,
// once.
func (d *remote) pumpEvents() {
	fatal := false
	for {
		m, err := d.s.NextEvent()
		if err != nil {
			break
		}
		if e, ok := d.eventOf(&m); ok {
			fatal = fatal || e.Type == ibv.EventDeviceFatal
			d.events.put(e)
		}
	}
	if !fatal { // after Close nobody hears it
		d.events.put(ProviderEvent{Type: ibv.EventDeviceFatal, Port: 1})
	}
	d.events.end(errLost)
}

// eventOf is an event with its object; false if that is gone.
func (d *remote) eventOf(m *proto.AsyncEvent) (ProviderEvent, bool) {
	e := ProviderEvent{Type: ibv.EventType(m.Type), Port: 1}
	if m.Object == proto.ObjectNone {
		return e, true
	}
	d.mu.Lock()
	o := d.objects[remoteID{m.Object, m.Handle}]
	d.mu.Unlock()
	switch o := o.(type) {
	case *remoteQP:
		e.QP = o
	case *remoteCQ:
		e.CQ = o
	case *remoteSRQ:
		e.SRQ = o
	default:
		return e, false
	}
	return e, true
}
