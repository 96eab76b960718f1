package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Destroy tells the peer what it has to know in each state, and leaves nothing.
func TestDestroyInEveryState(t *testing.T) {
	mra := func(w *world, attr wire.CMAttr) {
		// Copies of a message make the undecided application ask for time.
		w.fate = func(_ int, m *MAD) []time.Duration {
			if m.Data.Attr() == attr {
				return []time.Duration{linkDelay, 2 * linkDelay}
			}
			return []time.Duration{linkDelay}
		}
	}
	acceptOnly := func(w *world) { w.b.app = w.polite }
	both := func(w *world) { w.a.app, w.b.app = w.polite, w.polite }
	for _, c := range []struct {
		state   State
		passive bool
		prepare func(w *world) // before Connect
		later   func(w *world, a, b ID)
		msg     wire.CMAttr // 0 for none
		about   wire.CMMessage
		why     wire.RejReason
		peer    EventType // last event of the peer
		held    bool
	}{
		{StateREQSent, false, func(*world) {}, nil, wire.AttrREJ, wire.CMMessageOther, wire.RejTimeout, EventRejected, false},
		{StateMRAREQRcvd, false, func(w *world) { mra(w, wire.AttrREQ) }, nil, wire.AttrREJ, wire.CMMessageOther, wire.RejTimeout, EventRejected, false},
		{StateREPRcvd, false, acceptOnly, nil, wire.AttrREJ, wire.CMMessageREP, wire.RejConsumer, EventRejected, false},
		{StateREQRcvd, true, func(*world) {}, nil, wire.AttrREJ, wire.CMMessageREQ, wire.RejConsumer, EventRejected, false},
		{StateREPSent, true, acceptOnly, nil, wire.AttrREJ, wire.CMMessageOther, wire.RejConsumer, EventTimewaitExit, true},
		{StateMRAREPRcvd, true, func(w *world) { acceptOnly(w); mra(w, wire.AttrREP) }, nil, wire.AttrREJ, wire.CMMessageOther, wire.RejConsumer, EventTimewaitExit, true},
		{StateEstablished, false, both, nil, wire.AttrDREQ, 0, 0, EventTimewaitExit, true},
		{StateEstablished, true, both, nil, wire.AttrDREQ, 0, 0, EventTimewaitExit, true},
		{StateDREQSent, false, both, func(w *world, a, _ ID) { w.b.app = nil; w.check(w.a.Disconnect(w.now, a)) }, 0, 0, 0, EventDisconnected, true},
		{StateDREQRcvd, true, both, func(w *world, a, _ ID) { w.b.app = nil; w.check(w.a.Disconnect(w.now, a)) }, wire.AttrDREP, 0, 0, EventTimewaitExit, true},
		{StateTimewait, true, both, func(w *world, a, _ ID) { w.check(w.a.Disconnect(w.now, a)) }, 0, 0, 0, EventTimewaitExit, true},
	} {
		name := c.state.String()
		if c.passive {
			name += " (passive)"
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			c.prepare(w)
			w.listen(wire.PortSpaceTCP, 1)
			a := w.connect(wire.PortSpaceTCP)
			w.run(time.Millisecond)
			req, _ := w.b.last(EventConnectRequest)
			if c.later != nil {
				c.later(w, a, req.ID)
				w.run(time.Millisecond)
			}
			h, id, peer := w.a, a, w.b
			if c.passive {
				h, id, peer = w.b, req.ID, w.a
			}
			if s := w.state(h, id); s != c.state {
				w.fatal("state %v, want %v", s, c.state)
			}
			before := len(h.events)
			info, err := h.Info(id)
			w.check(err)
			w.check(h.Destroy(w.now, id))
			if held := h.QPNHeld(info.QPN); held != c.held {
				w.fatal("queue pair's number held: %v", held)
			}
			m := answer(w, h)
			switch {
			case c.msg == 0 && m != nil, c.msg != 0 && (m == nil || m.Data.Attr() != c.msg):
				w.fatal("sent %v, want %v", m, c.msg)
			case c.msg == wire.AttrREJ:
				if rej := wire.REJAt(m.Data.Data()); rej.Message() != c.about || rej.Reason() != c.why || rej.LocalCommID() == 0 {
					w.fatal("REJ %+v", rej.Fields())
				}
			}
			if m != nil {
				w.carry(h, m)
			}
			w.run(time.Second)
			if got := peer.events[len(peer.events)-1].Type; got != c.peer {
				w.fatal("the peer's last event is %v, want %v", got, c.peer)
			}
			if c.msg == wire.AttrREJ && peer.count(EventRejected) != 1 {
				w.fatal("the peer's events are %s", names(peer.types()))
			}
			if len(h.events) != before {
				w.fatal("a destroyed id has the event %v", h.events[before].Type)
			}
			w.run(10 * time.Minute)
			left := 0
			if c.passive {
				left = 1 // the listener
			}
			w.checkEmpty(h, left)
		})
	}
}

