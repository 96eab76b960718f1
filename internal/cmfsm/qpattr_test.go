package cmfsm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// attrs are the attributes of both queue pairs of a new connection.
func attrs(w *world) (active, passive QPAttr) {
	w.t.Helper()
	a, b := established(w)
	active, err := w.a.QPAttr(a, nil)
	w.check(err)
	passive, err = w.b.QPAttr(b, nil)
	w.check(err)
	return active, passive
}

// The whole of both queue pairs, over IPv4.
func TestQPAttr(t *testing.T) {
	w := newWorld(t, 1)
	a, b := attrs(w)
	port := w.a.events[0].Local.Port()
	av := ibv.AddressVector{FlowLabel: wire.FlowLabelFromPorts(port, testPort), HopLimit: 64, Port: 1}
	access := ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic
	wantA := QPAttr{LocalGID: ibv.GIDOf(w.a.addr), QPAttr: ibv.QPAttr{
		PathMTU: ibv.MTU1024, DestQPN: 0x22, RQPSN: a.RQPSN, SQPSN: a.SQPSN, AccessFlags: access, AV: av, Port: 1,
		MaxRDAtomic: 4, MaxDestRDAtomic: 2, Timeout: 17, RetryCnt: 5, RNRRetry: 7,
	}}
	wantA.AV.DGID = ibv.GIDOf(w.b.addr)
	wantB := QPAttr{LocalGID: ibv.GIDOf(w.b.addr), QPAttr: ibv.QPAttr{
		PathMTU: ibv.MTU1024, DestQPN: 0x11, RQPSN: a.SQPSN, SQPSN: a.RQPSN, AccessFlags: access, AV: av, Port: 1,
		MaxRDAtomic: 2, MaxDestRDAtomic: 4, Timeout: 17, RetryCnt: 5, RNRRetry: 6,
	}}
	wantB.AV.DGID = ibv.GIDOf(w.a.addr)
	if d := cmp.Diff(wantA, a); d != "" {
		t.Errorf("active (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantB, b); d != "" {
		t.Errorf("passive (-want +got):\n%s", d)
	}
	if a.RQPSN == a.SQPSN || a.RQPSN > 0xFFFFFF || a.SQPSN > 0xFFFFFF {
		t.Errorf("PSNs %#x and %#x", a.RQPSN, a.SQPSN)
	}
	req, resp := w.b.events[0].Param, w.a.events[0].Param
	req.PrivateData, resp.PrivateData = nil, nil
	if d := cmp.Diff(ConnParam{ResponderResources: 4, InitiatorDepth: 3, RetryCount: 5, RNRRetryCount: 6, QPN: 0x11}, req); d != "" {
		t.Errorf("CONNECT_REQUEST (-want +got):\n%s", d)
	}
	if d := cmp.Diff(ConnParam{ResponderResources: 2, InitiatorDepth: 4, RetryCount: 5, RNRRetryCount: 7, QPN: 0x22}, resp); d != "" {
		t.Errorf("CONNECT_RESPONSE (-want +got):\n%s", d)
	}
}

// Private data arrives whole, padded with zeros, behind the CMA header.
func TestPrivateData(t *testing.T) {
	w := newWorld(t, 1)
	attrs(w)
	req, resp := w.b.events[0].Param.PrivateData, w.a.events[0].Param.PrivateData
	if len(req) != 56 || len(resp) != 196 || string(req[:6]) != "hello\x00" || string(resp[:8]) != "welcome\x00" {
		w.fatal("private data %q and %q", req, resp)
	}
}

// Over IPv6 the flow label is the destination's, or comes from the ports where
// that has none, and link-local addresses lose their zone.
func TestQPAttrIPv6(t *testing.T) {
	for _, c := range []struct {
		a, b, zone string
		label      uint32
	}{{"fd00::1", "fd00::2", "", 0x12345}, {"fe80::1", "fe80::2", "%eth0", 0}} {
		w := newWorldOf(t, 1, c.a, c.b)
		w.a.app, w.b.app = w.polite, w.polite
		w.listen(wire.PortSpaceTCP, 1)
		id := w.create(w.a, wire.PortSpaceTCP)
		w.check(w.a.SetOptions(id, Options{TOS: 0x68}))
		r := w.route()
		r.FlowLabel, r.HopLimit, r.SL = c.label, 1, 3
		r.Local = netip.AddrPortFrom(netip.MustParseAddr(c.a+c.zone), 0)
		r.Remote = netip.AddrPortFrom(netip.MustParseAddr(c.b+c.zone), testPort)
		var seen []MAD
		w.fate = func(_ int, m *MAD) []time.Duration {
			seen = append(seen, *m)
			return []time.Duration{linkDelay}
		}
		p := activeParam
		w.check(w.a.Connect(w.now, id, r, &p))
		w.run(time.Second)
		a, err := w.a.QPAttr(id, nil)
		w.check(err)
		req, _ := w.b.last(EventConnectRequest)
		b, err := w.b.QPAttr(req.ID, nil)
		w.check(err)
		if c.label == 0 {
			c.label = wire.FlowLabelFromPorts(req.Remote.Port(), testPort)
		}
		want := ibv.AddressVector{DGID: ibv.GIDOf(w.b.addr), FlowLabel: c.label, HopLimit: 1, TrafficClass: 0x68, SL: 3, Port: 1}
		if d := cmp.Diff(want, a.AV); d != "" {
			t.Errorf("active path (-want +got):\n%s", d)
		}
		// The way back is the passive side's own.
		want.DGID, want.HopLimit = ibv.GIDOf(w.a.addr), 64
		if d := cmp.Diff(want, b.AV); d != "" {
			t.Errorf("passive path (-want +got):\n%s", d)
		}
		if req.Local.String() != "["+c.b+"]:7174" || req.Remote.Addr().String() != c.a {
			t.Errorf("between %v and %v", req.Local, req.Remote)
		}
		path := wire.REQAt(seen[0].Data.Data()).Primary().Fields()
		if path.LocalLID != 0 || path.RemoteLID != 0 || !path.SubnetLocal || path.HopLimit != 1 {
			t.Errorf("path of one hop %+v", path)
		}
		for _, m := range seen {
			if m.FlowLabel != c.label || m.TrafficClass != 0x68 {
				t.Errorf("%v on the path %+v", m.Data.Attr(), m.Path)
			}
		}
	}
}

func TestNegotiation(t *testing.T) {
	// READs and atomics: what each end offers, and what its queue pair then has.
	type end struct{ responder, initiator uint8 }
	for _, c := range []struct {
		name                    string
		active, passive         end
		activeMax, passiveMax   uint8 // of the devices, both numbers
		wantActive, wantPassive end
	}{
		{"mirrored", end{3, 4}, end{4, 3}, 128, 128, end{3, 4}, end{4, 3}},
		{"less accepted", end{3, 4}, end{2, 1}, 128, 128, end{1, 2}, end{2, 1}},
		{"nothing accepted", end{3, 4}, end{0, 0}, 128, 128, end{0, 0}, end{0, 0}},
		{"more depth than served", end{3, 4}, end{4, 9}, 128, 128, end{3, 4}, end{4, 3}},
		{"more served than wanted", end{3, 4}, end{9, 3}, 128, 128, end{3, 9}, end{9, 3}},
		{"all", end{MaxResources, MaxResources}, end{MaxResources, MaxResources}, 16, 8, end{8, 8}, end{8, 8}},
		{"all, other way", end{MaxResources, MaxResources}, end{MaxResources, MaxResources}, 8, 16, end{8, 8}, end{8, 8}},
	} {
		w := newWorld(t, 1)
		w.a = newHost(t, "a", "10.0.0.1", 1, Config{MaxResponderResources: c.activeMax, MaxInitiatorDepth: c.activeMax})
		w.b = newHost(t, "b", "10.0.0.2", 1, Config{MaxResponderResources: c.passiveMax, MaxInitiatorDepth: c.passiveMax})
		w.a.app = w.polite
		p := ConnParam{QPN: 5, ResponderResources: c.passive.responder, InitiatorDepth: c.passive.initiator}
		w.b.app = func(h *host, e Event) {
			if e.Type != EventConnectRequest {
				return
			}
			before, err := h.QPAttr(e.ID, &p)
			w.check(err)
			w.check(h.Accept(w.now, e.ID, &p))
			after, err := h.QPAttr(e.ID, nil)
			w.check(err)
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("%s: attributes before and after Accept (-before +after):\n%s", c.name, d)
			}
		}
		w.listen(wire.PortSpaceTCP, 1)
		id := w.create(w.a, wire.PortSpaceTCP)
		w.check(w.a.Connect(w.now, id, w.route(), &ConnParam{QPN: 6, ResponderResources: c.active.responder, InitiatorDepth: c.active.initiator}))
		w.run(time.Second)
		a, err := w.a.QPAttr(id, nil)
		w.check(err)
		b, err := w.b.QPAttr(w.b.events[0].ID, nil)
		w.check(err)
		if got := (end{a.MaxDestRDAtomic, a.MaxRDAtomic}); got != c.wantActive {
			t.Errorf("%s: active %+v, want %+v", c.name, got, c.wantActive)
		}
		if got := (end{b.MaxDestRDAtomic, b.MaxRDAtomic}); got != c.wantPassive {
			t.Errorf("%s: passive %+v, want %+v", c.name, got, c.wantPassive)
		}
		if read := a.AccessFlags&ibv.AccessRemoteRead != 0; read != (c.wantActive.responder != 0) {
			t.Errorf("%s: access %v", c.name, a.AccessFlags)
		}
	}
}

