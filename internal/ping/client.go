package ping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Client is rping -c: it connects, and has the server copy data in Options.Count rounds.
// It prints how that went, if there was a connection, and returns the same. The end of ctx
// ends it cleanly: that is no error once a round was complete.
//
// Errors: ErrOptions; ErrNoAnswer; ErrMismatch; cm.ErrRejected, cm.ErrDisconnected;
// datapath.ErrNoRoute, datapath.ErrNoNeighbour; those of Options.Open.
func Client(ctx context.Context, o Options) (res *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c := &client{Options: o}
	way, err := o.toServer(ctx)
	if err != nil {
		return nil, err
	}
	if c.dev, err = o.Open(way.ifname); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.dev.Close()) }()
	if err := c.connect(ctx, way); err != nil {
		return nil, c.explain(ctx, way.remote, err)
	}
	res = &Result{Role: "client", Peer: way.remote.String(), Size: o.Size}
	err = c.rounds(ctx, res)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && res.Rounds > 0 {
		err = nil
	}
	err = c.explain(ctx, way.remote, err)
	if end := c.hangUp(); err == nil {
		err = end
	}
	return res, errors.Join(err, o.report(res, err))
}

type client struct {
	Options
	link
	source, sink *verbs.MR
}

func (c *client) connect(ctx context.Context, w way) error {
	pd, err := c.dev.AllocPD()
	if err != nil {
		return err
	}
	if c.source, err = c.region(pd, c.Size, verbs.AccessLocalWrite|verbs.AccessRemoteRead); err != nil {
		return err
	}
	if c.sink, err = c.region(pd, c.Size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cfg := config(pd, func(qp *verbs.QP) error { return c.prepare(pd, qp) })
	cfg.LocalAddr = netip.AddrPortFrom(w.local, 0)
	if c.conn, err = cm.Dial(ctx, c.dev, w.remote.String(), &cfg); err != nil {
		return err
	}
	return c.describe(c.conn)
}

// rounds makes the rounds and keeps count of them in res.
func (c *client) rounds(ctx context.Context, res *Result) error {
	for k := 0; c.Count == 0 || k < c.Count; k++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		fill(c.source.Bytes(), k)
		clear(c.sink.Bytes()) // so that a WRITE that has not come is seen
		took, err := c.round(ctx)
		if err != nil {
			if ctx.Err() == nil {
				res.Lost++
			}
			return err
		}
		res.add(took)
		if err := c.look(k); err != nil {
			return err
		}
	}
	return nil
}

// round has the server copy the source to the sink; it returns how long that took.
func (c *client) round(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	began := time.Now()
	for _, mr := range []*verbs.MR{c.source, c.sink} {
		if err := c.send(buffer{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(c.Size)}); err != nil {
			return 0, c.why(err)
		}
		if err := c.await(ctx, receiving); err != nil {
			return 0, err
		}
		if c.length != messageLen {
			return 0, fmt.Errorf("%w: a message of %d bytes, not %d", ErrProtocol, c.length, messageLen)
		}
	}
	return time.Since(began), nil
}

// look prints and compares what the server wrote.
func (c *client) look(k int) error {
	want, got := c.source.Bytes(), c.sink.Bytes()
	if c.Validate && !bytes.Equal(want, got) {
		at := 0
		for want[at] == got[at] {
			at++
		}
		return fmt.Errorf("%w in round %d: byte %d of %d is %#02x, not %#02x", ErrMismatch, k, at, len(want), got[at], want[at])
	}
	if c.Verbose && !c.JSON {
		_, err := fmt.Fprintf(c.Out, "ping data: %s\n", text(got))
		return err
	}
	return nil
}