// A listener takes along what nobody has seen; what the application knows lives.
func TestDestroyListener(t *testing.T) {
	w := newWorld(t, 1)
	l := w.listen(wire.PortSpaceTCP, 5)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	seen, _ := w.b.last(EventConnectRequest)

	// The second request has come, but its event is not taken.
	p := activeParam
	p.QPN++
	id := w.create(w.a, wire.PortSpaceTCP)
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	m, _ := w.a.NextMAD()
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, m.Data[:])
	w.check(w.b.Destroy(w.now, l))
	w.run(time.Second)
	if e, ok := w.a.last(EventRejected); !ok || e.ID != id || e.Status != int(wire.RejConsumer) {
		w.fatal("events of a: %+v", w.a.events)
	}
	if w.b.count(EventConnectRequest) != 1 || w.b.Len() != 1 {
		w.fatal("%d ids of b, events %s", w.b.Len(), names(w.b.types()))
	}
	pp := passiveParam
	w.check(w.b.Accept(w.now, seen.ID, &pp))
	w.run(time.Second)
	if w.a.count(EventConnectResponse) != 1 {
		w.fatal("the first request is not accepted")
	}
}

// dropOwner destroys all ids of an owner, oldest first.
func (h *host) dropOwner(now mono.Time, owner Owner) {
	for _, id := range h.Owned(owner) {
		_ = h.Destroy(now, id) // one may have gone with its listener
	}
}

// An owner's end is that of all its ids, and of nobody else's.
func TestDropOwner(t *testing.T) {
	w := newWorld(t, 1)
	w.b.app = w.polite
	w.a.app = w.polite
	w.listen(wire.PortSpaceTCP, 5)
	var mine []ID
	for i := range 6 {
		id, err := w.a.Create(Owner(1+i%2), wire.PortSpaceTCP, 2)
		w.check(err)
		p := activeParam
		p.QPN += uint32(i)
		w.check(w.a.Connect(w.now, id, w.route(), &p))
		mine = append(mine, id)
	}
	pp := passiveParam
	w.b.app = func(h *host, e Event) {
		if e.Type == EventConnectRequest {
			pp.QPN++
			w.check(h.Accept(w.now, e.ID, &pp))
			return
		}
		w.polite(h, e)
	}
	w.run(time.Second)
	w.a.dropOwner(w.now, 2)
	w.a.dropOwner(w.now, 3)
	w.run(time.Minute)
	for i, id := range mine {
		_, err := w.a.Info(id)
		if (err == nil) != (i%2 == 0) {
			w.fatal("id %d of owner %d: %v", id, 1+i%2, err)
		}
	}
	if w.b.count(EventDisconnected) != 3 || w.a.Len() != 3 {
		w.fatal("%d connections of b ended, a has %d", w.b.count(EventDisconnected), w.a.Len())
	}
	w.b.dropOwner(w.now, 1)
	w.run(time.Minute)
	w.checkEmpty(w.b, 0)
}
