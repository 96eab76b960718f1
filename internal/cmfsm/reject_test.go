package cmfsm

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// without loses the k-th MAD.
func without(k int) func(int, *MAD) []time.Duration {
	return func(n int, _ *MAD) []time.Duration {
		if n == k {
			return nil
		}
		return []time.Duration{linkDelay}
	}
}

// The application's no reaches the other one with its private data, also when
// any message is lost.
func TestConsumerReject(t *testing.T) {
	no := bytes.Repeat([]byte{0xAB}, MaxREJPrivate)
	for k := range 5 {
		w := newWorld(t, 1)
		w.fate = without(k)
		w.listen(wire.PortSpaceTCP, 1)
		w.b.app = func(h *host, e Event) {
			w.check(h.Reject(e.ID, 0, no))
			w.check(h.Destroy(w.now, e.ID))
		}
		id := w.connect(wire.PortSpaceTCP)
		w.run(time.Minute)
		e, ok := w.a.last(EventRejected)
		if !ok || e.ID != id || e.Status != int(wire.RejConsumer) || !bytes.Equal(e.Param.PrivateData, no) || len(w.a.events) != 1 {
			w.fatal("%d lost: events %+v", k, w.a.events)
		}
		w.checkEmpty(w.a, 1)
		w.checkEmpty(w.b, 1)
	}
}

func TestRejectedRequestKeepsItsReason(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	w.b.app = func(h *host, e Event) {
		w.check(h.Reject(e.ID, wire.RejNoQP, []byte{1}))
		wantErr(t, "twice", h.Reject(e.ID, 0, nil), ErrState)
		wantErr(t, "accept", h.Accept(w.now, e.ID, &passiveParam), ErrState)
	}
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrREJ {
			if rej := wire.REJAt(m.Data.Data()); rej.Message() != wire.CMMessageREQ || rej.LocalCommID() == 0 {
				w.fatal("REJ %+v", rej.Fields())
			}
		}
		return []time.Duration{linkDelay}
	}
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if e, _ := w.a.last(EventRejected); e.Status != int(wire.RejNoQP) || len(e.Param.PrivateData) != MaxREJPrivate || e.Param.PrivateData[0] != 1 {
		w.fatal("event %+v", e)
	}
}

func TestRejectPrivateDataTooLong(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	e, _ := w.b.last(EventConnectRequest)
	wantErr(t, "149 bytes", w.b.Reject(e.ID, 0, make([]byte, 149)), ErrPrivateData)
	if info, _ := w.b.Info(e.ID); info.State != StateREQRcvd {
		w.fatal("state %v", info.State)
	}
}

// The active side may not like the answer.
func TestRejectOfREP(t *testing.T) {
	w := newWorld(t, 1)
	w.b.app = w.polite
	w.a.app = func(h *host, e Event) {
		if e.Type == EventConnectResponse {
			w.check(h.Reject(e.ID, 0, []byte("no, thanks")))
		}
	}
	w.listen(wire.PortSpaceTCP, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	e, _ := w.b.last(EventRejected)
	if names(w.b.types()) != "CONNECT_REQUEST REJECTED" || e.Status != int(wire.RejConsumer) || !bytes.HasPrefix(e.Param.PrivateData, []byte("no, thanks")) {
		w.fatal("events %+v", w.b.events)
	}
	w.checkEmpty(w.a, 1)
	w.checkEmpty(w.b, 2)
}

func TestNobodyListens(t *testing.T) {
	w := newWorld(t, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if e, ok := w.a.last(EventRejected); !ok || e.Status != int(wire.RejInvalidServiceID) {
		w.fatal("event %+v", e)
	}
	w.checkEmpty(w.a, 1)
}

// A peer that is not there costs 16 tries, 4608 ms apart, and no REJ.
func TestUnreachable(t *testing.T) {
	w := newWorld(t, 1)
	var at []time.Duration
	w.fate = func(int, *MAD) []time.Duration { at = append(at, time.Duration(w.now)); return nil }
	w.connect(wire.PortSpaceTCP)
	w.run(10 * time.Minute)
	e, ok := w.a.last(EventUnreachable)
	if !ok || e.Status != StatusTimedOut || len(w.a.events) != 1 || w.sent != 16 {
		w.fatal("%d tries, events %+v", w.sent, w.a.events)
	}
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] != 4608*time.Millisecond {
			w.fatal("try %d after %v", i, at[i]-at[i-1])
		}
	}
	if c := w.a.Counters(); c[CounterTimeouts] != 1 || c[CounterRetries] != 15 {
		w.fatal("%d timeouts, %d retries", c[CounterTimeouts], c[CounterRetries])
	}
	w.checkEmpty(w.a, 1)
}

