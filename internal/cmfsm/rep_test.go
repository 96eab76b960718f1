package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// half is a connection whose REP has been sent and not answered: nothing of a's
// after the REQ arrives.
func half(w *world) (a, b ID) {
	w.t.Helper()
	w.b.app = w.polite
	w.listen(wire.PortSpaceTCP, 1)
	a = w.connect(wire.PortSpaceTCP)
	w.run(time.Millisecond)
	req, _ := w.b.last(EventConnectRequest)
	if s := w.state(w.b, req.ID); s != StateREPSent {
		w.fatal("state %v", s)
	}
	return a, req.ID
}

// toB is a MAD from a to b made by hand.
func (w *world) toB(attr wire.CMAttr, encode func(data []byte)) {
	var mad wire.MAD
	mad.EncodeCM(5, attr)
	encode(mad.Data())
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, mad[:])
}

// The first packet on the queue pair is as good as the RTU; the RTU that comes
// later is a duplicate.
func TestEstablishedByTraffic(t *testing.T) {
	w := newWorld(t, 1)
	a, b := half(w)
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrRTU {
			return []time.Duration{time.Second}
		}
		return []time.Duration{linkDelay}
	}
	w.check(w.a.Accept(w.now, a, nil))
	w.run(time.Millisecond)
	w.check(w.b.Established(b))
	w.check(w.b.Established(b))
	w.run(10 * time.Second)
	if names(w.b.types()) != "CONNECT_REQUEST ESTABLISHED" || w.b.Counters()[CounterTxREP] != 1 || w.b.Counters()[CounterDuplicates] != 1 {
		w.fatal("events %s", names(w.b.types()))
	}
	wantErr(t, "of a listener", w.b.Established(1), ErrState)
	wantErr(t, "of nobody", w.b.Established(99), ErrUnknownID)
}

// Every repeated REP of an established connection gets another RTU.
func TestRTULost(t *testing.T) {
	w := newWorld(t, 1)
	a, b := half(w)
	lost := 0
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrRTU && lost < 3 {
			lost++
			return nil
		}
		return []time.Duration{linkDelay}
	}
	w.check(w.a.Accept(w.now, a, nil))
	w.run(time.Minute)
	if w.a.Counters()[CounterTxRTU] != 4 || w.b.Counters()[CounterTxREP] != 4 || w.b.count(EventEstablished) != 1 {
		w.fatal("%d RTUs, %d REPs", w.a.Counters()[CounterTxRTU], w.b.Counters()[CounterTxREP])
	}
	// What it took to connect leaves no fewer tries for the end.
	w.fate = func(int, *MAD) []time.Duration { return nil }
	w.check(w.b.Disconnect(w.now, b))
	w.run(5 * time.Minute)
	if n := w.b.Counters()[CounterTxDREQ]; n != 16 {
		w.fatal("%d DREQs", n)
	}
}

// An active side that thinks is given time, from one MRA to the next.
func TestREPRepeatedWhileUndecided(t *testing.T) {
	w := newWorld(t, 1)
	a, b := half(w)
	w.run(5 * time.Second)
	if w.state(w.b, b) != StateMRAREPRcvd || w.a.Counters()[CounterTxMRA] != 1 {
		w.fatal("state %v", w.state(w.b, b))
	}
	w.run(5 * time.Minute)
	if n := w.b.Counters()[CounterTxREP]; n < 5 || n > 7 {
		w.fatal("%d REPs in five minutes", n)
	}
	w.check(w.a.Accept(w.now, a, nil))
	w.run(time.Second)
	if w.b.count(EventEstablished) != 1 {
		w.fatal("not established")
	}
}

// An MRA moves the timer to its service timeout plus the time of an
// acknowledgement; afterwards the usual rhythm goes on.
func TestMRATimes(t *testing.T) {
	w := newWorld(t, 1)
	_, b := half(w)
	c := w.b.ids[b]
	w.a = newHost(t, "a", "10.0.0.1", 9, Config{}) // has lost its memory
	start := w.now
	w.toB(wire.AttrMRA, func(data []byte) {
		wire.MRAAt(data).Encode(&wire.MRAFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, Message: wire.CMMessageREP, ServiceTimeout: 21})
	})
	// 2^(21-8) ms and 2^(17-8) ms.
	if want := start.Add(8192*time.Millisecond + 512*time.Millisecond); w.b.NextDeadline() != want || c.state != StateMRAREPRcvd {
		w.fatal("deadline %v, want %v; state %v", w.b.NextDeadline(), want, c.state)
	}
	w.b.Poll(w.b.NextDeadline() - 1)
	if w.b.Counters()[CounterTxREP] != 1 {
		w.fatal("repeated too early")
	}
	due := w.b.NextDeadline()
	w.b.Poll(due)
	if w.b.Counters()[CounterTxREP] != 2 || w.b.NextDeadline() != due.Add(4096*time.Millisecond) {
		w.fatal("%d REPs, next after %v", w.b.Counters()[CounterTxREP], w.b.NextDeadline().Sub(due))
	}
}

