package cmfsm

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A host that has forgotten its connections and uses the same queue pair again is
// refused once, until the old connection has ended.
func TestStaleConnection(t *testing.T) {
	w := newWorld(t, 1)
	_, b := established(w)
	w.a = newHost(t, "a", "10.0.0.1", 99, Config{}) // restarted
	w.a.app = w.polite
	id := w.connect(wire.PortSpaceTCP)
	w.run(100 * time.Millisecond)
	e, ok := w.a.last(EventRejected)
	if !ok || e.Status != int(wire.RejStaleConn) || w.state(w.a, id) != StateTimewait || !w.a.QPNHeld(activeParam.QPN) {
		w.fatal("events %+v", w.a.events)
	}
	// The old connection asked to disconnect, and got an answer although nobody
	// knew it.
	if w.b.count(EventDisconnected) != 1 || w.state(w.b, b) != StateTimewait {
		w.fatal("events of b: %s", names(w.b.types()))
	}
	w.run(time.Second)
	if w.a.count(EventTimewaitExit) != 1 {
		w.fatal("the refused one stays in TIMEWAIT")
	}
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if w.a.count(EventEstablished) != 1 || w.b.count(EventEstablished) != 2 {
		w.fatal("not connected again")
	}
}

// In TIMEWAIT the peer may connect its queue pair anew; a copy of the old REQ is
// not taken for that.
func TestNewREQInTimewait(t *testing.T) {
	w := newWorld(t, 1)
	var req *MAD
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrREQ {
			c := *m
			req = &c
		}
		return []time.Duration{linkDelay}
	}
	a, b := established(w)
	w.check(w.a.Disconnect(w.now, a))
	w.run(time.Millisecond)
	if w.state(w.b, b) != StateTimewait {
		w.fatal("state %v", w.state(w.b, b))
	}
	from := &Path{Local: w.b.addr, Remote: w.a.addr}
	w.b.Handle(w.now, from, req.Data[:])
	w.drain()
	if w.b.count(EventConnectRequest) != 1 || w.b.Counters()[CounterDuplicates] != 1 {
		w.fatal("events of b: %s", names(w.b.types()))
	}
	// Another REQ may even have the same communication id by now.
	req.Data.SetTID(req.Data.TID() + 1)
	w.b.Handle(w.now, from, req.Data[:])
	w.drain()
	w.connect(wire.PortSpaceTCP)
	w.run(time.Millisecond)
	if w.b.count(EventConnectRequest) != 2 || w.b.Counters()[CounterStale] != 1 {
		w.fatal("events of b: %s", names(w.b.types()))
	}
	w.run(time.Second)
	if w.b.count(EventTimewaitExit) != 1 || w.state(w.b, b) != StateClosed {
		w.fatal("events of b: %s", names(w.b.types()))
	}
}

// A stranger who claims the GUID and queue pair of another host does not disturb
// its connections.
func TestStrangerWithOurGUID(t *testing.T) {
	w := newWorld(t, 1)
	_, b := established(w)
	w.a = newHost(t, "thief", "10.0.0.3", 5, Config{})
	w.a.Machine = New(Config{GUID: 0x5054_00ff_fe00_0001, Rand: rand.NewPCG(5, 5)})
	w.a.app = w.polite
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if w.state(w.b, b) != StateEstablished || w.b.count(EventDisconnected) != 0 || w.a.count(EventEstablished) != 1 {
		w.fatal("state %v, events of b: %s", w.state(w.b, b), names(w.b.types()))
	}
}

// Both ends of a connection may be of one machine.
func TestConnectToOneself(t *testing.T) {
	w := newWorld(t, 1)
	w.b.app = func(h *host, e Event) { w.polite(h, e) }
	w.listen(wire.PortSpaceTCP, 1)
	w.a = w.b
	id := w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if names(w.b.types()) != "CONNECT_REQUEST CONNECT_RESPONSE ESTABLISHED ESTABLISHED" {
		w.fatal("events %s", names(w.b.types()))
	}
	w.check(w.b.Disconnect(w.now, id))
	w.run(time.Second)
	if w.b.count(EventTimewaitExit) != 2 {
		w.fatal("events %s", names(w.b.types()))
	}
	w.checkEmpty(w.b, 3)
}