// A passive side whose REP nobody confirms gives up after as many tries as the
// REQ says, one for each time that the initiator may take.
func TestREPUnanswered(t *testing.T) {
	w := newWorld(t, 1)
	w.a = newHost(t, "a", "10.0.0.1", 1, Config{ResponseTimeout: 18, MaxRetries: 3})
	var at []time.Duration
	w.fate = func(n int, m *MAD) []time.Duration {
		switch {
		case n == 1:
			return []time.Duration{linkDelay}
		case m.Data.Attr() == wire.AttrREQ:
			return nil
		}
		at = append(at, time.Duration(w.now))
		return nil
	}
	w.b.app = w.polite
	w.listen(wire.PortSpaceTCP, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Minute)
	e, ok := w.b.last(EventUnreachable)
	if !ok || e.Status != StatusTimedOut || len(at) != 4 {
		w.fatal("REPs at %v, events %+v", at, w.b.events)
	}
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] != 1024*time.Millisecond {
			w.fatal("REPs at %v", at)
		}
	}
}

// An initiator that goes away says so with its GUID, since the peer's
// communication id is not known to it.
func TestInitiatorGivesUp(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	id := w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	var rej wire.REJFields
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrREJ {
			rej = wire.REJAt(m.Data.Data()).Fields()
		}
		return []time.Duration{linkDelay}
	}
	w.check(w.a.Destroy(w.now, id))
	w.run(time.Second)
	if rej.RemoteCommID != 0 || rej.LocalCommID == 0 || rej.Message != wire.CMMessageOther || rej.Reason != wire.RejTimeout ||
		len(rej.Info) != 8 || binary.BigEndian.Uint64(rej.Info) != w.a.cfg.GUID {
		w.fatal("REJ %+v", rej)
	}
	if e, ok := w.b.last(EventRejected); !ok || e.Status != int(wire.RejTimeout) {
		w.fatal("events %+v", w.b.events)
	}
	w.checkEmpty(w.a, 0)
	w.checkEmpty(w.b, 2)
}

// A REJ counts only from the peer, and with the right ids.
func TestForgedREJ(t *testing.T) {
	w := newWorld(t, 1)
	w.a.app, w.b.app = w.polite, w.polite
	w.listen(wire.PortSpaceTCP, 1)
	id := w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	c := w.a.ids[id]
	good := wire.REJFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, Message: wire.CMMessageOther, Reason: wire.RejConsumer}
	for _, x := range []struct {
		name    string
		change  func(f *wire.REJFields, p *Path)
		counter Counter
	}{
		{"from another host", func(_ *wire.REJFields, p *Path) { p.Remote = p.Remote.Next() }, CounterWrongPeer},
		{"to another address", func(_ *wire.REJFields, p *Path) { p.Local = p.Local.Prev() }, CounterWrongPeer},
		{"other id of the peer", func(f *wire.REJFields, _ *Path) { f.LocalCommID++ }, CounterWrongPeer},
		{"a late refusal of a REQ", func(f *wire.REJFields, _ *Path) { f.LocalCommID, f.Message = 0, wire.CMMessageREQ }, CounterWrongPeer},
		{"other id of ours", func(f *wire.REJFields, _ *Path) { f.RemoteCommID++ }, CounterUnknownID},
		{"a timeout, by half a GUID", func(f *wire.REJFields, _ *Path) {
			f.RemoteCommID, f.Reason, f.Info = 0, wire.RejTimeout, make([]byte, 7)
		}, CounterUnknownID},
		{"no id of ours", func(f *wire.REJFields, _ *Path) { f.RemoteCommID = 0 }, CounterUnknownID},
	} {
		f, p := good, Path{Local: w.a.addr, Remote: w.b.addr}
		x.change(&f, &p)
		var mad wire.MAD
		mad.EncodeCM(1, wire.AttrREJ)
		wire.REJAt(mad.Data()).Encode(&f)
		before := w.a.Counters()[x.counter]
		w.a.Handle(w.now, &p, mad[:])
		if got := w.a.Counters()[x.counter] - before; got != 1 || c.state != StateEstablished {
			w.fatal("%s: %v counts %d, state %v", x.name, x.counter, got, c.state)
		}
	}
}

// An id rejected by the peer while the application thinks stays in the backlog
// until the application has seen to it.
func TestGivenUpRequestsFillTheBacklog(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 2)
	for range 5 {
		id := w.connect(wire.PortSpaceTCP)
		w.run(time.Second)
		w.check(w.a.Destroy(w.now, id))
		w.run(time.Second)
	}
	if n := w.b.count(EventConnectRequest); n != 2 || w.b.Len() != 3 {
		w.fatal("%d requests, %d ids", n, w.b.Len())
	}
	for _, e := range slices.Clone(w.b.events) {
		if e.Type == EventConnectRequest {
			w.check(w.b.Destroy(w.now, e.ID))
		}
	}
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	if n := w.b.count(EventConnectRequest); n != 3 {
		w.fatal("%d requests after two were destroyed", n)
	}
}
