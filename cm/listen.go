package cm

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Listener takes requests for connections. Its methods are safe for concurrent use.
type Listener struct {
	d        *device
	cfg      Config
	id       cmfsm.ID
	addr     netip.AddrPort
	requests *mailbox[*Request]
	closing  sync.Once
}

// Listen takes requests at an own address and port: "10.0.0.1:7471"; ":7471" is
// that port of all addresses, "0.0.0.0:7471" of those of IPv4, and port 0 is any that
// is free. A zone, as in "[fe80::1%eth0.5]:7471", says on which interface a link-local
// address is listened at; without, on all that have it. nil cfg is the zero Config; it
// says how connections are accepted.
//
// Errors: ErrAddrInUse, ErrNoSource; verbs.ErrPermission without the privilege
// for queue pair 1, CAP_NET_RAW; verbs.ErrBusy when another has it.
func Listen(dev *verbs.Context, address string, cfg *Config) (*Listener, error) {
	l, err := listen(dev, address, cfg)
	return l, opErr("listen on", address, err)
}

func listen(dev *verbs.Context, address string, cfg *Config) (*Listener, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	addr, err := parse(context.Background(), address)
	if err != nil {
		return nil, err
	}
	d, err := acquire(dev)
	if err != nil {
		return nil, err
	}
	l := &Listener{d: d, cfg: *cfg, requests: newMailbox[*Request]()}
	if err := l.open(addr); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Listener) open(addr netip.AddrPort) (err error) {
	if l.id, err = l.d.client.Create(wire.PortSpaceTCP, ibv.QPTypeRC); err != nil {
		return err
	}
	l.d.handle(l.id, l)
	if err := l.d.client.SetOptions(l.id, l.cfg.options()); err != nil {
		return err
	}
	own, err := ownAddr(l.d.dev, addr.Addr())
	if err != nil {
		return err
	}
	if l.addr, err = l.d.client.Bind(l.id, netip.AddrPortFrom(own, addr.Port())); err != nil {
		return err
	}
	return l.d.client.Listen(l.id, l.cfg.Backlog)
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// event is told what happens to the id.
func (l *Listener) event(ev cmfsm.Event) {
	if ev.Type == cmfsm.EventDeviceRemoval {
		l.requests.put(nil) // Request closes it
	}
}

// request makes a Request of an event. Nobody may want it any more.
func (l *Listener) request(ev cmfsm.Event) handler {
	c := newConn(l.d, l.cfg)
	c.id, c.local, c.remote, c.private = ev.ID, ev.Local, ev.Remote, ev.Param.PrivateData
	if !l.requests.put(&Request{c: c}) {
		l.d.laterLocked(func() { _ = c.Close() })
	}
	return c
}

// Request waits for the next request, to be accepted or rejected. Those that their
// senders have given up are left out.
func (l *Listener) Request(ctx context.Context) (*Request, error) {
	r, err := l.next(ctx)
	return r, opErr("accept on", l.addr.String(), err)
}

func (l *Listener) next(ctx context.Context) (*Request, error) {
	for {
		r, err := l.requests.next(ctx)
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			l.requests.close(ErrRemoved)
			return nil, ErrRemoved
		case r.withdrawn():
			if err := r.c.Close(); err != nil {
				return nil, err
			}
		default:
			return r, nil
		}
	}
}

// Accept waits for the next request and accepts it, with Config.PrivateData. An
// attempt that its peer gives up, or that fails on the way, is an error of that
// connection and not of the listener: ErrListenerClosed, ErrRemoved and ctx's are
// the last words of that.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	r, err := l.Request(ctx)
	if err != nil {
		return nil, err
	}
	return r.Accept(ctx, l.cfg.PrivateData)
}

// Close ends the listener and refuses the requests that nobody has taken.
// Connections stay. Twice is no error.
func (l *Listener) Close() error {
	var err error
	l.closing.Do(func() {
		if l.id != 0 {
			l.d.handle(l.id, nil)
			_ = l.d.client.Destroy(l.id) // it may have gone with the device
		}
		var errs []error
		for _, r := range l.requests.close(ErrListenerClosed) {
			if r != nil {
				errs = append(errs, r.c.Close())
			}
		}
		l.d.release()
		err = opErr("close listener on", l.addr.String(), errors.Join(errs...))
	})
	return err
}
