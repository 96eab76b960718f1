package datapath

import (
	"cmp"
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
	id   uint32
	name string // "": only its creator has it
	w    *worker
	t    *transport.XRCD

	opens int // guarded by the device's lock, as what follows
	users int // queues and targets
}

// OpenXRCD opens the domain of a name, or a new one without.
func (d *Device) OpenXRCD(attr *verbs.XRCDInitAttr) (uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return 0, ErrClosed
	}
	if x := d.xrcdNamed(attr.Name); x != nil {
		if attr.Create && attr.Exclusive {
			return 0, fmt.Errorf("%w: an XRC domain %q", fs.ErrExist, attr.Name)
		}
		x.opens++
		return x.id, nil
	}
	switch {
	case attr.Name != "" && !attr.Create:
		return 0, fmt.Errorf("%w: no XRC domain %q: set Create to make it", fs.ErrNotExist, attr.Name)
	case len(d.xrcds) >= maxXRCD:
		return 0, fmt.Errorf("%w: %d XRC domains", ErrLimit, maxXRCD)
	}
	for d.lastXRCD++; d.lastXRCD == 0 || d.xrcds[d.lastXRCD] != nil; {
		d.lastXRCD++
	}
	x := &xrcd{id: d.lastXRCD, name: attr.Name, w: d.idlest(), t: transport.NewXRCD(), opens: 1}
	d.xrcds[x.id] = x
	return x.id, nil
}

// xrcdNamed is the domain of a name, nil if there is none. The device's lock is held.
func (d *Device) xrcdNamed(name string) *xrcd {
	if name == "" {
		return nil
	}
	for _, x := range d.xrcds {
		if x.name == name {
			return x
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
func (d *Device) CloseXRCD(id uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.xrcds[id]
	switch {
	case d.closed.Load():
		return nil // it is gone with the device
	case x == nil:
		return fmt.Errorf("%w: no XRC domain %d", ErrInvalid, id)
	case x.opens == 1 && x.users != 0:
		return fmt.Errorf("%w: %d shared receive queues and targets use the XRC domain: destroy them first", ErrBusy, x.users)
	}
	if x.opens--; x.opens == 0 {
		delete(d.xrcds, id)
	}
	return nil
}

// enterXRCD counts an object of the domain; leaveXRCD undoes it.
func (d *Device) enterXRCD(id uint32) (*xrcd, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.xrcds[id]
	if x == nil {
		return nil, fmt.Errorf("%w: no XRC domain %d", ErrInvalid, id)
	}
	x.users++
	return x, nil
}

func (d *Device) leaveXRCD(x *xrcd) {
	d.mu.Lock()
	x.users--
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
	gone bool // guarded by the worker's lock
}

// createTarget makes a target on the worker of its domain.
func (d *Device) createTarget(attr *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if attr.SendCQ != nil || attr.RecvCQ != nil || attr.SRQ != nil || attr.PD != 0 || attr.Cap != (ibv.QPCap{}) {
		return nil, fmt.Errorf("%w: an XRC target has no queues and no protection domain", ErrInvalid)
	}
	if !attr.Congestion.Valid() {
		return nil, fmt.Errorf("%w: congestion control %v", ErrInvalid, attr.Congestion)
	}
	x, err := d.enterXRCD(attr.XRCD)
	if err != nil {
		return nil, err
	}
	q := &qp{dev: d, xrcd: x, timerPos: noTimer}
	q.cfg = transport.Config{Type: attr.Type, Context: attr.Context, XRCD: x.t, DCQCN: d.dcqcn(attr.Congestion), Owner: q}
	h := &target{qp: q}
	q.targets = []*target{h}
	if err := d.enroll(q, nil, nil); err != nil {
		d.leaveXRCD(x)
		return nil, err
	}
	return h, nil
}

// OpenQP makes one more handle on a target of the domain.
func (d *Device) OpenQP(id, qpn uint32) (verbs.ProviderQP, error) {
	x, err := d.enterXRCD(id)
	if err != nil {
		return nil, err
	}
	defer d.leaveXRCD(x)
	h := &target{qp: d.table.get(qpn)}
	if h.qp == nil || h.xrcd != x {
		return nil, fmt.Errorf("%w: the XRC domain has no target %#x", ErrInvalid, qpn)
	}
	ok := false
	if err := h.w.control(func() {
		if ok = len(h.targets) != 0; ok {
			h.targets = append(h.targets, h)
		}
	}); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: target %#x is being destroyed", ErrInvalid, qpn)
	}
	return h, nil
}

// Destroy gives the handle up; the last takes the queue pair along.
func (h *target) Destroy() error {
	last := false
	if err := h.w.control(func() {
		if h.gone {
			return
		}
		h.gone = true
		h.targets = slices.DeleteFunc(h.targets, func(o *target) bool { return o == h })
		last = len(h.targets) == 0
	}); err != nil {
		return nil // the device is closed: nothing is left of the queue pair
	}
	h.dev.events.forget(h)
	if !last {
		return nil
	}
	return h.qp.Destroy()
}
