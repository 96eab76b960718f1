package cmfsm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// takeREQ is the REQ that a connection of w.a begins with, and its path as w.b
// sees it.
func takeREQ(w *world) (*wire.MAD, *Path) {
	w.t.Helper()
	w.connect(wire.PortSpaceTCP)
	m, ok := w.a.NextMAD()
	if !ok || m.Data.Attr() != wire.AttrREQ {
		w.fatal("no REQ")
	}
	return &m.Data, &Path{Local: m.Remote, Remote: m.Local, HopLimit: 64}
}

// answer is the only MAD that h has to send, nil if there is none.
func answer(w *world, h *host) *MAD {
	w.t.Helper()
	m, ok := h.NextMAD()
	if !ok {
		return nil
	}
	if extra, ok := h.NextMAD(); ok {
		w.fatal("%v and %v sent", m.Data.Attr(), extra.Data.Attr())
	}
	return &m
}

// wantREJ fails unless the answer is a REJ as those for a REQ without id are.
func wantREJ(w *world, m *MAD, req *wire.MAD, why wire.RejReason) {
	w.t.Helper()
	if m == nil || m.Data.Attr() != wire.AttrREJ {
		w.fatal("answer %v, want REJ", m)
	}
	rej := wire.REJAt(m.Data.Data())
	if rej.Reason() != why || rej.LocalCommID() != 0 || rej.Message() != wire.CMMessageREQ ||
		rej.RemoteCommID() != wire.REQAt(req.Data()).LocalCommID() || m.Data.TID() != req.TID() {
		w.fatal("REJ %+v, want reason %d", rej.Fields(), why)
	}
}

func TestREQChecks(t *testing.T) {
	const none = wire.RejReason(0)
	for _, c := range []struct {
		name    string
		change  func(w *world, m *wire.MAD, req *wire.REQ, from *Path)
		why     wire.RejReason // REJ, or none
		counter Counter
	}{
		{"no listener", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetServiceID(wire.ServiceIDOf(wire.PortSpaceTCP, testPort+1))
		}, wire.RejInvalidServiceID, CounterNoListener},
		{"other port space", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetServiceID(wire.ServiceIDOf(wire.PortSpaceUDP, testPort))
		}, wire.RejInvalidServiceID, CounterNoListener},
		{"service id of no port", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetServiceID(req.ServiceID() | 1<<48)
		}, wire.RejInvalidServiceID, CounterNoListener},
		{"UC to a listener of RC", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetTransportType(wire.TransportUC)
		}, wire.RejInvalidTransportType, numCounters},
		{"XRC", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetTransportType(wire.TransportExtended)
			req.SetExtendedTransport(1)
		}, wire.RejInvalidTransportType, numCounters},
		{"GID of the receiver is another's", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.Primary().SetRemoteGID(ibv.GIDOf(netip.MustParseAddr("10.0.0.9")))
		}, wire.RejInvalidGID, numCounters},
		{"GID of the sender is another's", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.Primary().SetLocalGID(ibv.GIDOf(netip.MustParseAddr("10.0.0.9")))
		}, wire.RejInvalidGID, numCounters},
		{"path MTU larger than the port's", func(w *world, _ *wire.MAD, _ *wire.REQ, _ *Path) {
			w.b.SetMTU(ibv.MTU512)
		}, wire.RejInvalidMTU, numCounters},
		{"no path MTU", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetPathMTU(0)
		}, wire.RejInvalidMTU, numCounters},
		{"path MTU that does not exist", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetPathMTU(6)
		}, wire.RejInvalidMTU, numCounters},
		{"QP1 as queue pair", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetLocalQPN(1)
		}, wire.RejUnsupported, numCounters},
		{"version of the CMA header", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.PrivateData()[0] = 1
		}, none, CounterBadMessage},
		{"IP version of the CMA header", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.PrivateData()[1] = 0x50
		}, none, CounterBadMessage},
		{"communication id 0", func(_ *world, _ *wire.MAD, req *wire.REQ, _ *Path) {
			req.SetLocalCommID(0)
		}, none, CounterBadMessage},
		{"base version", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m[0] = 2 }, none, CounterBadHeader},
		{"class", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m[1] = 4 }, none, CounterBadHeader},
		{"class version", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m[2] = 1 }, none, CounterBadHeader},
		{"method", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m[3] = 0x01 }, none, CounterBadHeader},
		{"response bit", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m[3] = 0x83 }, none, CounterBadHeader},
		{"ClassPortInfo", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m.SetAttr(wire.AttrClassPortInfo) }, none, CounterBadAttr},
		{"attribute", func(_ *world, m *wire.MAD, _ *wire.REQ, _ *Path) { m.SetAttr(0x1B) }, none, CounterBadAttr},
		{"from a multicast address", func(_ *world, _ *wire.MAD, _ *wire.REQ, from *Path) {
			from.Remote = netip.MustParseAddr("239.1.1.1")
		}, none, CounterBadAddress},
		{"from nowhere", func(_ *world, _ *wire.MAD, _ *wire.REQ, from *Path) { from.Remote = netip.Addr{} }, none, CounterBadAddress},
		{"between families", func(_ *world, _ *wire.MAD, _ *wire.REQ, from *Path) {
			from.Remote = netip.MustParseAddr("fd00::1")
		}, none, CounterBadAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.listen(wire.PortSpaceTCP, 1)
			m, from := takeREQ(w)
			c.change(w, m, wire.REQAt(m.Data()), from)
			w.b.Handle(w.now, from, m[:])
			if got := answer(w, w.b); c.why != none {
				wantREJ(w, got, m, c.why)
			} else if got != nil {
				w.fatal("answered with %v", got.Data.Attr())
			}
			if c.counter != numCounters && w.b.Counters()[c.counter] != 1 {
				w.fatal("%v is %d, want 1", c.counter, w.b.Counters()[c.counter])
			}
			if e, ok := w.b.NextEvent(); ok {
				w.fatal("event %v", e.Type)
			}
			w.checkEmpty(w.b, 1)
		})
	}
}

