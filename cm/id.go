package cm

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ID is an end of a connection, or a listener (rdma_cm_id). What its methods
// begin ends with an event of its channel. They are safe for concurrent use.
type ID struct {
	// Context is the program's own.
	Context any

	ps  PortSpace
	typ verbs.QPType

	call    sync.Mutex // one call at a time; guards what follows
	opt     cmfsm.Options
	bound   bool
	passive bool
	way     way
	cancel  context.CancelFunc // of what is being resolved
	param   cmfsm.ConnParam    // what this end offers
	qp      *verbs.QP
	groups  map[netip.Addr]verbs.GID

	mu     sync.Mutex // of what events need: the last lock
	ends   []end
	ch     *EventChannel
	gone   bool
	hurry  context.CancelFunc // ends what a call waits for; nil before one does
	made   bool               // there is a queue pair of CreateQP
	answer *ConnParam         // of the peer, to be told with ESTABLISHED
	local  netip.AddrPort
	remote netip.AddrPort
}

// end is an id on a device. An id that listens at all addresses has one on each
// device.
type end struct {
	d  *device
	id cmfsm.ID
}

// LocalAddr is the own address, not valid before there is one.
func (id *ID) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

// RemoteAddr is the peer's address, not valid before there is one.
func (id *ID) RemoteAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remote
}

// PortSpace is that of CreateID.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Device is the device that the id is on, nil before ResolveAddr or BindAddr has
// found it, and of one that is bound to all addresses.
func (id *ID) Device() *verbs.Context {
	if e, err := id.end(); err == nil {
		return e.d.dev
	}
	return nil
}

// end is the id's only end.
func (id *ID) end() (end, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.gone:
		return end{}, verbs.ErrClosed
	case len(id.ends) != 1:
		return end{}, stateErr("the id is on no device yet: ResolveAddr, or BindAddr with an address of one, comes first")
	}
	return id.ends[0], nil
}

func (id *ID) deviceOf(fsm cmfsm.ID) *device {
	id.mu.Lock()
	defer id.mu.Unlock()
	for _, e := range id.ends {
		if e.id == fsm {
			return e.d
		}
	}
	return nil
}

func (id *ID) alive() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return !id.gone
}

// post tells the program of an event.
func (id *ID) post(e Event) {
	e.ID = id
	id.mu.Lock()
	ch, gone := id.ch, id.gone
	id.mu.Unlock()
	if !gone {
		ch.events.put(&e)
	}
}

// event is told what happens to the id; the lock of the device is held.
func (id *ID) event(ev cmfsm.Event) {
	id.mu.Lock()
	elsewhere := ev.Type == cmfsm.EventAddrChange && ev.Local.Addr() != id.local.Addr()
	if elsewhere || len(id.ends) == 0 {
		id.mu.Unlock()
		return
	}
	made, e, answer := id.made, id.ends[0], id.answer
	id.mu.Unlock()
	out := Event{Type: ev.Type, Err: errOf(&ev, id.typ), Status: ev.Status, Param: ConnParam(ev.Param), AV: ev.AV}
	if ev.Type == cmfsm.EventConnectResponse && made {
		go id.respond(e, &out) // it may wait for the peer's next hop, which others' events must not
		return
	}
	if id.typ == verbs.UD && ev.Type == cmfsm.EventEstablished {
		e.d.laterLocked(func() { id.learned(e, &out) })
		return
	}
	if ev.Type == cmfsm.EventEstablished && answer != nil {
		out.Param = *answer
	}
	id.post(out)
}

// Migrate moves the id, and the events that come from now on, to another channel
// (rdma_migrate_id). Those that wait stay where they are.
func (id *ID) Migrate(to *EventChannel) error {
	id.call.Lock()
	defer id.call.Unlock()
	if err := to.add(id); err != nil {
		return opErr("migrate", id.name(), err)
	}
	id.mu.Lock()
	from := id.ch
	id.ch = to
	id.mu.Unlock()
	if from != to {
		from.remove(id)
	}
	return nil
}

// Destroy ends the id, whatever it does, tells the peer what there is to tell, and
// destroys a queue pair of CreateQP (rdma_destroy_id). Events of it that nobody has
// read are gone. Twice is no error.
func (id *ID) Destroy() error {
	id.mu.Lock()
	if id.gone {
		id.mu.Unlock()
		return nil
	}
	id.gone = true
	if id.hurry != nil {
		id.hurry()
	}
	id.mu.Unlock()
	id.call.Lock()
	defer id.call.Unlock()
	if id.cancel != nil {
		id.cancel()
	}
	id.mu.Lock()
	ch, ends := id.ch, id.ends
	id.mu.Unlock()
	ch.remove(id)
	if id.qp != nil {
		// An error says that it is there already, or the device is closed.
		_ = id.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
	}
	for _, e := range ends {
		e.d.handle(e.id, nil)
		_ = e.d.client.Destroy(e.id) // it may have gone with the device
	}
	var errs []error
	if id.qp != nil {
		errs = append(errs, id.qp.Destroy())
	}
	for _, e := range ends {
		e.d.release()
	}
	return opErr("destroy", id.name(), errors.Join(errs...))
}

func (id *ID) name() string {
	if r := id.RemoteAddr(); r.IsValid() {
		return "id to " + r.String()
	}
	if l := id.LocalAddr(); l.IsValid() {
		return "id at " + l.String()
	}
	return "id"
}
