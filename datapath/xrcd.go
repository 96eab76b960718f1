package datapath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// xrcd is an XRC domain. Its shared receive queues and targets live on one worker:
// the engine finds a queue, and takes receives from it, without a lock.
type xrcd struct {
	id    uint32
	name  string // "": only its creator has it
	scope string // who shares the name
	w     *worker
	t     *transport.XRCD
	lane  *lane // of its targets, and of those of all domains of the scope at w

	opens map[*Client]int // guarded by the device's lock, as what follows
	users int             // queues and targets
}

// OpenXRCD opens the domain of a name, or a new one without.
func (c *Client) OpenXRCD(attr *verbs.XRCDInitAttr) (uint32, error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.xrcdNamed(c.cfg.Owner, attr.Name)
	switch {
	case c.gone():
		return 0, ErrClosed
	case x != nil && attr.Create && attr.Exclusive:
		return 0, fmt.Errorf("%w: an XRC domain %q", fs.ErrExist, attr.Name)
	case x == nil && attr.Name != "" && !attr.Create:
		return 0, fmt.Errorf("%w: no XRC domain %q: set Create to make it", fs.ErrNotExist, attr.Name)
	case x == nil && len(d.xrcds) >= maxXRCD:
		return 0, fmt.Errorf("%w: %d XRC domains", ErrLimit, maxXRCD)
	}
	if err := c.admit(&c.use.XRCDs, c.limits.XRCDs, "XRC domains"); err != nil {
		return 0, err
	}
	if x == nil {
		for d.lastXRCD++; d.lastXRCD == 0 || d.xrcds[d.lastXRCD] != nil; {
			d.lastXRCD++
		}
		x = &xrcd{
			id: d.lastXRCD, name: attr.Name, scope: c.cfg.Owner, w: d.idlest(), t: transport.NewXRCD(), opens: map[*Client]int{},
		}
		if x.lane = d.laneOfXRCDs(x.scope, x.w); x.lane == nil {
			x.lane = newLane()
			if err := x.w.control(func() { x.w.addLane(x.lane) }); err != nil {
				c.use.XRCDs--
				return 0, err
			}
		}
		d.xrcds[x.id] = x
	}
	x.opens[c]++
	return x.id, nil
}

// xrcdNamed is the domain of a name among those who share it, nil if there is none.
// The device's lock is held.
func (d *Device) xrcdNamed(scope, name string) *xrcd {
	if name == "" {
		return nil
	}
	for _, x := range d.xrcds {
		if x.name == name && x.scope == scope {
			return x
		}
	}
	return nil
}

// laneOfXRCDs is the part of a worker that the domains of a scope have there, nil if
// there are none. However many domains someone makes, they are one client more. The
// device's lock is held.
func (d *Device) laneOfXRCDs(scope string, w *worker) *lane {
	for _, x := range d.xrcds {
		if x.scope == scope && x.w == w {
			return x.lane
		}
	}
	return nil
}

// idlest is the worker that has fewest queue pairs and, of these, fewest shared
// receive queues. The device's lock is held.
func (d *Device) idlest() *worker {
	return slices.MinFunc(d.workers, func(a, b *worker) int {
		return cmp.Or(cmp.Compare(a.qps, b.qps), cmp.Compare(a.srqs, b.srqs))
	})
}

// CloseXRCD undoes one OpenXRCD. It is ErrBusy when it is the last and the domain
// has queues or targets.
func (c *Client) CloseXRCD(id uint32) error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone() {
		return nil // it is gone with the device, or with the client
	}
	x := d.xrcds[id]
	switch {
	case x == nil || x.opens[c] == 0:
		return fmt.Errorf("%w: no XRC domain %d", ErrInvalid, id)
	case x.opens[c] == 1 && len(x.opens) == 1 && x.users != 0:
		return fmt.Errorf("%w: %d shared receive queues and targets use the XRC domain: destroy them first", ErrBusy, x.users)
	}
	c.leaveOpen(x)
	return nil
}

// leaveOpen undoes one OpenXRCD. The device's lock is held.
func (c *Client) leaveOpen(x *xrcd) {
	c.use.XRCDs--
	if x.opens[c]--; x.opens[c] == 0 {
		delete(x.opens, c)
	}
	c.dev.dropXRCD(x)
}

// dropXRCD ends a domain that nobody has open or uses. The device's lock is held.
func (d *Device) dropXRCD(x *xrcd) {
	if len(x.opens) == 0 && x.users == 0 && d.xrcds[x.id] == x {
		delete(d.xrcds, x.id)
		if d.laneOfXRCDs(x.scope, x.w) == nil {
			// An error says that the device is closed.
			_ = x.w.control(func() { x.w.dropLane(x.lane) })
		}
	}
}

