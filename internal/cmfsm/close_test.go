package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// established is a connection between a and b, and its two ids.
func established(w *world) (active, passive ID) {
	w.t.Helper()
	w.a.app, w.b.app = w.polite, w.polite
	w.listen(wire.PortSpaceTCP, 0)
	active = w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	req, _ := w.b.last(EventConnectRequest)
	if w.a.count(EventEstablished) != 1 || w.b.count(EventEstablished) != 1 {
		w.fatal("not established")
	}
	return active, req.ID
}

func (w *world) state(h *host, id ID) State {
	w.t.Helper()
	info, err := h.Info(id)
	w.check(err)
	return info.State
}

// Both ends disconnect at once: nobody waits for the other, whatever is lost.
func TestSimultaneousDisconnect(t *testing.T) {
	for k := range 7 {
		w := newWorld(t, 1)
		a, b := established(w)
		first := w.sent
		w.fate = func(n int, _ *MAD) []time.Duration {
			if n == first+k {
				return nil
			}
			return []time.Duration{linkDelay}
		}
		w.check(w.a.Disconnect(w.now, a))
		w.check(w.b.Disconnect(w.now, b))
		// One of the two DREQs is enough, so this takes no repetition.
		w.run(time.Second)
		for _, h := range []*host{w.a, w.b} {
			if h.count(EventDisconnected) != 1 || h.count(EventTimewaitExit) != 1 {
				w.fatal("%d lost: events of %s: %s", k, h.name, names(h.types()))
			}
		}
		w.checkEmpty(w.a, 1)
		w.checkEmpty(w.b, 2)
	}
}

// A DREQ that nobody answers is repeated 15 times, in the rhythm of each side.
func TestDREQUnanswered(t *testing.T) {
	for _, c := range []struct {
		name string
		side func(w *world, a, b ID) (*host, ID)
		each time.Duration
	}{
		{"active", func(w *world, a, _ ID) (*host, ID) { return w.a, a }, 4608 * time.Millisecond},
		{"passive", func(w *world, _, b ID) (*host, ID) { return w.b, b }, 4096 * time.Millisecond},
	} {
		w := newWorld(t, 1)
		a, b := established(w)
		h, id := c.side(w, a, b)
		w.fate = func(int, *MAD) []time.Duration { return nil }
		begin, first := w.now, w.sent
		w.check(h.Disconnect(w.now, id))
		w.check(h.Disconnect(w.now, id))
		w.runUntil("disconnected", 2*time.Minute, func() bool { return h.count(EventDisconnected) == 1 })
		if took := w.now.Sub(begin); took != 16*c.each || w.sent-first != 16 {
			w.fatal("%s: %d DREQs in %v", c.name, w.sent-first, took)
		}
		if n := h.Counters()[CounterTimeouts]; n != 1 {
			w.fatal("%s: %d timeouts", c.name, n)
		}
		if s := w.state(h, id); s != StateTimewait {
			w.fatal("%s: state %v", c.name, s)
		}
	}
}

// An application that does not answer DISCONNECTED keeps the peer waiting, and
// hears of it once.
func TestSlowDisconnect(t *testing.T) {
	w := newWorld(t, 1)
	a, b := established(w)
	w.b.app = nil
	w.check(w.a.Disconnect(w.now, a))
	w.run(20 * time.Second)
	if w.b.count(EventDisconnected) != 1 || w.state(w.b, b) != StateDREQRcvd || w.state(w.a, a) != StateDREQSent {
		w.fatal("states %v and %v", w.state(w.a, a), w.state(w.b, b))
	}
	w.check(w.b.Disconnect(w.now, b))
	w.run(time.Second)
	if w.a.count(EventTimewaitExit) != 1 || w.b.count(EventTimewaitExit) != 1 {
		w.fatal("events %s and %s", names(w.a.types()), names(w.b.types()))
	}
}

// TIMEWAIT holds the communication id and the QPN as long as packets live, and
// answers the DREQ again.
func TestTimewait(t *testing.T) {
	w := newWorld(t, 1)
	a, b := established(w)
	w.check(w.a.Disconnect(w.now, a))
	w.run(time.Millisecond)
	if w.state(w.a, a) != StateTimewait || w.state(w.b, b) != StateTimewait {
		w.fatal("states %v and %v", w.state(w.a, a), w.state(w.b, b))
	}
	if !w.a.QPNHeld(0x11) || w.a.QPNHeld(0x22) || !w.b.QPNHeld(0x22) || len(w.a.comm) != 1 {
		w.fatal("numbers held: %v and %v", w.a.held, w.b.held)
	}
	c := w.b.ids[b]
	var mad wire.MAD
	mad.EncodeCM(77, wire.AttrDREQ)
	wire.DREQAt(mad.Data()).Encode(&wire.DREQFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, RemoteQPN: c.qpn})
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, mad[:])
	m := answer(w, w.b)
	if m == nil || m.Data.Attr() != wire.AttrDREP || m.Data.TID() != 77 || w.b.Counters()[CounterDuplicates] != 1 {
		w.fatal("answer to another DREQ: %v", m)
	}
	// 4.096 us * 2^17, in Linux's milliseconds.
	w.run(510 * time.Millisecond)
	if w.a.count(EventTimewaitExit) != 0 || !w.a.QPNHeld(0x11) {
		w.fatal("TIMEWAIT is over early")
	}
	w.run(10 * time.Millisecond)
	if w.a.count(EventTimewaitExit) != 1 || w.a.QPNHeld(0x11) || w.state(w.a, a) != StateClosed {
		w.fatal("TIMEWAIT is not over")
	}
	wantErr(t, "disconnect what is over", w.a.Disconnect(w.now, a), ErrState)
}

