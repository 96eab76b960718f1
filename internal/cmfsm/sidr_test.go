package cmfsm

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// serve accepts questions.
func (w *world) serve(h *host, e Event) {
	if e.Type == EventConnectRequest {
		w.check(h.Accept(w.now, e.ID, &ConnParam{QPN: 0x55, PrivateData: bytes.Repeat([]byte{7}, MaxSIDRREPPrivate)}))
	}
}

// A question is answered, whichever messages are lost; the application is asked
// once.
func TestSIDR(t *testing.T) {
	for k := range 6 {
		w := newWorld(t, 1)
		w.fate = func(n int, _ *MAD) []time.Duration {
			if n < k {
				return nil
			}
			return []time.Duration{linkDelay, 2 * linkDelay}
		}
		w.b.app = w.serve
		w.listen(wire.PortSpaceUDP, 1)
		id := w.create(w.a, wire.PortSpaceUDP)
		w.check(w.a.Connect(w.now, id, w.route(), &ConnParam{PrivateData: bytes.Repeat([]byte{9}, MaxSIDRREQPrivate)}))
		w.run(time.Minute)
		if names(w.a.types()) != "ESTABLISHED" || names(w.b.types()) != "CONNECT_REQUEST" {
			w.fatal("events %s and %s", names(w.a.types()), names(w.b.types()))
		}
		q, e := w.b.events[0], w.a.events[0]
		if !bytes.Equal(q.Param.PrivateData, bytes.Repeat([]byte{9}, 180)) || q.Local.String() != "10.0.0.2:7174" || q.Remote != e.Local {
			w.fatal("question %+v", q)
		}
		want := ConnParam{QPN: 0x55, QKey: DefaultQKey, PrivateData: bytes.Repeat([]byte{7}, 136)}
		if d := cmp.Diff(want, e.Param); d != "" {
			w.fatal("answer (-want +got):\n%s", d)
		}
		av := ibv.AddressVector{DGID: ibv.GIDOf(w.b.addr), FlowLabel: wire.FlowLabelFromPorts(e.Local.Port(), testPort), HopLimit: 64, Port: 1}
		if d := cmp.Diff(av, e.AV); d != "" {
			w.fatal("path (-want +got):\n%s", d)
		}
		mine, err := w.a.Info(id)
		w.check(err)
		theirs, err := w.b.Info(q.ID)
		w.check(err)
		if mine.PeerQPN != 0x55 || theirs.QPN != 0x55 || mine.State != StateSIDRDone || theirs.State != StateSIDRDone {
			w.fatal("%+v and %+v", mine, theirs)
		}
		w.check(w.a.Destroy(w.now, id))
		w.check(w.b.Destroy(w.now, q.ID))
		w.checkEmpty(w.a, 0)
		w.checkEmpty(w.b, 1)
	}
}

func TestSIDRRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		listen wire.PortSpace
		app    func(w *world) func(h *host, e Event)
		want   wire.SIDRStatus
	}{
		{"nobody listens", 0, nil, wire.SIDRUnsupported},
		{"a listener of connections", wire.PortSpaceTCP, nil, wire.SIDRUnsupported},
		{"the application says no", wire.PortSpaceUDP, func(w *world) func(*host, Event) {
			return func(h *host, e Event) { w.check(h.Reject(e.ID, 0, []byte("no"))) }
		}, wire.SIDRRejected},
		{"the application goes away", wire.PortSpaceUDP, func(w *world) func(*host, Event) {
			return func(h *host, e Event) { w.check(h.Destroy(w.now, e.ID)) }
		}, wire.SIDRRejected},
	} {
		w := newWorld(t, 1)
		if c.listen != 0 {
			w.listen(c.listen, 1)
		}
		if c.app != nil {
			w.b.app = c.app(w)
		}
		w.connect(wire.PortSpaceUDP)
		w.run(time.Second)
		e, ok := w.a.last(EventUnreachable)
		if !ok || e.Status != int(c.want) || len(w.a.events) != 1 {
			w.fatal("%s: events %+v", c.name, w.a.events)
		}
		if n := w.b.Counters()[CounterNoListener]; (n == 1) != (c.want == wire.SIDRUnsupported) {
			w.fatal("%s: %d without listener", c.name, n)
		}
	}
}

func TestSIDRUnanswered(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceUDP, 1)
	w.connect(wire.PortSpaceUDP)
	w.run(10 * time.Minute)
	// The application never decides: 16 questions, 4096 ms apart.
	e, ok := w.a.last(EventUnreachable)
	if !ok || e.Status != StatusTimedOut || w.sent != 16 || w.b.count(EventConnectRequest) != 1 {
		w.fatal("%d questions, events %+v", w.sent, w.a.events)
	}
}

