package cm

import (
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// run makes a call of an id that is on one device.
func (id *ID) run(what string, f func(e end) error) error {
	id.call.Lock()
	defer id.call.Unlock()
	e, err := id.end()
	if err == nil {
		err = f(e)
	}
	return opErr(what, id.name(), err)
}

// Listen takes requests at the address of BindAddr (rdma_listen): CONNECT_REQUEST
// events. At most backlog of them wait for Accept or Reject, others are refused; 0:
// 1024, the most.
func (id *ID) Listen(backlog int) error {
	id.call.Lock()
	defer id.call.Unlock()
	id.mu.Lock()
	ends, gone := id.ends, id.gone
	id.mu.Unlock()
	var err error
	switch {
	case gone:
		err = verbs.ErrClosed
	case !id.bound:
		err = stateErr("BindAddr comes first")
	}
	for _, e := range ends {
		if err == nil {
			err = e.d.client.Listen(e.id, backlog)
		}
	}
	return opErr("listen with", id.name(), err)
}

// filled is p with what is known of the queue pair.
func (id *ID) filled(p *ConnParam) cmfsm.ConnParam {
	in := p.internal()
	if id.qp != nil {
		in.QPN, in.SRQ = id.qp.Num(), id.qp.InitAttr().SRQ != nil
	}
	return in
}

// Connect asks the peer (rdma_connect), after ROUTE_RESOLVED: for a connection, which
// ends in ESTABLISHED, or CONNECT_RESPONSE for an id without CreateQP; of a UD id, for
// its queue pair's number and Q_Key. REJECTED, UNREACHABLE and CONNECT_ERROR are
// other ends. PrivateData has at most MaxDialPrivate, of UD MaxUDPrivate bytes.
func (id *ID) Connect(p *ConnParam) error {
	return id.run("connect", func(e end) error {
		if !id.way.route {
			return stateErr("ResolveRoute comes first, and its event")
		}
		if id.way.Dst.IsMulticast() {
			return invalid("%v is a group: JoinMulticast joins it", id.way.Dst)
		}
		in := id.filled(p)
		id.param = in
		return e.d.client.Connect(e.id, &cmfsm.Route{
			Local: id.LocalAddr(), Remote: id.RemoteAddr(), MTU: id.way.MTU, HopLimit: id.way.HopLimit, VLAN: id.way.VLAN,
		}, &in)
	})
}

// Accept says yes to a CONNECT_REQUEST (rdma_accept), after CreateQP, or with QPN in
// p. ESTABLISHED follows; a UD id is done with it. PrivateData has at most
// MaxAcceptPrivate, of UD MaxUDAnswer bytes.
func (id *ID) Accept(p *ConnParam) error {
	return id.run("accept", func(e end) error {
		in := id.filled(p)
		id.param = in
		if id.qp != nil && id.typ != verbs.UD {
			if err := id.ready(e, &in); err != nil {
				return err
			}
		}
		return e.d.client.Accept(e.id, &in)
	})
}

// ready takes the queue pair to RTS, unless the id is destroyed meanwhile.
func (id *ID) ready(e end, p *cmfsm.ConnParam) error {
	attr, err := e.d.client.QPAttr(e.id, p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	id.mu.Lock()
	id.hurry = cancel
	gone := id.gone
	id.mu.Unlock()
	if gone {
		return verbs.ErrClosed
	}
	err = toRTS(ctx, e.d.dev, id.qp, &attr, 0)
	if errors.Is(err, context.Canceled) {
		return verbs.ErrClosed
	}
	return err
}

// respond connects the queue pair with the peer's that has accepted.
func (id *ID) respond(e end, ev *Event) {
	id.mu.Lock()
	id.answer = &ev.Param // for ESTABLISHED
	id.mu.Unlock()
	id.call.Lock()
	err := id.ready(e, nil)
	if err == nil {
		err = e.d.client.Accept(e.id, nil)
	}
	id.call.Unlock()
	if err != nil {
		_ = e.d.client.Reject(e.id, 0, nil)
		id.post(Event{Type: EventConnectError, Err: opErr("connect", id.name(), err)})
	}
}

// learned tells the way to the queue pair of a UD service.
func (id *ID) learned(e end, ev *Event) {
	id.call.Lock()
	vlan := id.way.VLAN
	id.call.Unlock()
	index, err := gidIndex(e.d.dev, id.LocalAddr().Addr(), vlan)
	if err != nil {
		id.post(Event{Type: EventConnectError, Err: opErr("connect", id.name(), err)})
		return
	}
	ev.AV.SGIDIndex = index
	id.post(*ev)
}

// Reject says no to a CONNECT_REQUEST, or a CONNECT_RESPONSE (rdma_reject), with at
// most MaxRejectPrivate, of UD MaxUDAnswer bytes.
func (id *ID) Reject(private []byte) error {
	return id.run("reject", func(e end) error { return e.d.client.Reject(e.id, wire.RejConsumer, private) })
}

// Establish says that the queue pair is ready, after a CONNECT_RESPONSE
// (rdma_establish). ESTABLISHED follows.
func (id *ID) Establish() error {
	return id.run("establish", func(e end) error { return e.d.client.Accept(e.id, nil) })
}

// Notify passes an asynchronous event of the queue pair on (rdma_notify):
// verbs.EventCommEst, the first packet of the peer, stands for its last message, should
// that be late. Other events are no concern of ids.
func (id *ID) Notify(ev verbs.EventType) error {
	return id.run("notify", func(e end) error {
		if ev != verbs.EventCommEst {
			return invalid("event %v: only COMM_EST says something about a connection", ev)
		}
		return e.d.client.Established(e.id)
	})
}

// Disconnect ends the connection, or, after DISCONNECTED, agrees to its end
// (rdma_disconnect). A queue pair of CreateQP goes to ERR. DISCONNECTED, and
// TIMEWAIT_EXIT after a while, follow.
func (id *ID) Disconnect() error {
	return id.run("disconnect", func(e end) error {
		if id.qp != nil {
			if err := id.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState); err != nil {
				return fmt.Errorf("queue pair: %w", err)
			}
		}
		return e.d.client.Disconnect(e.id)
	})
}