// MRAs that do not fit change nothing.
func TestMRAThatDoesNotFit(t *testing.T) {
	w := newWorld(t, 1)
	_, b := half(w)
	c := w.b.ids[b]
	good := wire.MRAFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, Message: wire.CMMessageREP, ServiceTimeout: 31}
	for _, x := range []struct {
		name    string
		change  func(f *wire.MRAFields)
		counter Counter
	}{
		{"about a REQ", func(f *wire.MRAFields) { f.Message = wire.CMMessageREQ }, CounterWrongState},
		{"about a LAP", func(f *wire.MRAFields) { f.Message = wire.CMMessageLAP }, CounterWrongState},
		{"other id of the peer", func(f *wire.MRAFields) { f.LocalCommID++ }, CounterWrongPeer},
		{"unknown", func(f *wire.MRAFields) { f.RemoteCommID++ }, CounterUnknownID},
	} {
		f, before, deadline := good, w.b.Counters()[x.counter], w.b.NextDeadline()
		x.change(&f)
		w.toB(wire.AttrMRA, func(data []byte) { wire.MRAAt(data).Encode(&f) })
		if w.b.Counters()[x.counter] != before+1 || w.b.NextDeadline() != deadline || c.state != StateREPSent {
			w.fatal("%s: %v is %d, state %v", x.name, x.counter, w.b.Counters()[x.counter], c.state)
		}
	}
}

// REPs that do not fit are dropped, and those that name what another connection
// has are refused; the request goes on.
func TestREPThatDoesNotFit(t *testing.T) {
	w := newWorld(t, 1)
	old, _ := established(w)
	oldc := w.a.ids[old]
	w.b = newHost(t, "b", "10.0.0.2", 9, Config{})
	p := activeParam
	p.QPN = 0x15
	id := w.create(w.a, wire.PortSpaceTCP)
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	if m, ok := w.a.NextMAD(); !ok || m.Data.Attr() != wire.AttrREQ {
		w.fatal("no REQ")
	}
	c := w.a.ids[id]
	good := wire.REPFields{LocalCommID: 0x4444, RemoteCommID: c.commID, LocalQPN: 0x99, LocalCAGUID: w.b.cfg.GUID}
	for _, x := range []struct {
		name    string
		change  func(f *wire.REPFields, p *Path)
		why     wire.RejReason
		counter Counter
	}{
		{"unknown id", func(f *wire.REPFields, _ *Path) { f.RemoteCommID++ }, 0, CounterUnknownID},
		{"from another host", func(_ *wire.REPFields, p *Path) { p.Remote = p.Remote.Next() }, 0, CounterWrongPeer},
		{"communication id 0", func(f *wire.REPFields, _ *Path) { f.LocalCommID = 0 }, 0, CounterBadMessage},
		{"QPN 0", func(f *wire.REPFields, _ *Path) { f.LocalQPN = 0 }, 0, CounterBadMessage},
		{"QPN 1", func(f *wire.REPFields, _ *Path) { f.LocalQPN = 1 }, 0, CounterBadMessage},
		{"used communication id", func(f *wire.REPFields, _ *Path) { f.LocalCommID = oldc.peerCommID }, wire.RejDuplicateLocalCommID, numCounters},
		{"for an old connection, other id", func(f *wire.REPFields, _ *Path) { f.RemoteCommID = oldc.commID }, 0, CounterWrongPeer},
		{"used queue pair", func(f *wire.REPFields, _ *Path) { f.LocalQPN = oldc.peerQPN }, wire.RejStaleConn, CounterStale},
	} {
		f, path := good, Path{Local: w.a.addr, Remote: w.b.addr}
		x.change(&f, &path)
		var before uint64
		if x.counter != numCounters {
			before = w.a.Counters()[x.counter]
		}
		var mad wire.MAD
		mad.EncodeCM(6, wire.AttrREP)
		wire.REPAt(mad.Data()).Encode(&f)
		w.a.Handle(w.now, &path, mad[:])
		if x.counter != numCounters && w.a.Counters()[x.counter] != before+1 {
			w.fatal("%s: %v is %d", x.name, x.counter, w.a.Counters()[x.counter])
		}
		m, sent := w.a.NextMAD()
		if sent != (x.why != 0) || c.state != StateREQSent {
			w.fatal("%s: state %v, answer %v", x.name, c.state, sent)
		}
		if sent {
			if rej := wire.REJAt(m.Data.Data()); rej.Reason() != x.why || rej.Message() != wire.CMMessageREP || rej.RemoteCommID() != f.LocalCommID || m.Data.TID() != 6 {
				w.fatal("%s: REJ %+v", x.name, rej.Fields())
			}
		}
	}
	// The used queue pair was a sign that the old connection is no more.
	if m, ok := w.a.NextMAD(); !ok || m.Data.Attr() != wire.AttrDREQ || oldc.state != StateDREQSent {
		w.fatal("the old connection is in %v", oldc.state)
	}
}