func TestFlags(t *testing.T) {
	w := newWorld(t, 1)
	w.a.app = w.polite
	w.b.app = func(h *host, e Event) {
		if e.Type == EventConnectRequest {
			w.check(h.Accept(w.now, e.ID, &ConnParam{QPN: 5, SRQ: true, RNRRetryCount: 99}))
		}
	}
	w.listen(wire.PortSpaceTCP, 1)
	id := w.create(w.a, wire.PortSpaceTCP)
	w.check(w.a.SetOptions(id, Options{AckTimeout: 20, MinRNRTimer: 12}))
	w.check(w.a.Connect(w.now, id, w.route(), &ConnParam{QPN: 6, FlowControl: true, RetryCount: 200, RNRRetryCount: 200}))
	w.run(time.Second)
	req, resp := w.b.events[0].Param, w.a.events[0].Param
	if !req.FlowControl || req.SRQ || resp.FlowControl || !resp.SRQ || req.RetryCount != 7 || req.RNRRetryCount != 7 || resp.RNRRetryCount != 7 {
		w.fatal("request %+v, response %+v", req, resp)
	}
	a, err := w.a.QPAttr(id, nil)
	w.check(err)
	b, err := w.b.QPAttr(w.b.events[0].ID, nil)
	w.check(err)
	// The option is the timeout of this end; the other's comes from the path.
	if a.Timeout != 20 || a.MinRNRTimer != 12 || b.Timeout != 20 || b.MinRNRTimer != 0 || a.AccessFlags != ibv.AccessRemoteWrite {
		w.fatal("active %+v, passive %+v", a.QPAttr, b.QPAttr)
	}
}

