package cmengine

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// engines are those that run in this process. Its lock comes before an engine's,
// and is held while one starts or ends.
var engines = struct {
	mu sync.Mutex
	of map[*verbs.Context]*Engine
}{of: map[*verbs.Context]*Engine{}}

// local is the service of a device of this process.
type local struct{ dev *verbs.Context }

// Open makes a client of the device's engine, and starts that for the first.
func (l local) Open(sink func(cmfsm.Event)) (Client, error) {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e, err := engineOf(l.dev)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastOwner++
	c := &client{e: e, owner: e.lastOwner, sink: sink}
	e.clients[c.owner] = c
	return c, nil
}

// client is an owner of ids in an engine of this process.
type client struct {
	e     *Engine
	owner cmfsm.Owner
	sink  func(cmfsm.Event)
}

// do makes a call under the engine's lock and lets what comes of it go out.
func (c *client) do(f func(m *cmfsm.Machine, now mono.Time) error) error {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.clients[c.owner] != c {
		return verbs.ErrClosed
	}
	err := f(e.m, e.now())
	e.drain()
	return err
}

// own is do for an id, which must be the client's own.
func (c *client) own(id cmfsm.ID, f func(m *cmfsm.Machine, now mono.Time) error) error {
	return c.do(func(m *cmfsm.Machine, now mono.Time) error {
		info, err := m.Info(id)
		if err != nil {
			return err
		}
		if info.Owner != c.owner {
			return cmfsm.ErrUnknownID
		}
		return f(m, now)
	})
}

func (c *client) Create(ps wire.PortSpace, typ ibv.QPType) (id cmfsm.ID, err error) {
	err = c.do(func(m *cmfsm.Machine, _ mono.Time) (err error) { id, err = m.Create(c.owner, ps, typ); return err })
	return id, err
}

func (c *client) SetOptions(id cmfsm.ID, o cmfsm.Options) error {
	return c.own(id, func(m *cmfsm.Machine, _ mono.Time) error { return m.SetOptions(id, o) })
}

func (c *client) Bind(id cmfsm.ID, addr netip.AddrPort) (at netip.AddrPort, err error) {
	if a := ibv.PlainAddr(addr.Addr()); a.IsValid() && !a.IsUnspecified() {
		gids, err := c.e.dev.GIDs()
		if err != nil {
			return at, err
		}
		if !has(gids, a) {
			return at, notOurs(a, gids)
		}
	}
	err = c.own(id, func(m *cmfsm.Machine, _ mono.Time) (err error) { at, err = m.Bind(id, addr); return err })
	return at, err
}

func (c *client) Listen(id cmfsm.ID, backlog int) error {
	return c.own(id, func(m *cmfsm.Machine, _ mono.Time) error { return m.Listen(id, backlog) })
}

func (c *client) Connect(id cmfsm.ID, r *cmfsm.Route, p *cmfsm.ConnParam) error {
	return c.own(id, func(m *cmfsm.Machine, now mono.Time) error { return m.Connect(now, id, r, p) })
}

func (c *client) Accept(id cmfsm.ID, p *cmfsm.ConnParam) error {
	return c.own(id, func(m *cmfsm.Machine, now mono.Time) error { return m.Accept(now, id, p) })
}

func (c *client) Reject(id cmfsm.ID, why wire.RejReason, private []byte) error {
	return c.own(id, func(m *cmfsm.Machine, _ mono.Time) error { return m.Reject(id, why, private) })
}

func (c *client) Established(id cmfsm.ID) error {
	return c.own(id, func(m *cmfsm.Machine, _ mono.Time) error { return m.Established(id) })
}

func (c *client) Disconnect(id cmfsm.ID) error {
	return c.own(id, func(m *cmfsm.Machine, now mono.Time) error { return m.Disconnect(now, id) })
}

func (c *client) Destroy(id cmfsm.ID) error {
	return c.own(id, func(m *cmfsm.Machine, now mono.Time) error { return m.Destroy(now, id) })
}

func (c *client) QPAttr(id cmfsm.ID, p *cmfsm.ConnParam) (a cmfsm.QPAttr, err error) {
	err = c.own(id, func(m *cmfsm.Machine, _ mono.Time) (err error) { a, err = m.QPAttr(id, p); return err })
	return a, err
}

func (c *client) Info(id cmfsm.ID) (i cmfsm.Info, err error) {
	err = c.own(id, func(m *cmfsm.Machine, _ mono.Time) (err error) { i, err = m.Info(id); return err })
	return i, err
}

func (c *client) QPNHeld(qpn uint32) bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return !c.e.ended && c.e.m.QPNHeld(qpn)
}

func (c *client) Counters() (v []verbs.CounterValue, err error) {
	err = c.do(func(*cmfsm.Machine, mono.Time) error { v = c.e.values(); return nil })
	return v, err
}

// Resolve has the device look for the way, and makes the one of the datagrams to
// come.
func (c *client) Resolve(ctx context.Context, q Query) (Resolved, error) {
	r, err := c.e.dev.Resolve(ctx, &verbs.ResolveRequest{Src: q.Src, Dst: q.Dst, Interface: q.Interface, TOS: q.TOS})
	if err != nil {
		return Resolved{}, err
	}
	own, err := c.e.dev.QueryGID(r.SGIDIndex)
	if err != nil {
		return Resolved{}, err
	}
	mtu := r.MTU
	if mtu == 0 {
		mtu = ibv.MTU256 // the smallest that there is: the device says whether its link carries that
	}
	way := Resolved{Src: addrOf(&own), MTU: mtu, HopLimit: r.HopLimit, VLAN: own.VLAN}
	way.Dst = ibv.WithScope(r.Dst, ibv.Scope(way.Src))
	return way, c.e.reach(ctx, cmfsm.Path{Local: way.Src, Remote: way.Dst, TrafficClass: q.TOS, HopLimit: r.HopLimit, VLAN: way.VLAN})
}

// Close ends the client. That it is closed already is no error.
func (c *client) Close() error {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.clients[c.owner] != c {
		return nil
	}
	delete(e.clients, c.owner)
	e.dropOwner(c.owner)
	return nil
}

// dropAtOnce is how many ids of a client that ends are destroyed before the lock is given
// back: there may be thousands, and other clients wait.
const dropAtOnce = 64

// dropOwner destroys all ids of a client that is off the list, and what comes to its
// listeners until they are. The lock is held, but for moments in between.
func (e *Engine) dropOwner(owner cmfsm.Owner) {
	for all := e.m.Owned(owner); len(all) != 0; all = e.m.Owned(owner) {
		for part := range slices.Chunk(all, dropAtOnce) {
			for _, id := range part {
				// One may have gone with its listener.
				_ = e.m.Destroy(e.now(), id)
			}
			e.drain()
			e.mu.Unlock()
			e.mu.Lock()
			if e.ended { // with all that there was
				return
			}
		}
	}
	e.drain()
}
