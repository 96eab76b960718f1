package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// way is what ResolveAddr has found.
type way struct {
	cmengine.Resolved
	found bool
	route bool // ResolveRoute has confirmed it
}

// BindAddr gives the id an own address and port (rdma_bind_addr), and so its device.
// The unspecified address stands for those of all devices of the channel, for a
// listener; port 0 for any that is free.
func (id *ID) BindAddr(addr netip.AddrPort) error {
	id.call.Lock()
	defer id.call.Unlock()
	return opErr("bind to "+addr.String(), id.name(), id.bind(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())))
}

func (id *ID) bind(addr netip.AddrPort) error {
	if !id.alive() {
		return verbs.ErrClosed
	}
	if id.bound || id.cancel != nil {
		return stateErr("it has an address, or is looking for one")
	}
	devs, own, err := id.devices(addr.Addr())
	if err != nil {
		return err
	}
	addr = netip.AddrPortFrom(own, addr.Port())
	for i, dev := range devs {
		at, err := id.bindOn(dev, addr)
		if err != nil {
			id.unbind()
			return err
		}
		if i == 0 {
			id.mu.Lock()
			id.local = at
			id.mu.Unlock()
			addr = at // the same port everywhere
		}
	}
	id.bound = true
	return nil
}

// bindOn makes the id's end on a device.
func (id *ID) bindOn(dev *verbs.Context, addr netip.AddrPort) (at netip.AddrPort, err error) {
	d, err := acquire(dev)
	if err != nil {
		return at, err
	}
	e := end{d: d}
	if e.id, err = d.client.Create(id.ps, id.typ); err != nil {
		d.release()
		return at, err
	}
	id.mu.Lock()
	id.ends = append(id.ends, e)
	id.mu.Unlock()
	d.handle(e.id, id)
	if err := d.client.SetOptions(e.id, id.opt); err != nil {
		return at, err
	}
	return d.client.Bind(e.id, addr)
}

// unbind takes the id off all devices.
func (id *ID) unbind() {
	id.mu.Lock()
	ends := id.ends
	id.ends, id.local = nil, netip.AddrPort{}
	id.mu.Unlock()
	for _, e := range ends {
		e.d.handle(e.id, nil)
		_ = e.d.client.Destroy(e.id)
		e.d.release()
	}
}

// devices are those of the channel that have an address, and the address as they have
// it; all if that is the unspecified one.
func (id *ID) devices(addr netip.Addr) ([]*verbs.Context, netip.Addr, error) {
	id.mu.Lock()
	devs := id.ch.devs
	id.mu.Unlock()
	if len(devs) == 0 {
		return nil, addr, stateErr("the event channel was made without devices")
	}
	if !addr.IsValid() || addr.IsUnspecified() { // which with a zone it is not
		return devs, addr, nil
	}
	var errs []error
	for _, dev := range devs {
		own, err := ownAddr(dev, addr)
		if err == nil && addr.Zone() == "" {
			_, err = dev.GIDIndex(addr)
		}
		if err == nil {
			return []*verbs.Context{dev}, own, nil
		}
		errs = append(errs, err)
	}
	return nil, addr, fmt.Errorf("%w: %s: %w", ErrNoSource, addr, errors.Join(errs...))
}

// ResolveAddr finds the device and the own address that dst is reached from
// (rdma_resolve_addr), and binds the id to that address, unless it is bound. src may be the zero
// AddrPort. The event is ADDR_RESOLVED, or, when nothing is found within the
// timeout, ADDR_ERROR. Devices are tried in the order of the channel.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	id.call.Lock()
	defer id.call.Unlock()
	return opErr("resolve "+dst.String(), id.name(), id.resolve(src, dst, timeout))
}

