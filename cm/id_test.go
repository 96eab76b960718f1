package cm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// station is a channel on a device, and what its ids use.
type station struct {
	t   testing.TB
	dev *verbs.Context
	ch  *cm.EventChannel
	pd  *verbs.PD
	cq  *verbs.CQ
}

func newStation(t testing.TB, dev *verbs.Context) *station {
	t.Helper()
	s := &station{t: t, dev: dev, ch: cm.NewEventChannel(dev)}
	var err error
	if s.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if s.cq, err = dev.CreateCQ(256); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.ch.Close(), s.cq.Destroy(), s.pd.Dealloc()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// link is two devices that are joined: in memory, or on two hosts.
type link func(t *testing.T) (a, b *verbs.Context)

func inMemory(t *testing.T) (a, b *verbs.Context) { return devices(t) }

// stations are two of them, and a listening id at the second.
func stations(t *testing.T, join link, ps cm.PortSpace) (a, b *station, l *cm.ID) {
	t.Helper()
	da, db := join(t)
	a, b = newStation(t, da), newStation(t, db)
	l = b.id(ps)
	b.ok(l.BindAddr(addrPort("192.0.2.2:7471")))
	b.ok(l.Listen(0))
	return a, b, l
}

func (s *station) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *station) id(ps cm.PortSpace) *cm.ID {
	s.t.Helper()
	id, err := s.ch.CreateID(ps)
	s.ok(err)
	return id
}

func (s *station) qp(id *cm.ID) {
	s.t.Helper()
	s.ok(id.CreateQP(s.pd, &verbs.QPInitAttr{SendCQ: s.cq, RecvCQ: s.cq}))
}

