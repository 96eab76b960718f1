package cm_test

import (
	"context"
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// mute is a device whose connected queue pairs find no way to their peer, for as long as
// they are asked to look for it.
type mute struct {
	verbs.Provider
	asked chan struct{}
}

// muted puts a mute in front of a device.
func muted(t *testing.T, dev *verbs.Context) (m *mute, in *verbs.Context) {
	t.Helper()
	m = &mute{dev.Provider(), make(chan struct{}, 8)}
	in = verbs.NewContext(m)
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, in
}

func (m *mute) CreateQP(attr *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	q, err := m.Provider.CreateQP(attr)
	return &muteQP{q, m}, err
}

type muteQP struct {
	verbs.ProviderQP
	m *mute
}

func (q *muteQP) Modify(ctx context.Context, attr *verbs.QPAttr, mask verbs.AttrMask) error {
	if mask&verbs.AttrAV == 0 {
		return q.ProviderQP.Modify(ctx, attr, mask)
	}
	q.m.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// TestHurry: who connects a queue pair whose peer is not found any more waits no longer than
// it is told to. Were the wait one of its own, it would end as one that took too long.
func TestHurry(t *testing.T) {
	defer cm.SetResolveTime(patience)()
	t.Run("dial", func(t *testing.T) {
		a, b := devices(t)
		l := listen(t, b, ":7471", nil)
		m, from := muted(t, a)
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(within(t)); accepted <- err }()
		ctx, cancel := context.WithCancel(within(t))
		go func() { <-m.asked; cancel() }()
		if _, err := cm.Dial(ctx, from, "192.0.2.2:7471", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("dial: %v", err)
		}
		if err := <-accepted; !errors.Is(err, cm.ErrRejected) {
			t.Errorf("its peer: %v", err)
		}
	})
	t.Run("accept", func(t *testing.T) {
		a, b := devices(t)
		m, at := muted(t, b)
		l := listen(t, at, ":7471", nil)
		dialed := make(chan error, 1)
		go func() { _, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil); dialed <- err }()
		ctx, cancel := context.WithCancel(within(t))
		go func() { <-m.asked; cancel() }()
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("accept: %v", err)
		}
		if err := <-dialed; !errors.Is(err, cm.ErrRejected) {
			t.Errorf("its peer: %v", err)
		}
	})
	t.Run("id that accepts", func(t *testing.T) {
		a, b := devices(t)
		m, at := muted(t, b)
		s := newStation(t, at)
		listener := s.id(cm.PortSpaceTCP)
		s.ok(listener.BindAddr(addrPort("192.0.2.2:7471")))
		s.ok(listener.Listen(0))
		dialed := make(chan error, 1)
		go func() { _, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil); dialed <- err }()
		passive := s.next(cm.EventConnectRequest).ID
		s.qp(passive)
		destroyed := make(chan error, 1)
		go func() { <-m.asked; destroyed <- passive.Destroy() }()
		if err := passive.Accept(nil); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if err := errors.Join(<-destroyed, passive.Destroy()); err != nil {
			t.Error(err)
		}
		if err := <-dialed; !errors.Is(err, cm.ErrRejected) {
			t.Errorf("its peer: %v", err)
		}
	})
	t.Run("id that is accepted", func(t *testing.T) {
		a, b := devices(t)
		l := listen(t, b, ":7471", nil)
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(within(t)); accepted <- err }()
		service := newStation(t, b)
		listener := service.id(cm.PortSpaceUDP)
		service.ok(listener.BindAddr(addrPort("192.0.2.2:7472")))
		service.ok(listener.Listen(0))

		m, from := muted(t, a)
		s := newStation(t, from)
		waits, other := s.routed(cm.PortSpaceTCP, "192.0.2.2:7471"), s.routed(cm.PortSpaceUDP, "192.0.2.2:7472")
		s.qp(waits)
		s.ok(waits.Connect(nil))
		<-m.asked
		s.ok(other.Connect(nil)) // which it does not hold up
		asked := service.next(cm.EventConnectRequest).ID
		service.qp(asked)
		service.ok(asked.Accept(nil))
		if e := s.next(cm.EventEstablished); e.ID != other {
			t.Error("another id's event")
		}
		s.ok(waits.Destroy())
		if err := <-accepted; !errors.Is(err, cm.ErrRejected) {
			t.Errorf("its peer: %v", err)
		}
	})
}