func TestREQOfWrongLength(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	m, from := takeREQ(w)
	for n := range len(m) {
		w.b.Handle(w.now, from, m[:n])
	}
	w.b.Handle(w.now, from, append(m[:], 0))
	if got := w.b.Counters()[CounterBadLength]; got != wire.MADLen+1 {
		w.fatal("%d of wrong length", got)
	}
	w.checkEmpty(w.b, 1)
}

// A REJ for the addresses says which one would have been right.
func TestInvalidGIDNamesOurs(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	m, from := takeREQ(w)
	wire.REQAt(m.Data()).Primary().SetRemoteGID(ibv.GID{1})
	w.b.Handle(w.now, from, m[:])
	want := ibv.GIDOf(w.b.addr)
	if info := wire.REJAt(answer(w, w.b).Data.Data()).Info(); ibv.GID(info) != want {
		w.fatal("information % x", info)
	}
}

// A request that comes again while the application thinks is answered with an
// MRA that gives the initiator a minute, again and again.
func TestREQRepeatedWhileUndecided(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	m, from := takeREQ(w)
	w.b.Handle(w.now, from, m[:])
	if answer(w, w.b) != nil {
		w.fatal("a first REQ is answered")
	}
	for range 3 {
		w.b.Handle(w.now, from, m[:])
		mra := answer(w, w.b)
		if mra == nil || mra.Data.Attr() != wire.AttrMRA || mra.Data.TID() != m.TID() {
			w.fatal("answer %v, want MRA", mra)
		}
		f := wire.MRAAt(mra.Data.Data()).Fields()
		if f.LocalCommID == 0 || f.RemoteCommID != wire.REQAt(m.Data()).LocalCommID() || f.Message != wire.CMMessageREQ || f.ServiceTimeout != 24 {
			w.fatal("MRA %+v", f)
		}
	}
	w.drain()
	if names(w.b.types()) != "CONNECT_REQUEST" {
		w.fatal("events %s", names(w.b.types()))
	}
}

