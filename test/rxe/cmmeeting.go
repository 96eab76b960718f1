package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// meeting is a row of the connection manager: our device, opened for it, and a
// process of the guest.
type meeting struct {
	ctx    context.Context
	b      *bench
	family family
	port   uint16
	dial   bool // the request is ours
	dev    *verbs.Context
	guest  *cmGuest
}

// cmServer is cm.py, once a row has started it.
type cmServer struct{ stop func() error }

func (s *cmServer) close() error {
	if s.stop == nil {
		return nil
	}
	return s.stop()
}

// meet opens both ends and runs f.
func (b *bench) meet(ctx context.Context, m meeting, f func(*meeting) error) (err error) {
	m.ctx, m.b = ctx, b
	if m.guest, err = b.dialCM(ctx, m.family); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = m.guest.close() })()
	if m.dev, err = b.openDevice(); err != nil {
		return errors.Join(err, m.guest.close())
	}
	err = f(&m)
	return errors.Join(err, m.guest.close(), m.dev.Close())
}

// theirs is the guest's address, and own is ours.
func (m *meeting) theirs() string { return netip.AddrPortFrom(m.family.guest, m.port).String() }
func (m *meeting) own() string    { return netip.AddrPortFrom(m.family.ours, m.port).String() }

// contract is what both ends say when they connect.
type contract struct {
	request, answer []byte     // private data
	cfg             *cm.Config // ours; PrivateData is filled in
	guest           offer      // the guest's, its private data is filled in
}

// connect makes a connection in the row's direction, and demands at both ends the
// private data of the other.
func (m *meeting) connect(c *contract) (*cm.Conn, error) {
	if m.dial {
		return m.connectOut(c)
	}
	return m.connectIn(c)
}

// dialed is what becomes of an attempt of ours.
type dialed struct {
	conn *cm.Conn
	err  error
}

// dialing begins an attempt.
func (m *meeting) dialing(ctx context.Context, cfg *cm.Config) <-chan dialed {
	done := make(chan dialed, 1)
	go func() {
		conn, err := cm.Dial(ctx, m.dev, m.theirs(), cfg)
		done <- dialed{conn, err}
	}()
	return done
}

func (m *meeting) connectOut(c *contract) (*cm.Conn, error) {
	if err := m.guest.listen(m.family, m.port, portSpaceTCP); err != nil {
		return nil, err
	}
	c.cfg.PrivateData, c.guest.private = c.request, c.answer
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	attempt := m.dialing(ctx, c.cfg)
	err := m.acceptThere(c)
	if err != nil {
		cancel()
	}
	d := <-attempt
	if err := errors.Join(err, d.err); err != nil {
		return nil, errors.Join(err, closeConn(d.conn))
	}
	if _, err := m.guest.event("ESTABLISHED"); err != nil {
		return nil, errors.Join(err, closeConn(d.conn))
	}
	return d.conn, carries("REP", d.conn.PrivateData(), c.answer, cm.MaxAcceptPrivate)
}

// acceptThere has the guest accept a request of ours.
func (m *meeting) acceptThere(c *contract) error {
	ev, err := m.guest.event("CONNECT_REQUEST")
	if err != nil {
		return err
	}
	if err := ev.carries("REQ", c.request, cm.MaxDialPrivate); err != nil {
		return err
	}
	// What we offer for ourselves is what the guest may ask for.
	if r, d := orAll(c.cfg.ResponderResources), orAll(c.cfg.InitiatorDepth); ev.Depth != r || ev.Resources != d {
		return fmt.Errorf("the guest is offered %d READs out and %d in, want %d and %d", ev.Depth, ev.Resources, r, d)
	}
	return m.guest.accept(c.guest)
}

// orAll is how many READs and atomics a Config stands for, when there is no limit but the
// device's.
func orAll(n int) int {
	if n == 0 {
		return verbs.MaxRDAtomic
	}
	return n
}

func (m *meeting) connectIn(c *contract) (*cm.Conn, error) {
	c.cfg.PrivateData, c.guest.private = c.answer, c.request
	l, err := cm.Listen(m.dev, m.own(), c.cfg)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := m.guest.request(m.family, m.port, portSpaceTCP, c.guest); err != nil {
		return nil, err
	}
	r, err := l.Request(m.ctx)
	if err != nil {
		return nil, err
	}
	// librdmacm sends its RTU when the program asks for its next event.
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	accepted := make(chan dialed, 1)
	go func() {
		conn, err := r.Accept(ctx, c.answer)
		accepted <- dialed{conn, err}
	}()
	ev, err := m.guest.event("ESTABLISHED")
	if err != nil {
		cancel()
	}
	a := <-accepted
	if err = errors.Join(err, a.err); err == nil {
		err = errors.Join(carries("REQ", r.PrivateData(), c.request, cm.MaxDialPrivate), ev.carries("REP", c.answer, cm.MaxAcceptPrivate))
	}
	if err != nil {
		return nil, errors.Join(err, closeConn(a.conn))
	}
	return a.conn, nil
}

func closeConn(c *cm.Conn) error {
	if c == nil {
		return nil
	}
	return c.Close()
}
