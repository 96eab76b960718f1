package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Request is a request for a connection. It ends with Accept, AcceptWith or Reject, one
// of them and once.
type Request struct{ c *Conn }

// LocalAddr is the own address that was asked.
func (r *Request) LocalAddr() netip.AddrPort { return r.c.local }

// RemoteAddr is the address of the peer.
func (r *Request) RemoteAddr() netip.AddrPort { return r.c.remote }

// PrivateData are MaxDialPrivate bytes: what the peer says, and zeros after it.
func (r *Request) PrivateData() []byte { return r.c.private }

// withdrawn reports whether the peer has given up.
func (r *Request) withdrawn() bool {
	r.c.events.mu.Lock()
	defer r.c.events.mu.Unlock()
	return len(r.c.events.list) > 0
}

// Accept makes the queue pair, as the listener's Config says, and tells the peer with
// private data, at most MaxAcceptPrivate bytes. It waits until the peer is ready too: its
// requests may have come before.
func (r *Request) Accept(ctx context.Context, private []byte) (*Conn, error) {
	c := r.c
	if err := c.accept(ctx, private); err != nil {
		return nil, opErr("accept", c.remote.String(), errors.Join(err, c.Close()))
	}
	return c, nil
}

// AcceptWith is Accept with a Config for this connection, whose PrivateData is told.
func (r *Request) AcceptWith(ctx context.Context, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if err := cfg.check(); err != nil {
		return nil, opErr("accept", r.c.remote.String(), errors.Join(err, r.Reject(nil)))
	}
	r.c.cfg = *cfg
	return r.Accept(ctx, cfg.PrivateData)
}

// Reject refuses, with private data, at most MaxRejectPrivate bytes. The peer's error
// is a RejectedError with RejectByApplication.
func (r *Request) Reject(private []byte) error {
	err := r.c.d.client.Reject(r.c.id, wire.RejConsumer, private)
	return opErr("reject", r.c.remote.String(), errors.Join(err, r.c.Close()))
}

// accept is the passive side.
func (c *Conn) accept(ctx context.Context, private []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(private) > MaxAcceptPrivate {
		return fmt.Errorf("%w: %d bytes, there is room for %d", ErrPrivateData, len(private), MaxAcceptPrivate)
	}
	if err := c.make(); err != nil {
		_ = c.d.client.Reject(c.id, wire.RejNoResources, nil)
		return err
	}
	p := c.cfg.param(private)
	p.QPN = c.qp.Num()
	if err := c.ready(ctx, &p); err != nil {
		return c.gaveUp(err)
	}
	start, err := c.qp.Query() // the peer does not send before it is accepted
	if err != nil {
		return err
	}
	if err := c.d.client.Accept(c.id, &p); err != nil {
		return c.gaveUp(err)
	}
	return c.awaitReady(ctx, start.RQPSN)
}

// gaveUp tells an error that comes from the peer's end of the attempt.
func (c *Conn) gaveUp(err error) error {
	if !errors.Is(err, cmfsm.ErrState) {
		return err
	}
	for {
		ev, ok, _ := c.events.take()
		if !ok {
			return err
		}
		if why := failure(&ev, "answers"); why != nil {
			return why
		}
	}
}

// Lost RTUs: the peer's first packet says as much, but nobody tells when one comes. So
// the queue pair is looked at, ever less often.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = time.Second
)

// awaitReady waits for the RTU, or for a packet other than the one of PSN start.
func (c *Conn) awaitReady(ctx context.Context, start uint32) error {
	for look := firstLook; ; look = min(2*look, lastLook) {
		part, cancel := context.WithTimeout(ctx, look)
		err := c.await(part, "answers", func(*cmfsm.Event) error { return nil })
		late := part.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		now, err := c.qp.Query()
		if err != nil {
			return err
		}
		if now.RQPSN != start {
			// An error says that something else has happened: there is an event of it.
			_ = c.d.client.Established(c.id)
		}
	}
}