// next is the next event, which must be of a type.
func (s *station) next(want cm.EventType) *cm.Event {
	s.t.Helper()
	e, err := s.ch.Next(within(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	if e.Type != want {
		s.t.Fatalf("event %v, want %v", e, want)
	}
	return e
}

// routed is an id that has a route to a peer.
func (s *station) routed(ps cm.PortSpace, to string) *cm.ID {
	s.t.Helper()
	id := s.id(ps)
	s.ok(id.ResolveAddr(netip.AddrPort{}, addrPort(to), time.Minute))
	if e := s.next(cm.EventAddrResolved); e.ID != id || id.Device() != s.dev {
		s.t.Fatal("another id's event")
	}
	s.ok(id.ResolveRoute(time.Minute))
	s.next(cm.EventRouteResolved)
	return id
}

// TestIDs goes through the life of a connection whose queue pairs the ids have.
func TestIDs(t *testing.T) { life(t, inMemory) }

func life(t *testing.T, join link) {
	a, b, l := stations(t, join, cm.PortSpaceTCP)
	active := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
	a.ok(active.SetOption(cm.OptionAckTimeout, 8))
	a.qp(active)
	a.ok(active.Connect(&cm.ConnParam{PrivateData: counting(56), ResponderResources: 2, InitiatorDepth: 3, RetryCount: 7, RNRRetryCount: 7}))

	e := b.next(cm.EventConnectRequest)
	passive := e.ID
	if e.Listener != l || e.Param.ResponderResources != 3 || e.Param.InitiatorDepth != 2 || e.Param.QPN != active.QP().Num() || !bytes.Equal(e.Param.PrivateData, counting(56)) {
		t.Errorf("request %+v", e.Param)
	}
	if passive.RemoteAddr() != active.LocalAddr() || passive.LocalAddr() != addrPort("192.0.2.2:7471") || passive.PortSpace() != cm.PortSpaceTCP {
		t.Errorf("from %v to %v", passive.RemoteAddr(), passive.LocalAddr())
	}
	b.qp(passive)
	b.ok(passive.Accept(&cm.ConnParam{PrivateData: counting(196), ResponderResources: 3, InitiatorDepth: 2, RNRRetryCount: 7}))
	e = a.next(cm.EventEstablished)
	if e.ID != active || !bytes.Equal(e.Param.PrivateData, counting(196)) {
		t.Errorf("answer %+v", e.Param)
	}
	b.next(cm.EventEstablished)
	for _, id := range []*cm.ID{active, passive} {
		if q, err := id.QP().Query(); err != nil || q.State != verbs.QPStateRTS {
			t.Errorf("state %v, %v", q.State, err)
		}
	}
	a.ok(active.Disconnect())
	b.next(cm.EventDisconnected)
	b.ok(passive.Disconnect())
	a.next(cm.EventDisconnected)
	a.next(cm.EventTimewaitExit)
	b.next(cm.EventTimewaitExit)
	if q, err := passive.QP().Query(); err != nil || q.State != verbs.QPStateErr {
		t.Errorf("state %v, %v", q.State, err)
	}
	b.ok(errors.Join(passive.Destroy(), passive.Destroy(), l.Destroy()))
}

// TestOwnQueuePairs connects queue pairs that the program modifies itself, and says that a
// packet has come before the last message.
func TestOwnQueuePairs(t *testing.T) { ownQueuePairs(t, inMemory) }

func ownQueuePairs(t *testing.T, join link) {
	a, b, _ := stations(t, join, cm.PortSpaceTCP)
	make := func(s *station) *verbs.QP {
		q, err := s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
		s.ok(err)
		t.Cleanup(func() { _ = q.Destroy() })
		return q
	}
	step := func(s *station, id *cm.ID, q *verbs.QP, p *cm.ConnParam, states ...verbs.QPState) {
		for _, state := range states {
			attr, mask, err := id.InitQPAttr(state, p)
			s.ok(err)
			s.ok(q.Modify(&attr, mask))
		}
	}
	qa, qb := make(a), make(b)
	active := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
	step(a, active, qa, nil, verbs.QPStateInit)
	a.ok(active.Connect(&cm.ConnParam{QPN: qa.Num(), RetryCount: 7, RNRRetryCount: 7}))
	passive := b.next(cm.EventConnectRequest).ID
	p := &cm.ConnParam{QPN: qb.Num(), ResponderResources: cm.MaxResources}
	step(b, passive, qb, p, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS)
	b.ok(passive.Accept(p))
	e := a.next(cm.EventConnectResponse)
	if e.Param.QPN != qb.Num() {
		t.Errorf("response %+v", e.Param)
	}
	b.ok(passive.Notify(verbs.EventCommEst))
	b.next(cm.EventEstablished)
	step(a, active, qa, nil, verbs.QPStateRTR, verbs.QPStateRTS)
	a.ok(active.Establish())
	a.next(cm.EventEstablished)
	for _, q := range []*verbs.QP{qa, qb} {
		if attr, err := q.Query(); err != nil || attr.State != verbs.QPStateRTS {
			t.Errorf("state %v, %v", attr.State, err)
		}
	}
	if err := passive.Notify(verbs.EventQPFatal); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("notify of another event: %v", err)
	}
}

// TestIDFailures: what goes wrong comes as an event that says what.
func TestIDFailures(t *testing.T) {
	a, b, _ := stations(t, inMemory, cm.PortSpaceTCP)
	t.Run("no route", func(t *testing.T) {
		id := a.id(cm.PortSpaceTCP)
		a.ok(id.ResolveAddr(netip.AddrPort{}, addrPort("198.51.100.1:1"), time.Minute))
		if e := a.next(cm.EventAddrError); !errors.Is(e.Err, verbs.ErrNoRoute) {
			t.Error(e)
		}
	})
	t.Run("no listener", func(t *testing.T) {
		id := a.routed(cm.PortSpaceTCP, "192.0.2.2:1")
		a.qp(id)
		a.ok(id.Connect(nil))
		if e := a.next(cm.EventRejected); !errors.Is(e.Err, cm.ErrNoListener) || e.Status != 8 {
			t.Error(e)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		id := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
		a.qp(id)
		a.ok(id.Connect(nil))
		b.ok(b.next(cm.EventConnectRequest).ID.Reject(counting(148)))
		if e := a.next(cm.EventRejected); !errors.Is(e.Err, cm.ErrRejected) || e.Status != 28 || !bytes.Equal(e.Param.PrivateData, counting(148)) {
			t.Error(e)
		}
	})
	t.Run("destroyed while asked", func(t *testing.T) {
		id := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
		a.qp(id)
		a.ok(id.Connect(nil))
		b.ok(b.next(cm.EventConnectRequest).ID.Destroy())
		a.next(cm.EventRejected)
	})
	t.Run("another port space", func(t *testing.T) {
		id := a.routed(cm.PortSpaceUDP, "192.0.2.2:7471")
		a.ok(id.Connect(nil))
		if e := a.next(cm.EventUnreachable); !errors.Is(e.Err, cm.ErrNoListener) || e.Status != 1 {
			t.Error(e)
		}
	})
}

// TestIDStates: calls out of order, and bad arguments.
func TestIDStates(t *testing.T) {
	a, b, l := stations(t, inMemory, cm.PortSpaceTCP)
	id := a.id(cm.PortSpaceTCP)
	routed := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
	dst := addrPort("192.0.2.2:1")
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"connect without address", id.Connect(nil), cm.ErrState},
		{"listen without address", id.Listen(0), cm.ErrState},
		{"queue pair without device", id.CreateQP(a.pd, &verbs.QPInitAttr{}), cm.ErrState},
		{"route without address", id.ResolveRoute(time.Second), cm.ErrState},
		{"accept of nothing", routed.Accept(&cm.ConnParam{QPN: 5}), cm.ErrState},
		{"establish nothing", routed.Establish(), cm.ErrState},
		{"disconnect nothing", routed.Disconnect(), cm.ErrState},
		{"reject nothing", routed.Reject(nil), cm.ErrState},
		{"resolve twice", routed.ResolveAddr(netip.AddrPort{}, dst, time.Second), cm.ErrState},
		{"bind after resolve", routed.BindAddr(addrPort("192.0.2.1:1")), cm.ErrState},
		{"connect without queue pair", routed.Connect(nil), nil},
		{"no timeout", id.ResolveAddr(netip.AddrPort{}, dst, 0), verbs.ErrInvalid},
		{"no destination", id.ResolveAddr(netip.AddrPort{}, netip.AddrPort{}, time.Second), verbs.ErrInvalid},
		{"not ours", id.BindAddr(dst), cm.ErrNoSource},
		{"type", routed.CreateQP(a.pd, &verbs.QPInitAttr{Type: verbs.UD, SendCQ: a.cq, RecvCQ: a.cq}), verbs.ErrInvalid},
		{"PD of another device", routed.CreateQP(b.pd, &verbs.QPInitAttr{SendCQ: b.cq, RecvCQ: b.cq}), verbs.ErrInvalid},
		{"group of RC", routed.JoinMulticast(netip.MustParseAddr("239.1.1.1")), verbs.ErrInvalid},
		{"option", id.SetOption(cm.OptionTOS, 256), verbs.ErrInvalid},
		{"unknown option", id.SetOption(99, 0), verbs.ErrInvalid},
		{"option of a listener", l.SetOption(cm.OptionTOS, 1), cm.ErrState},
	} {
		if tt.err == nil || tt.want != nil && !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	if _, err := a.ch.CreateID(1); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("port space 1: %v", err)
	}
	if err := id.Destroy(); err != nil {
		t.Error(err)
	}
	if err := id.BindAddr(addrPort("192.0.2.1:1")); err == nil {
		t.Error("a destroyed id was bound")
	}
	if err := a.ch.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.ch.CreateID(cm.PortSpaceTCP); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("id of a closed channel: %v", err)
	}
	if _, err := a.ch.Next(context.Background()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("event of a closed channel: %v", err)
	}
}

