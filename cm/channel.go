package cm

import (
	"context"
	"errors"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// EventChannel has the events of its ids (rdma_event_channel).
type EventChannel struct {
	devs   []*verbs.Context
	events *mailbox[*Event]

	mu     sync.Mutex
	ids    map[*ID]struct{}
	closed bool
}

// NewEventChannel makes a channel whose ids may be on the given devices. Close it.
func NewEventChannel(devs ...*verbs.Context) *EventChannel {
	return &EventChannel{devs: devs, events: newMailbox[*Event](), ids: map[*ID]struct{}{}}
}

// Next waits for the next event (rdma_get_cm_event). Ids that are destroyed have
// none. After Close it is verbs.ErrClosed.
func (ch *EventChannel) Next(ctx context.Context) (*Event, error) {
	for {
		e, err := ch.events.next(ctx)
		if err != nil {
			return nil, err
		}
		if e.ID.alive() {
			return e, nil
		}
	}
}

// CreateID makes an id (rdma_create_id): for queue pairs of type RC in
// PortSpaceTCP, UD in the others.
func (ch *EventChannel) CreateID(ps PortSpace) (*ID, error) {
	typ := verbs.UD
	switch ps {
	case PortSpaceTCP:
		typ = verbs.RC
	case PortSpaceUDP, PortSpaceIPoIB:
	default:
		return nil, opErr("create id in", ps.String(), invalid("ids are in PortSpaceTCP, PortSpaceUDP and PortSpaceIPoIB"))
	}
	id := &ID{ps: ps, typ: typ, ch: ch}
	return id, opErr("create id in", ps.String(), ch.add(id))
}

func (ch *EventChannel) add(id *ID) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closed {
		return verbs.ErrClosed
	}
	ch.ids[id] = struct{}{}
	return nil
}

func (ch *EventChannel) remove(id *ID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.ids, id)
}

// Close destroys all ids of the channel, with the queue pairs that CreateQP has made.
// Twice is no error.
func (ch *EventChannel) Close() error {
	ch.mu.Lock()
	ch.closed = true
	ids := make([]*ID, 0, len(ch.ids))
	for id := range ch.ids {
		ids = append(ids, id)
	}
	ch.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, id.Destroy())
	}
	ch.events.close(verbs.ErrClosed)
	return errors.Join(errs...)
}

// request makes an id of a request; the lock of the device is held.
func (id *ID) request(ev cmfsm.Event) handler {
	d := id.deviceOf(ev.Listener)
	n := &ID{
		ps: id.ps, typ: id.typ, ends: []end{{d, ev.ID}}, bound: true,
		local: ev.Local, remote: ev.Remote, passive: true,
	}
	id.mu.Lock()
	n.ch = id.ch
	gone := id.gone
	id.mu.Unlock()
	if gone || n.ch.add(n) != nil {
		d.laterLocked(func() {
			_ = d.client.Destroy(ev.ID)
			d.handle(ev.ID, nil)
			d.release()
		})
		return n
	}
	n.ch.events.put(&Event{Type: ev.Type, ID: n, Listener: id, Param: ConnParam(ev.Param)})
	return n
}
