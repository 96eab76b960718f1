package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Dial connects a new queue pair with the one that a listener at address accepts
// with: "10.0.0.2:7471", "[fe80::1%eth0.5]:7471", "host:7471". The zone of a link-local
// address is the name or number, where the device is, of the device's interface or of
// one on top of it; without, it is the device's. nil cfg is the zero Config. When ctx
// ends the attempt ends, and the peer is told; without a deadline a peer that does not
// answer is given up after 74 s. A next hop that does not answer for its link-layer
// address is given up after 3 s in any case.
//
// Errors: RejectedError, which may be ErrNoListener too; ErrNoAnswer; those of
// verbs.Context.Resolve; ctx's.
func Dial(ctx context.Context, dev *verbs.Context, address string, cfg *Config) (*Conn, error) {
	c, err := dial(ctx, dev, address, cfg)
	return c, opErr("dial", address, err)
}

func dial(ctx context.Context, dev *verbs.Context, address string, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	remote, err := parse(ctx, address)
	if err != nil {
		return nil, err
	}
	if a := remote.Addr(); a.IsUnspecified() || a.IsMulticast() || remote.Port() == 0 {
		return nil, invalid("%v is not the address and port of a peer", remote)
	}
	d, err := acquire(dev)
	if err != nil {
		return nil, err
	}
	c := newConn(d, *cfg)
	c.remote = remote
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// resolveTime is how long a host on the network may take to answer for its link-layer
// address: what Linux gives it, too, before a TCP connection fails. Tests change it.
var resolveTime = 3 * time.Second

func (c *Conn) resolve(ctx context.Context) (cmengine.Resolved, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	return c.d.client.Resolve(ctx, cmengine.Query{Src: c.cfg.LocalAddr.Addr(), Dst: c.remote.Addr(), TOS: c.cfg.TOS})
}

// connect is the active side.
func (c *Conn) connect(ctx context.Context) error {
	way, err := c.resolve(ctx)
	if err != nil {
		return err
	}
	if err := c.make(); err != nil {
		return err
	}
	if c.id, err = c.d.client.Create(wire.PortSpaceTCP, ibv.QPTypeRC); err != nil {
		return err
	}
	c.d.handle(c.id, c)
	if err := c.d.client.SetOptions(c.id, c.cfg.options()); err != nil {
		return err
	}
	c.local = netip.AddrPortFrom(way.Src, c.cfg.LocalAddr.Port())
	c.remote = netip.AddrPortFrom(way.Dst, c.remote.Port())
	if c.local, err = c.d.client.Bind(c.id, c.local); err != nil {
		return err
	}
	p := c.cfg.param(c.cfg.PrivateData)
	p.QPN = c.qp.Num()
	if err := ctx.Err(); err != nil {
		return err
	}
	err = c.d.client.Connect(c.id, &cmfsm.Route{
		Local: c.local, Remote: c.remote, MTU: c.cfg.limit(way.MTU), HopLimit: way.HopLimit, VLAN: way.VLAN,
	}, &p)
	if err != nil {
		return err
	}
	return c.await(ctx, "connection requests", func(ev *cmfsm.Event) error {
		c.private = ev.Param.PrivateData
		if err := c.ready(ctx, nil); err != nil {
			_ = c.d.client.Reject(c.id, 0, nil)
			return err
		}
		return c.d.client.Accept(c.id, nil)
	})
}

// ready takes the queue pair to RTS.
func (c *Conn) ready(ctx context.Context, p *cmfsm.ConnParam) error {
	attr, err := c.d.client.QPAttr(c.id, p)
	if err != nil {
		return err
	}
	return toRTS(ctx, c.d.dev, c.qp, &attr, c.cfg.Access)
}

// await waits until the connection is established. messages is what the peer has to
// answer, response is called with its answer.
func (c *Conn) await(ctx context.Context, messages string, response func(*cmfsm.Event) error) error {
	for {
		ev, err := c.events.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for an answer to our %s: %w", messages, err)
		}
		switch ev.Type {
		case cmfsm.EventConnectResponse:
			if err := response(&ev); err != nil {
				return err
			}
		case cmfsm.EventEstablished:
			return nil
		default:
			if err := failure(&ev, messages); err != nil {
				return err
			}
		}
	}
}

// failure is what an event says that is the end of an attempt.
func failure(ev *cmfsm.Event, messages string) error {
	switch ev.Type {
	case cmfsm.EventRejected:
		return rejected(ev)
	case cmfsm.EventUnreachable:
		return noAnswer(messages)
	case cmfsm.EventDisconnected:
		return ErrDisconnected
	case cmfsm.EventDeviceRemoval:
		return ErrRemoved
	default:
		return nil
	}
}