func (id *ID) resolve(src, dst netip.AddrPort, timeout time.Duration) error {
	dst = netip.AddrPortFrom(dst.Addr().Unmap(), dst.Port())
	src = netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
	switch {
	case !id.alive():
		return verbs.ErrClosed
	case id.cancel != nil || id.way.found || id.passive:
		return stateErr("its addresses are known, or being looked for")
	case timeout <= 0:
		return invalid("a timeout of %v", timeout)
	case !dst.Addr().IsValid() || dst.Addr().IsUnspecified():
		return invalid("%v is not the address of a peer", dst)
	}
	devs, own, err := id.devices(src.Addr())
	switch named := src.Addr().IsValid() && !src.Addr().IsUnspecified(); {
	case err != nil:
		return err
	case id.bound && named && own != id.LocalAddr().Addr():
		return stateErr("it is bound to " + id.LocalAddr().String())
	case id.bound:
		if devs, own, err = id.devices(id.LocalAddr().Addr()); err != nil {
			return err
		}
		src = id.LocalAddr()
	}
	src = netip.AddrPortFrom(own, src.Port())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	id.cancel = cancel
	query := cmengine.Query{Src: src.Addr(), Dst: dst.Addr(), TOS: id.opt.TOS}
	if dst.Addr().IsMulticast() {
		go id.search(ctx, devs, dst, func(dev *verbs.Context) error { return id.foundGroup(dev, src, dst) })
		return nil
	}
	go id.search(ctx, devs, dst, func(dev *verbs.Context) error { return id.find(ctx, dev, query, src.Port(), dst) })
	return nil
}

// search tries one device after the other and tells the outcome.
func (id *ID) search(ctx context.Context, devs []*verbs.Context, dst netip.AddrPort, try func(*verbs.Context) error) {
	var errs []error
	done := false
	for _, dev := range devs {
		err := try(dev)
		if done = err == nil; done {
			break
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	id.call.Lock()
	id.cancel()
	id.cancel = nil
	id.call.Unlock()
	if done {
		id.post(Event{Type: EventAddrResolved})
		return
	}
	id.post(Event{Type: EventAddrError, Err: opErr("resolve", dst.String(), errors.Join(errs...))})
}

// find looks for a way from a device.
func (id *ID) find(ctx context.Context, dev *verbs.Context, q cmengine.Query, port uint16, dst netip.AddrPort) error {
	d, err := acquire(dev)
	if err != nil {
		return err
	}
	defer d.release()
	r, err := d.client.Resolve(ctx, q)
	if err != nil {
		return err
	}
	return id.found(dev, r, netip.AddrPortFrom(r.Src, port), netip.AddrPortFrom(r.Dst, dst.Port()))
}

// foundGroup is find for a multicast group.
func (id *ID) foundGroup(dev *verbs.Context, src, dst netip.AddrPort) error {
	g, err := groupSource(dev, dst.Addr(), src.Addr())
	if err != nil {
		return err
	}
	a := ibv.WithScope(g.GID.Addr(), uint32(g.IfIndex))
	dst = netip.AddrPortFrom(dst.Addr().WithZone(""), dst.Port())
	return id.found(dev, cmengine.Resolved{Src: a, Dst: dst.Addr(), VLAN: g.VLAN}, netip.AddrPortFrom(a, src.Port()), dst)
}

func (id *ID) found(dev *verbs.Context, r cmengine.Resolved, local, dst netip.AddrPort) error {
	id.call.Lock()
	defer id.call.Unlock()
	if !id.alive() {
		return verbs.ErrClosed
	}
	if !id.bound {
		at, err := id.bindOn(dev, local)
		if err != nil {
			id.unbind()
			return err
		}
		id.bound, local = true, at
	} else if e, err := id.end(); err != nil || e.d.dev != dev {
		return stateErr("it is bound to all devices: it can listen only")
	}
	id.way = way{Resolved: r, found: true}
	id.mu.Lock()
	id.local, id.remote = local, dst
	id.mu.Unlock()
	return nil
}

// ResolveRoute confirms the path to the peer (rdma_resolve_route): ROUTE_RESOLVED,
// or ROUTE_ERROR.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	id.call.Lock()
	defer id.call.Unlock()
	e, err := id.end()
	switch {
	case err != nil:
	case !id.way.found || id.cancel != nil:
		err = stateErr("ResolveAddr comes first, and its event")
	case timeout <= 0:
		err = invalid("a timeout of %v", timeout)
	}
	if err != nil {
		return opErr("resolve the route of", id.name(), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	id.cancel = cancel
	q := cmengine.Query{Src: id.way.Src, Dst: id.way.Dst, TOS: id.opt.TOS}
	go func() {
		r, err := id.way.Resolved, error(nil)
		if !q.Dst.IsMulticast() {
			r, err = e.d.client.Resolve(ctx, q)
		}
		id.call.Lock()
		cancel()
		id.cancel = nil
		if err == nil {
			id.way = way{Resolved: r, found: true, route: true}
		}
		id.call.Unlock()
		if err != nil {
			id.post(Event{Type: EventRouteError, Err: opErr("resolve", q.Dst.String(), err)})
			return
		}
		id.post(Event{Type: EventRouteResolved})
	}()
	return nil
}
