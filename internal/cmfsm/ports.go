package cmfsm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// portKey is a port of a port space.
type portKey struct {
	ps   wire.PortSpace
	port uint16
}

// port is who is bound to it, oldest first.
type port []*conn

// Bind gives an id its local address; the unspecified address stands for all
// of the device's, and port 0 for any that is free. It returns what was bound.
func (m *Machine) Bind(id ID, addr netip.AddrPort) (netip.AddrPort, error) {
	c, err := m.find(id, StateIdle)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if c.bound {
		return netip.AddrPort{}, fmt.Errorf("%w: it is bound to %v", ErrState, c.local)
	}
	if !addr.Addr().IsValid() || addr.Addr().IsMulticast() {
		return netip.AddrPort{}, fmt.Errorf("%w: %v is no address to bind to", ErrInvalid, addr)
	}
	if err := m.bind(c, plain(addr)); err != nil {
		return netip.AddrPort{}, err
	}
	return c.local, nil
}

// facing is the address of the other end of what local is an end of: link-local, it
// is of the same link.
func facing(local, a netip.Addr) netip.Addr { return ibv.WithScope(a, ibv.Scope(local)) }

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ibv.PlainAddr(a.Addr()), a.Port())
}

func (m *Machine) bind(c *conn, addr netip.AddrPort) error {
	c.ephemeral = addr.Port() == 0
	if c.ephemeral {
		p, ok := m.ephemeralPort(c.ps)
		if !ok {
			return ErrNoPorts
		}
		addr = netip.AddrPortFrom(addr.Addr(), p)
	} else if o := m.conflict(c, addr, c.opt.ReuseAddr); o != nil {
		return fmt.Errorf("%w: %v is bound to %v", ErrAddrInUse, o.ps, o.local)
	}
	key := portKey{c.ps, addr.Port()}
	m.ports[key] = append(m.ports[key], c)
	c.local, c.bound = addr, true
	return nil
}

func (m *Machine) unbind(c *conn) {
	if !c.bound {
		return
	}
	c.bound = false
	key := portKey{c.ps, c.local.Port()}
	users := m.ports[key]
	if len(users) == 1 {
		delete(m.ports, key)
		return
	}
	i := slices.Index(users, c)
	m.ports[key] = slices.Delete(users, i, i+1)
}

// conflict is another id that keeps c from having addr. With reuse, ids that
// say so do not, as long as they do not listen.
func (m *Machine) conflict(c *conn, addr netip.AddrPort, reuse bool) *conn {
	for _, o := range m.ports[portKey{c.ps, addr.Port()}] {
		if o == c || reuse && o.opt.ReuseAddr && o.state != StateListen {
			continue
		}
		if covers(addr.Addr(), c.opt.AFOnly, o.local.Addr()) || covers(o.local.Addr(), o.opt.AFOnly, addr.Addr()) {
			return o
		}
	}
	return nil
}

// covers says whether an id bound to a has what goes to b. Of two families, only
// the unspecified IPv6 address has IPv4, too. An address without zone is that of all
// links.
func covers(a netip.Addr, afOnly bool, b netip.Addr) bool {
	if a.Is4() == b.Is4() {
		return a == b || a.IsUnspecified() || a == b.WithZone("")
	}
	return a.Is6() && a.IsUnspecified() && !afOnly
}

// ephemeralPort chooses a port of the range, from a random one on: one that
// nobody has, or, when there is none, one that only others have who did not
// ask for it either and do not listen. Sharing is harmless: connections are told
// apart by communication ids.
func (m *Machine) ephemeralPort(ps wire.PortSpace) (uint16, bool) {
	first, n := int(m.cfg.FirstPort), int(m.cfg.LastPort)-int(m.cfg.FirstPort)+1
	start := m.rand.IntN(n)
	shared, ok := uint16(0), false
	for i := range n {
		p := uint16(first + (start+i)%n)
		users := m.ports[portKey{ps, p}]
		if len(users) == 0 {
			return p, true
		}
		if !ok && !slices.ContainsFunc(users, func(o *conn) bool { return !o.ephemeral || o.state == StateListen || o.state == StateIdle }) {
			shared, ok = p, true
		}
	}
	return shared, ok
}

// Listen lets a bound id take requests. At most backlog of them may wait for the
// application's decision, others are refused; 0 stands for the largest that is
// allowed, as does what is larger.
func (m *Machine) Listen(id ID, backlog int) error {
	c, err := m.find(id, StateIdle)
	if err != nil {
		return err
	}
	if !c.bound {
		return fmt.Errorf("%w: it is not bound to an address", ErrState)
	}
	// A listener shares its address with nobody, whatever was agreed before.
	if o := m.conflict(c, c.local, false); o != nil {
		return fmt.Errorf("%w: %v is bound to %v", ErrAddrInUse, o.ps, o.local)
	}
	if backlog <= 0 || backlog > m.cfg.MaxBacklog {
		backlog = m.cfg.MaxBacklog
	}
	c.backlog, c.state = backlog, StateListen
	return nil
}

// listenerFor is who takes a request for a service: the one on exactly that
// address, else on all of its family, else on all.
func (m *Machine) listenerFor(id wire.ServiceID, dst netip.Addr) *conn {
	ps, p, ok := id.Split()
	if !ok {
		return nil
	}
	var best *conn
	for _, c := range m.ports[portKey{ps, p}] {
		a := c.local.Addr()
		if c.state != StateListen || !covers(a, c.opt.AFOnly, dst) {
			continue
		}
		if a == dst {
			return c
		}
		if best == nil || a.Is4() == dst.Is4() {
			best = c
		}
	}
	return best
}

// enqueue makes the id of a request to l, unless there are too many.
func (m *Machine) enqueue(l *conn) *conn {
	if len(l.pending) >= l.backlog {
		m.count(CounterBacklogFull)
		return nil
	}
	c, err := m.newConn(l.owner, l.ps, l.typ)
	if err != nil {
		m.count(CounterBacklogFull)
		return nil
	}
	c.listener, c.opt = l, l.opt
	l.pending = append(l.pending, c)
	return c
}

// decided takes c out of its listener's backlog.
func (c *conn) decided() {
	if l := c.listener; l != nil {
		l.pending = slices.DeleteFunc(l.pending, func(o *conn) bool { return o == c })
		c.listener = nil
	}
}