// TestListenEverywhere listens on two devices with one id, and moves the id of a
// request to another channel.
func TestListenEverywhere(t *testing.T) { listenEverywhere(t, inMemory) }

func listenEverywhere(t *testing.T, join link) {
	da, db := join(t)
	both := cm.NewEventChannel(da, db)
	a := newStation(t, da)
	server, other := &station{t: t, ch: both}, &station{t: t, ch: cm.NewEventChannel(da, db)}
	t.Cleanup(func() { a.ok(errors.Join(both.Close(), other.ch.Close())) })
	l := server.id(cm.PortSpaceTCP)
	a.ok(l.SetOption(cm.OptionReuseAddr, 1))
	a.ok(l.BindAddr(addrPort("[::]:0")))
	a.ok(l.Listen(4))
	port := l.LocalAddr().Port()
	for _, to := range []netip.Addr{datapathtest.IPv4[0], datapathtest.IPv6[1]} {
		id := a.routed(cm.PortSpaceTCP, netip.AddrPortFrom(to, port).String())
		a.qp(id)
		a.ok(id.Connect(nil))
		e := server.next(cm.EventConnectRequest)
		if e.ID.LocalAddr() != netip.AddrPortFrom(to, port) {
			t.Errorf("request to %v", e.ID.LocalAddr())
		}
		a.ok(e.ID.Migrate(other.ch))
		a.ok(id.Destroy())
		if e2 := other.next(cm.EventRejected); e2.ID != e.ID || e2.Status != 4 {
			t.Errorf("%v on the other channel", e2)
		}
	}
}

// TestRemoval: ids learn that their device is gone.
func TestRemoval(t *testing.T) {
	a, b, l := stations(t, inMemory, cm.PortSpaceTCP)
	id := a.routed(cm.PortSpaceTCP, "192.0.2.2:7471")
	a.ok(b.dev.Close())
	if e := b.next(cm.EventDeviceRemoval); e.ID != l || !errors.Is(e.Err, cm.ErrRemoved) {
		t.Error(e)
	}
	if err := l.Listen(0); err == nil {
		t.Error("listening on a device that is gone")
	}
	a.ok(id.Destroy())
}
