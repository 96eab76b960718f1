package serve

import (
	"errors"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// pump sends asynchronous events to the client. While that does not read them they
// wait in the namespace's queue, which is bounded: those that say the same are one.
func (r *resources) pump(s *session) {
	for {
		e, err := r.ns.NextEvent(s.ctx)
		if err != nil {
			if errors.Is(err, verbs.ErrClosed) && s.ctx.Err() == nil {
				s.kill(errDeviceClosed)
			}
			return
		}
		m, ok := r.eventOf(&e)
		if !ok {
			continue // its object was destroyed meanwhile
		}
		if err := r.events.Send(packed(&m)); err != nil {
			return // the client has closed its end, or has ended
		}
	}
}

// errDeviceClosed: who owns the device has closed it under the server.
var errDeviceClosed = errors.New("the device was closed")

// eventOf is an event as it travels.
func (r *resources) eventOf(e *verbs.ProviderEvent) (m proto.AsyncEvent, ok bool) {
	m.Type = uint32(e.Type)
	var about any
	switch {
	case e.QP != nil:
		about = e.QP
	case e.CQ != nil:
		about = e.CQ
	case e.SRQ != nil:
		about = e.SRQ
	default:
		return m, true
	}
	n, ok := r.objects.find(about)
	m.Object, m.Handle = n.kind, n.handle
	return m, ok
}

// fatal tells the client that the device is gone, if it still reads.
func (r *resources) fatal() {
	m := proto.AsyncEvent{Type: uint32(ibv.EventDeviceFatal)}
	_ = r.events.TrySend(packed(&m)) // the end of the connection says the same
}
