package datapath

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// maxAH is how many address handles a device has at most.
const maxAH = 1 << ahBits

// address is what an address handle stands for. Workers read it without a lock;
// a change puts another in its place.
type address struct {
	handle uint32
	pd     uint32
	spread bool // no flow label was given: the source port is the queue pair's
	group  bool // it is a multicast group, gid
	gid    ibv.GID
	at     whereabouts
}

// ahTable finds addresses by handle without a lock, in two levels as qpTable.
type ahTable struct {
	pages [maxAH >> pageBits]atomic.Pointer[ahPage]
}

type ahPage [1 << pageBits]atomic.Pointer[address]

// A handle is a number that counts up and never comes again before all others
// have been given out; its low bits are its place in the table. So a work request
// that outlives its handle finds nobody, not the next peer.
const (
	ahBits = 16
	ahMask = maxAH - 1
)

// get is the address of a handle, nil if there is none (any more).
func (t *ahTable) get(handle uint32) *address {
	i := handle & ahMask
	page := t.pages[i>>pageBits].Load()
	if page == nil {
		return nil
	}
	if a := page[i&pageMask].Load(); a != nil && a.handle == handle {
		return a
	}
	return nil
}

// put makes a the address at the place of a handle, nil none. The device's lock
// is held.
func (t *ahTable) put(handle uint32, a *address) {
	i := handle & ahMask
	slot := &t.pages[i>>pageBits]
	page := slot.Load()
	if page == nil {
		page = new(ahPage)
		slot.Store(page)
	}
	page[i&pageMask].Store(a)
}

// taken reports whether the place of a handle is in use.
func (t *ahTable) taken(handle uint32) bool {
	i := handle & ahMask
	page := t.pages[i>>pageBits].Load()
	return page != nil && page[i&pageMask].Load() != nil
}

// way is where a packet goes.
type way struct {
	at      *whereabouts // nil: nowhere
	group   *group       // it ends at these too; nil: none
	srcPort uint16       // not that of the path, unless 0
}

// wayOf is the way of a packet of q: that of the connection, or of the address
// handle of a datagram. There is none by a handle that is not there (any more),
// that another protection domain has, or that does not fit the queue pair number.
func (d *Device) wayOf(q *qp, in *transport.Intent) way {
	if !q.datagram {
		return way{at: &q.at}
	}
	a := d.addresses.get(in.AH)
	if a == nil || a.pd != uint32(q.cfg.PD) {
		return way{}
	}
	to := way{at: &a.at}
	// A group has a number of its own (IBTA vol. 1, 10.5.2), and nothing else has it.
	if (wire.BTHAt(in.Hdr[:]).DestQP() == wire.MulticastQP) != a.group {
		return way{}
	}
	if a.group {
		to.group = d.groups.get(a.gid)
	}
	if a.spread {
		// A port for each queue pair spreads them over the queues of the peer and
		// the paths to it.
		to.srcPort = wire.PortFromQPN(q.num)
	}
	return to
}

// handleRoute is an address handle as control calls see it.
type handleRoute struct {
	owner *Client
	pd    uint32
	route route
}

// CreateAH finds the way to a peer and keeps it under a handle. Until when it waits
// for the next hop, and its errors, are those of Modify with AV.
func (c *Client) CreateAH(ctx context.Context, pd uint32, av *ibv.AddressVector) (uint32, error) {
	if err := c.enterPD(pd); err != nil {
		return 0, err
	}
	var h uint32
	err := c.patiently(ctx, func(ctx context.Context) (err error) {
		h, err = c.createAH(ctx, pd, av)
		return err
	})
	if err != nil {
		c.dev.leavePD(pd)
	}
	return h, err
}

func (c *Client) createAH(ctx context.Context, pd uint32, av *ibv.AddressVector) (uint32, error) {
	d := c.dev
	if av == nil {
		return 0, fmt.Errorf("%w: no address vector", ErrInvalid)
	}
	for {
		changes := d.changes.Load()
		self, r, err := d.findRoute(ctx, av)
		if err != nil {
			return 0, err
		}
		if err := transport.CheckAddress(av, self); err != nil {
			return 0, err
		}
		r.fields.UDPSrcPort = wire.FlowLabelToPort(r.fields.FlowLabel)
		d.mu.Lock()
		if d.changes.Load() == changes {
			defer d.mu.Unlock()
			return c.addAH(pd, av, &r)
		}
		d.mu.Unlock() // what was found may be true no more
	}
}

// addAH makes the handle of a route. The device's lock is held.
func (c *Client) addAH(pd uint32, av *ibv.AddressVector, r *route) (uint32, error) {
	d := c.dev
	a := &address{pd: pd, spread: r.fields.FlowLabel == 0, group: r.group, gid: av.DGID}
	if err := a.at.lay(r); err != nil {
		return 0, err
	}
	if len(d.handles) >= maxAH {
		return 0, fmt.Errorf("%w: %d address handles", ErrLimit, maxAH)
	}
	if err := c.admit(&c.use.AHs, c.limits.AHs, "address handles"); err != nil {
		return 0, err
	}
	for {
		d.lastAH++
		if d.lastAH != 0 && !d.addresses.taken(d.lastAH) {
			break
		}
	}
	a.handle = d.lastAH
	d.handles[a.handle] = &handleRoute{owner: c, pd: pd, route: *r}
	d.addresses.put(a.handle, a)
	return a.handle, nil
}

// DestroyAH frees a handle and returns when no frame is laid out by it any more.
func (c *Client) DestroyAH(handle uint32) error {
	d := c.dev
	d.mu.Lock()
	ok := c.leaveAH(handle)
	gone := c.gone()
	d.mu.Unlock()
	switch {
	case gone: // it went with the device, or with the client
		return nil
	case !ok:
		return fmt.Errorf("%w: no address handle %#x", ErrInvalid, handle)
	}
	// Who looked it up before holds a worker's lock.
	for _, w := range d.workers {
		if w.quiesce() != nil {
			return nil // the device is closed: nothing runs after it
		}
	}
	return nil
}

// leaveAH takes a handle of the client out of the table and reports whether it has
// it. The device's lock is held.
func (c *Client) leaveAH(handle uint32) bool {
	d := c.dev
	h := d.handles[handle]
	if h == nil || h.owner != c {
		return false
	}
	delete(d.handles, handle)
	d.addresses.put(handle, nil)
	d.dropFromPD(h.pd)
	c.use.AHs--
	return true
}

// changeHandles lets change alter the routes of address handles and makes the
// headers of those for which it returns true again.
func (d *Device) changeHandles(change func(r *route) bool) {
	walk(d, keysOf(d, d.handles), func(handle uint32) {
		h := d.handles[handle]
		if h == nil || !change(&h.route) {
			return
		}
		next := *d.addresses.get(handle)
		if next.at.lay(&h.route) == nil {
			d.addresses.put(handle, &next)
		}
	})
}