// A question without addresses is dropped, as rdma_cm does.
func TestSIDRWithoutCMAHeader(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceUDP, 1)
	w.connect(wire.PortSpaceUDP)
	m, _ := w.a.NextMAD()
	wire.SIDRREQAt(m.Data.Data()).PrivateData()[0] = 1
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, m.Data[:])
	if got := answer(w, w.b); got != nil || w.b.Counters()[CounterBadMessage] != 1 {
		w.fatal("answer %v", got)
	}
	w.checkEmpty(w.b, 1)
}

func TestSIDRBacklog(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceUDP, 2)
	for range 5 {
		w.connect(wire.PortSpaceUDP)
	}
	w.run(time.Second)
	if n := w.a.count(EventUnreachable); n != 3 || w.b.count(EventConnectRequest) != 2 || w.a.events[0].Status != int(wire.SIDRNoQP) {
		w.fatal("%d refused: %+v", n, w.a.events)
	}
}

// A sender that begins anew with its request ids is not told the old answer.
func TestSIDRRequestIDUsedAgain(t *testing.T) {
	w := newWorld(t, 1)
	var req *MAD
	w.fate = func(_ int, m *MAD) []time.Duration {
		if m.Data.Attr() == wire.AttrSIDRREQ {
			c := *m
			req = &c
		}
		return []time.Duration{linkDelay}
	}
	w.b.app = w.serve
	w.listen(wire.PortSpaceUDP, 2)
	w.connect(wire.PortSpaceUDP)
	w.run(time.Second)
	req.Data.SetTID(req.Data.TID() + 1)
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, req.Data[:])
	w.drain()
	if w.b.count(EventConnectRequest) != 2 {
		w.fatal("events %s", names(w.b.types()))
	}
	// The end of the first does not make the second forgotten.
	w.check(w.b.Destroy(w.now, w.b.events[0].ID))
	w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, req.Data[:])
	w.drain()
	if w.b.count(EventConnectRequest) != 2 || w.b.Counters()[CounterDuplicates] != 1 {
		w.fatal("events %s", names(w.b.types()))
	}
	w.b.dropOwner(w.now, 1)
	w.checkEmpty(w.b, 0)
}

func TestForgedSIDRREP(t *testing.T) {
	w := newWorld(t, 1)
	id := w.connect(wire.PortSpaceUDP)
	rcID := w.connect(wire.PortSpaceTCP)
	c, rc := w.a.ids[id], w.a.ids[rcID]
	for _, x := range []struct {
		name    string
		request uint32
		remote  string
		counter Counter
	}{
		{"unknown", c.commID + 1, "10.0.0.2", CounterUnknownID},
		{"from another host", c.commID, "10.0.0.3", CounterWrongPeer},
		{"for a connection", rc.commID, "10.0.0.2", CounterWrongState},
	} {
		var mad wire.MAD
		mad.EncodeCM(1, wire.AttrSIDRREP)
		wire.SIDRREPAt(mad.Data()).Encode(&wire.SIDRREPFields{RequestID: x.request, QPN: 9})
		other := newHost(t, "x", x.remote, 1, Config{})
		w.a.Handle(w.now, &Path{Local: w.a.addr, Remote: other.addr}, mad[:])
		if w.a.Counters()[x.counter] != 1 || c.state != StateSIDRREQSent {
			w.fatal("%s: %v is %d, state %v", x.name, x.counter, w.a.Counters()[x.counter], c.state)
		}
	}
}

func TestSIDRAcceptRefuses(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceUDP, 1)
	w.connect(wire.PortSpaceUDP)
	w.run(time.Second)
	id := w.b.events[0].ID
	wantErr(t, "no queue pair", w.b.Accept(w.now, id, nil), ErrInvalid)
	wantErr(t, "137 bytes", w.b.Accept(w.now, id, &ConnParam{QPN: 2, PrivateData: make([]byte, 137)}), ErrPrivateData)
	wantErr(t, "reject with 137 bytes", w.b.Reject(id, 0, make([]byte, 137)), ErrPrivateData)
	wantErr(t, "good", w.b.Accept(w.now, id, &ConnParam{QPN: 2, QKey: 0x1111}), nil)
	w.run(time.Second)
	if e, _ := w.a.last(EventEstablished); e.Param.QKey != 0x1111 || e.Param.QPN != 2 {
		w.fatal("answer %+v", e.Param)
	}
	over := w.create(w.a, wire.PortSpaceUDP)
	wantErr(t, "181 bytes", w.a.Connect(w.now, over, w.route(), &ConnParam{PrivateData: make([]byte, 181)}), ErrPrivateData)
}