// A REP that was refused for an old connection stays refused when that has ended.
func TestLateCopyOfRefusedREP(t *testing.T) {
	w := newWorld(t, 1)
	old, _ := established(w)
	qpn := w.a.ids[old].peerQPN
	p := activeParam
	p.QPN = 0x15
	id := w.create(w.a, wire.PortSpaceTCP)
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	c := w.a.ids[id]
	var mad wire.MAD
	mad.EncodeCM(6, wire.AttrREP)
	rep := wire.REPAt(mad.Data())
	rep.Encode(&wire.REPFields{LocalCommID: 0x4444, RemoteCommID: c.commID, LocalQPN: qpn, LocalCAGUID: w.b.cfg.GUID})
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrREQ {
			return nil
		}
		return []time.Duration{linkDelay}
	}
	from := &Path{Local: w.a.addr, Remote: w.b.addr}
	w.a.Handle(w.now, from, mad[:])
	w.run(time.Second)
	if _, err := w.a.Info(old); err != nil || w.state(w.a, old) != StateClosed {
		w.fatal("the old connection is in %v", w.state(w.a, old))
	}
	rejs := w.a.Counters()[CounterTxREJ]
	w.a.Handle(w.now, from, mad[:])
	counters := w.a.Counters()
	if c.state != StateREQSent || counters[CounterTxREJ] != rejs+1 || counters[CounterDuplicates] != 1 {
		w.fatal("state %v, %d REJs, %d duplicates", c.state, counters[CounterTxREJ]-rejs, counters[CounterDuplicates])
	}
	// Another answer is as good as ever; a copy of it then is in the wrong place.
	rep.SetLocalCommID(0x4445)
	w.a.Handle(w.now, from, mad[:])
	if c.state != StateREPRcvd {
		w.fatal("state %v", c.state)
	}
	w.drain()
	w.check(w.a.Disconnect(w.now, id))
	w.drain()
	before := w.a.Counters()[CounterWrongState]
	w.a.Handle(w.now, from, mad[:])
	if c.state != StateDREQSent || w.a.Counters()[CounterWrongState] != before+1 {
		w.fatal("state %v", c.state)
	}
}

// RoCE has no alternate paths.
func TestLAP(t *testing.T) {
	w := newWorld(t, 1)
	_, b := established(w)
	c := w.b.ids[b]
	w.toB(wire.AttrLAP, func(data []byte) {
		wire.LAPAt(data).Encode(&wire.LAPFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, RemoteQPN: c.qpn})
	})
	m := answer(w, w.b)
	if m == nil || m.Data.Attr() != wire.AttrAPR || m.Data.TID() != 5 {
		w.fatal("answer %v", m)
	}
	if f := wire.APRAt(m.Data.Data()).Fields(); f.Status != wire.APUnsupported || f.LocalCommID != c.commID || f.RemoteCommID != c.peerCommID {
		w.fatal("APR %+v", f)
	}
	w.toB(wire.AttrLAP, func(data []byte) { wire.LAPAt(data).Encode(&wire.LAPFields{LocalCommID: 1, RemoteCommID: 2}) })
	w.toB(wire.AttrAPR, func(data []byte) {
		wire.APRAt(data).Encode(&wire.APRFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID})
	})
	if m := answer(w, w.b); m != nil || c.state != StateEstablished {
		w.fatal("answer %v, state %v", m, c.state)
	}
}

// RTUs that do not fit.
func TestRTUThatDoesNotFit(t *testing.T) {
	w := newWorld(t, 1)
	_, b := half(w)
	c := w.b.ids[b]
	for _, ids := range [][2]uint32{{c.peerCommID + 1, c.commID}, {c.peerCommID, c.commID + 1}, {0, c.commID}} {
		f := wire.RTUFields{LocalCommID: ids[0], RemoteCommID: ids[1]}
		w.toB(wire.AttrRTU, func(data []byte) { wire.RTUAt(data).Encode(&f) })
		if c.state != StateREPSent {
			w.fatal("RTU %+v leads to %v", f, c.state)
		}
	}
	if n := w.b.Counters()[CounterUnknownID]; n != 3 {
		w.fatal("%d unknown", n)
	}
	var mad wire.MAD
	mad.EncodeCM(5, wire.AttrRTU)
	wire.RTUAt(mad.Data()).Encode(&wire.RTUFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID})
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr.Next().Next()}, mad[:])
	if c.state != StateREPSent || w.b.Counters()[CounterWrongPeer] != 1 {
		w.fatal("a stranger's RTU leads to %v", c.state)
	}
}