// A queue pair whose id was destroyed is held, too: nobody gets an event, so the
// caller has to ask.
func TestQPNHeldAfterDestroy(t *testing.T) {
	w := newWorld(t, 1)
	a, b := established(w)
	w.b.app = func(h *host, e Event) { w.polite(h, e) }
	w.check(w.a.Destroy(w.now, a))
	if !w.a.QPNHeld(0x11) {
		w.fatal("not held while the DREQ is on its way")
	}
	wantErr(t, "a destroyed id", w.a.Disconnect(w.now, a), ErrUnknownID)
	w.run(100 * time.Millisecond)
	if !w.a.QPNHeld(0x11) || w.b.count(EventDisconnected) != 1 {
		w.fatal("not held in TIMEWAIT")
	}
	w.run(time.Second)
	w.checkEmpty(w.a, 0)
	if names(w.a.types()) != "CONNECT_RESPONSE ESTABLISHED" || w.state(w.b, b) != StateClosed {
		w.fatal("events of a: %s", names(w.a.types()))
	}
}

// Also when its end had begun before.
func TestQPNHeldAfterDisconnectAndDestroy(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := established(w)
	w.fate = func(int, *MAD) []time.Duration { return nil }
	w.check(w.a.Disconnect(w.now, a))
	w.run(time.Second)
	if w.a.QPNHeld(activeParam.QPN) {
		w.fatal("held although the id is there to tell of the end")
	}
	w.check(w.a.Destroy(w.now, a))
	w.run(time.Minute)
	if !w.a.QPNHeld(activeParam.QPN) {
		w.fatal("not held while the DREQ is repeated")
	}
	w.run(time.Minute)
	w.checkEmpty(w.a, 0)
}

// A destroyed connection tells its peer even over a bad link.
func TestDestroyedConnectionKeepsTelling(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := established(w)
	lost := 0
	w.fate = func(int, *MAD) []time.Duration {
		if lost++; lost <= 5 {
			return nil
		}
		return []time.Duration{linkDelay}
	}
	w.check(w.a.Destroy(w.now, a))
	w.run(time.Minute)
	if w.b.count(EventDisconnected) != 1 {
		w.fatal("the peer does not know")
	}
	w.checkEmpty(w.a, 0)
}

func TestForgedDREQAndDREP(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := established(w)
	c := w.a.ids[a]
	good := wire.DREQFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, RemoteQPN: c.qpn}
	for i, x := range []struct {
		name   string
		change func(f *wire.DREQFields, p *Path)
		drep   bool
	}{
		{"from another host", func(_ *wire.DREQFields, p *Path) { p.Remote = p.Remote.Next() }, false},
		{"other queue pair", func(f *wire.DREQFields, _ *Path) { f.RemoteQPN++ }, false},
		{"unknown connection", func(f *wire.DREQFields, _ *Path) { f.RemoteCommID++ }, true},
		{"other id of the peer", func(f *wire.DREQFields, _ *Path) { f.LocalCommID++ }, true},
	} {
		f, p := good, Path{Local: w.a.addr, Remote: w.b.addr}
		x.change(&f, &p)
		var mad wire.MAD
		mad.EncodeCM(99, wire.AttrDREQ)
		wire.DREQAt(mad.Data()).Encode(&f)
		w.a.Handle(w.now, &p, mad[:])
		m := answer(w, w.a)
		if n := w.a.Counters(); n[CounterUnknownID]+n[CounterWrongPeer] != uint64(i+1) {
			w.fatal("%s: not counted", x.name)
		}
		if c.state != StateEstablished || (m != nil) != x.drep {
			w.fatal("%s: state %v, answer %v", x.name, c.state, m)
		}
		if m == nil {
			continue
		}
		got := wire.DREPAt(m.Data.Data()).Fields()
		if m.Data.Attr() != wire.AttrDREP || m.Data.TID() != 99 || got.LocalCommID != f.RemoteCommID || got.RemoteCommID != f.LocalCommID {
			w.fatal("%s: %v %+v", x.name, m.Data.Attr(), got)
		}
	}
	var mad wire.MAD
	mad.EncodeCM(1, wire.AttrDREP)
	wire.DREPAt(mad.Data()).Encode(&wire.DREPFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID})
	w.a.Handle(w.now, &Path{Local: w.a.addr, Remote: w.b.addr}, mad[:])
	if c.state != StateEstablished || w.a.Counters()[CounterWrongState] != 1 {
		w.fatal("a DREP without DREQ leads to %v", c.state)
	}
}

// Nobody knows the connection any more: the DREQ is answered all the same.
func TestDREQAfterTimewait(t *testing.T) {
	w := newWorld(t, 1)
	a, b := established(w)
	w.b.app = nil
	lose := true
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrDREP && lose {
			return nil
		}
		return []time.Duration{linkDelay}
	}
	w.check(w.a.Disconnect(w.now, a))
	w.run(time.Millisecond)
	w.check(w.b.Destroy(w.now, b))
	w.run(2 * time.Second)
	lose = false
	w.run(10 * time.Second)
	if w.a.count(EventTimewaitExit) != 1 || w.a.Counters()[CounterTxDREQ] != 2 {
		w.fatal("events of a: %s", names(w.a.types()))
	}
}