// Each queue pair's timeout allows for the other's device.
func TestTimeoutOfSlowDevices(t *testing.T) {
	w := newWorld(t, 1)
	w.a = newHost(t, "a", "10.0.0.1", 1, Config{AckDelay: 18})
	w.b = newHost(t, "b", "10.0.0.2", 1, Config{AckDelay: 16})
	if a, b := attrs(w); a.Timeout != 18 || b.Timeout != 19 {
		w.fatal("timeouts %d and %d, want 18 and 19", a.Timeout, b.Timeout)
	}
}

func TestQPAttrNeedsAPeer(t *testing.T) {
	w := newWorld(t, 1)
	l := w.listen(wire.PortSpaceTCP, 1)
	_, err := w.b.QPAttr(l, nil)
	wantErr(t, "listener", err, ErrState)
	id := w.connect(wire.PortSpaceTCP)
	_, err = w.a.QPAttr(id, nil)
	wantErr(t, "before the REP", err, ErrState)
	w.run(time.Millisecond)
	_, err = w.b.QPAttr(w.b.events[0].ID, &ConnParam{ResponderResources: 200})
	wantErr(t, "more than the device has", err, ErrInvalid)
}

// The transport of an id of the IB port space is what it was created with.
func TestUC(t *testing.T) {
	w := newWorld(t, 1)
	w.a.app, w.b.app = w.polite, w.polite
	l, err := w.b.Create(1, wire.PortSpaceIB, ibv.QPTypeUC)
	w.check(err)
	_, err = w.b.Bind(l, netip.MustParseAddrPort("0.0.0.0:7174"))
	w.check(err)
	w.check(w.b.Listen(l, 1))
	id, err := w.a.Create(1, wire.PortSpaceIB, ibv.QPTypeUC)
	w.check(err)
	p := activeParam
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	w.run(time.Second)
	info, err := w.b.Info(w.b.events[0].ID)
	w.check(err)
	if w.a.count(EventEstablished) != 1 || info.Type != ibv.QPTypeUC || info.PortSpace != wire.PortSpaceIB || info.QPN != 0x22 || info.PeerQPN != 0x11 {
		w.fatal("events %s, %+v", names(w.a.types()), info)
	}
}