// The initiator of an application that thinks for ten minutes repeats its REQ
// about once a minute, and is served.
func TestSlowApplication(t *testing.T) {
	w := newWorld(t, 1)
	w.a.app = w.polite
	w.listen(wire.PortSpaceTCP, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(10 * time.Minute)
	if n := w.a.Counters()[CounterTxREQ]; n < 9 || n > 12 {
		w.fatal("%d REQs in ten minutes", n)
	}
	req, _ := w.b.last(EventConnectRequest)
	p := passiveParam
	w.check(w.b.Accept(w.now, req.ID, &p))
	w.run(time.Second)
	if w.a.count(EventEstablished) != 1 || w.b.count(EventEstablished) != 1 {
		w.fatal("not established")
	}
}

// The same communication id for another request is the initiator's mistake.
func TestREQWithUsedCommID(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 3)
	m, from := takeREQ(w)
	w.b.Handle(w.now, from, m[:])
	other := *m
	other.SetTID(m.TID() + 1)
	wire.REQAt(other.Data()).SetLocalQPN(0x77)
	w.b.Handle(w.now, from, other[:])
	wantREJ(w, answer(w, w.b), &other, wire.RejDuplicateLocalCommID)
	// Of another host it is another id.
	elsewhere := *from
	elsewhere.Remote = netip.MustParseAddr("10.0.0.7")
	wire.REQAt(m.Data()).Primary().SetLocalGID(ibv.GIDOf(elsewhere.Remote))
	w.b.Handle(w.now, &elsewhere, m[:])
	w.drain()
	if w.b.count(EventConnectRequest) != 2 {
		w.fatal("events %s", names(w.b.types()))
	}
}

// The REQ says the traffic class of the connection; its packet may have been
// marked on the way.
func TestTrafficClassIsTheREQs(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	m, from := takeREQ(w)
	wire.REQAt(m.Data()).Primary().SetTrafficClass(0x68)
	wire.REQAt(m.Data()).Primary().SetSL(3)
	from.TrafficClass = 0x23
	w.b.Handle(w.now, from, m[:])
	w.b.Handle(w.now, from, m[:])
	if mra := answer(w, w.b); mra.TrafficClass != 0x68 || mra.SL != 3 {
		w.fatal("MRA on %+v", mra.Path)
	}
	e, _ := w.b.NextEvent()
	attr, err := w.b.QPAttr(e.ID, nil)
	w.check(err)
	if attr.AV.TrafficClass != 0x68 || attr.AV.SL != 3 {
		w.fatal("queue pair's path %+v", attr.AV)
	}
	// An answer without connection has the packet's, without its marks.
	req := wire.REQAt(m.Data())
	req.SetLocalCommID(req.LocalCommID() + 1)
	req.SetLocalQPN(0x99)
	w.b.Handle(w.now, from, m[:])
	if rej := answer(w, w.b); rej.TrafficClass != 0x20 || rej.HopLimit != 64 || rej.Local != w.b.addr || rej.Remote != w.a.addr {
		w.fatal("REJ on %+v", rej.Path)
	}
}

func TestAcceptLimits(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 1)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Millisecond)
	req, _ := w.b.last(EventConnectRequest)
	for _, c := range []struct {
		name string
		p    *ConnParam
		want error
	}{
		{"no parameters", nil, ErrInvalid},
		{"no queue pair", &ConnParam{}, ErrInvalid},
		{"QPN of 25 bits", &ConnParam{QPN: 1 << 24}, ErrInvalid},
		{"more responder resources than the device", &ConnParam{QPN: 2, ResponderResources: 129}, ErrInvalid},
		{"deeper than the device", &ConnParam{QPN: 2, InitiatorDepth: 200}, ErrInvalid},
		{"197 bytes of private data", &ConnParam{QPN: 2, PrivateData: make([]byte, 197)}, ErrPrivateData},
		{"196 bytes of private data", &ConnParam{QPN: 2, PrivateData: make([]byte, 196)}, nil},
		{"twice", &ConnParam{QPN: 2}, ErrState},
	} {
		wantErr(t, c.name, w.b.Accept(w.now, req.ID, c.p), c.want)
	}
}