// enterXRCD counts an object of the domain; leaveXRCD undoes it.
func (c *Client) enterXRCD(id uint32) (*xrcd, error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.xrcds[id]
	if x == nil || x.opens[c] == 0 {
		return nil, fmt.Errorf("%w: no XRC domain %d", ErrInvalid, id)
	}
	x.users++
	return x, nil
}

func (d *Device) leaveXRCD(x *xrcd) {
	d.mu.Lock()
	x.users--
	d.dropXRCD(x)
	d.mu.Unlock()
}

// srqNumber is a free number for a queue of an XRC domain. The device's lock is
// held.
func (d *Device) srqNumber() uint32 {
	for {
		d.lastSRQN = (d.lastSRQN + 1) & maxSRQN
		if _, used := d.srqNumbers[d.lastSRQN]; !used && d.lastSRQN != 0 {
			return d.lastSRQN
		}
	}
}

// target is one handle on a queue pair of type XRC_RECV, which several programs may
// have. It implements verbs.ProviderQP.
type target struct {
	*qp
	owner *Client
	gone  bool // guarded by the worker's lock
}

// Modify is that of the queue pair, which ends early when the client of this handle does.
func (h *target) Modify(ctx context.Context, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	return h.modifyFor(ctx, h.owner, attr, mask)
}

// createTarget makes a target on the worker of its domain.
func (c *Client) createTarget(attr *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if attr.SendCQ != nil || attr.RecvCQ != nil || attr.SRQ != nil || attr.PD != 0 || attr.Cap != (ibv.QPCap{}) {
		return nil, fmt.Errorf("%w: an XRC target has no queues and no protection domain", ErrInvalid)
	}
	if !attr.Congestion.Valid() {
		return nil, fmt.Errorf("%w: congestion control %v", ErrInvalid, attr.Congestion)
	}
	x, err := c.enterXRCD(attr.XRCD)
	if err != nil {
		return nil, err
	}
	d := c.dev
	q := &qp{dev: d, owner: c, xrcd: x, slot: noSlot, timerPos: noTimer}
	q.cfg = transport.Config{Type: attr.Type, Context: attr.Context, XRCD: x.t, DCQCN: d.dcqcn(attr.Congestion), Owner: q}
	h := &target{qp: q, owner: c}
	q.targets = []*target{h}
	if err := c.enroll(q, nil, nil); err != nil {
		d.leaveXRCD(x)
		return nil, err
	}
	return h, nil
}

// maxHandles is how many handles a target has at most: its worker tells each of its
// events.
const maxHandles = 1024

// OpenQP makes one more handle on a target of the domain. Each counts as a queue pair of
// its client.
func (c *Client) OpenQP(id, qpn uint32) (verbs.ProviderQP, error) {
	d := c.dev
	x, err := c.enterXRCD(id)
	if err != nil {
		return nil, err
	}
	defer d.leaveXRCD(x)
	h := &target{qp: d.table.get(qpn), owner: c}
	if h.qp == nil || h.xrcd != x {
		return nil, fmt.Errorf("%w: the XRC domain has no target %#x", ErrInvalid, qpn)
	}
	if err := c.charge(&c.use.QPs, c.limits.QPs, "queue pairs"); err != nil {
		return nil, err
	}
	if err := h.enter(); err != nil {
		c.discharge(&c.use.QPs)
		return nil, err
	}
	if c.gone() { // who closes it may not have seen the handle
		return nil, errors.Join(ErrClosed, h.Destroy())
	}
	return h, nil
}

// enter makes h one of the handles of its target.
func (h *target) enter() error {
	n := 0
	err := h.w.control(func() {
		if n = len(h.targets); n != 0 && n < maxHandles {
			h.targets = append(h.targets, h)
		}
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: target %#x is being destroyed", ErrInvalid, h.num)
	case n >= maxHandles:
		return fmt.Errorf("%w: target %#x is open %d times", ErrLimit, h.num, n)
	}
	return nil
}

// Destroy gives the handle up; the last takes the queue pair along.
func (h *target) Destroy() error {
	last, was := false, false
	if err := h.w.control(func() {
		if was = h.gone; was {
			return
		}
		h.gone = true
		h.targets = slices.DeleteFunc(h.targets, func(o *target) bool { return o == h })
		last = len(h.targets) == 0
	}); err != nil {
		return nil // the device is closed: nothing is left of the queue pair
	}
	if was {
		return nil
	}
	h.owner.discharge(&h.owner.use.QPs)
	h.owner.events.forget(h)
	if !last {
		return nil
	}
	return h.qp.Destroy()
}
