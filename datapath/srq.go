package datapath

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// srq is a shared receive queue. It implements verbs.ProviderSRQ. All queue pairs
// that use it live on its worker: the engine takes receives without a lock.
type srq struct {
	dev   *Device
	owner *Client
	w     *worker
	t     *transport.SRQ
	pd    uint32

	xrcd *xrcd // nil: not of an XRC domain
	cq   *cq   // of one that is

	users int  // queue pairs; guarded by the device's lock
	gone  bool // guarded by the device's lock

	// modify is held from the start of a change to its end; before the device's and the
	// worker's lock. Who changes what follows has state as well, for a moment.
	modify sync.Mutex
	state  sync.Mutex
	ring   *queue.Ring
	attr   ibv.SRQAttr // capacities; the limit is the engine's
}

// CreateSRQ makes a shared receive queue on the worker of its XRC domain, or on the
// one that has fewest queue pairs and, of these, fewest such queues.
func (c *Client) CreateSRQ(init *verbs.ProviderSRQInit) (verbs.ProviderSRQ, error) {
	attr, pd := &init.Attr, init.PD
	if attr.MaxSGE < 1 || attr.MaxSGE > ibv.MaxSGE {
		return nil, fmt.Errorf("%w: MaxSGE is %d: 1 to %d are possible", ErrInvalid, attr.MaxSGE, ibv.MaxSGE)
	}
	if err := checkSRQ(attr); err != nil {
		return nil, err
	}
	ring, err := c.newRing(attr.MaxWR, queue.RecvElemSize(attr.MaxSGE))
	if err != nil {
		return nil, err
	}
	s := &srq{dev: c.dev, owner: c, pd: pd, ring: ring, attr: *attr}
	if err := c.createSRQ(s, init); err != nil {
		c.freeRing(ring)
		return nil, err
	}
	return s, nil
}

func (c *Client) createSRQ(s *srq, init *verbs.ProviderSRQInit) (err error) {
	if init.XRCD != 0 {
		var ok bool
		if s.cq, ok = c.ownCQ(init.CQ, true); !ok {
			return fmt.Errorf("%w: the completion queue is not of this device", ErrInvalid)
		}
		if s.xrcd, err = c.enterXRCD(init.XRCD); err != nil {
			return err
		}
	}
	if err := c.enterPD(s.pd); err != nil {
		s.leave()
		return err
	}
	if err := c.admitSRQ(s); err != nil {
		c.dev.leavePD(s.pd)
		s.leave()
		return err
	}
	return nil
}

// leave gives up the place in an XRC domain.
func (s *srq) leave() {
	if s.xrcd != nil {
		s.dev.leaveXRCD(s.xrcd)
	}
}

// admitSRQ gives s a worker and, in an XRC domain, a number.
func (c *Client) admitSRQ(s *srq) error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.srqs) >= maxSRQ {
		return fmt.Errorf("%w: %d shared receive queues", ErrLimit, maxSRQ)
	}
	if s.cq.isGone() {
		return fmt.Errorf("%w: the completion queue was destroyed", ErrInvalid)
	}
	if err := c.admit(&c.use.SRQs, c.limits.SRQs, "shared receive queues"); err != nil {
		return err
	}
	if s.xrcd == nil {
		s.w, s.t = d.idlest(), transport.NewSRQ(s.ring, memory.PD(s.pd))
	} else {
		s.w, s.t = s.xrcd.w, transport.NewXRCSRQ(s.ring, memory.PD(s.pd), s.cq.t, d.srqNumber())
	}
	s.t.Owner = s
	s.t.SetLimit(s.attr.Limit)
	if s.xrcd != nil {
		if err := s.w.control(func() { s.xrcd.t.Add(s.t) }); err != nil {
			c.use.SRQs--
			return err
		}
		d.srqNumbers[s.t.Num()] = struct{}{}
		s.cq.use(s, s.w)
	}
	d.srqs[s] = struct{}{}
	s.w.srqs++
	return nil
}

// Num is the number by which requests of XRC name the queue, 0 without a domain.
func (s *srq) Num() uint32 { return s.t.Num() }

func checkSRQ(a *ibv.SRQAttr) error {
	if a.MaxWR < 1 || a.MaxWR > ibv.MaxQPWR || a.Limit < 0 || a.Limit > a.MaxWR {
		return fmt.Errorf("%w: MaxWR is %d, Limit %d: 1 to %d and 0 to MaxWR are possible", ErrInvalid, a.MaxWR, a.Limit, ibv.MaxQPWR)
	}
	return nil
}

// Ring carries the receives.
func (s *srq) Ring() *queue.Ring {
	s.state.Lock()
	defer s.state.Unlock()
	return s.ring
}

// Modify arms the limit and gives the queue another size. On an error nothing has
// changed.
func (s *srq) Modify(attr *ibv.SRQAttr, mask ibv.SRQAttrMask) error {
	if err := checkSRQ(attr); err != nil {
		return err
	}
	s.modify.Lock()
	defer s.modify.Unlock()
	old := s.ring
	ring := old
	if mask&ibv.SRQAttrMaxWR != 0 {
		var err error
		if ring, err = s.owner.newRing(attr.MaxWR, queue.RecvElemSize(s.attr.MaxSGE)); err != nil {
			return err
		}
	}
	err := s.move(ring, attr.MaxWR, func() {
		if mask&ibv.SRQAttrLimit != 0 {
			s.t.SetLimit(attr.Limit)
		}
		if ring != old {
			s.state.Lock()
			s.ring, s.attr.MaxWR = ring, attr.MaxWR
			s.state.Unlock()
		}
	})
	if ring != old {
		unused := old
		if err != nil {
			unused = ring
		}
		s.owner.freeRing(unused)
	}
	return err
}

// move has the worker go on in ring, if that is another, and then do f. Where many
// receives are posted it is not kept from its work while they are copied.
func (s *srq) move(ring *queue.Ring, maxWR int, f func()) error {
	var merr error
	if ring == s.ring {
		return s.w.control(f)
	}
	var m *transport.SRQMove
	err := s.w.control(func() {
		// The ring may have room for more than it was asked for.
		if n := s.t.Posted(); n > maxWR {
			merr = fmt.Errorf("%w: MaxWR is %d: %d receives are posted", ErrInvalid, maxWR, n)
			return
		}
		m, merr = s.t.StartMove(ring)
	})
	if err = cmp.Or(err, merr); err != nil {
		return err
	}
	m.Copy()
	err = s.w.control(func() {
		if merr = m.Finish(); merr == nil {
			f()
		}
	})
	return cmp.Or(err, merr)
}

// Query tells the capacities and the armed limit.
func (s *srq) Query() (attr ibv.SRQAttr, err error) {
	if err := s.w.acquire(); err != nil {
		return attr, err
	}
	s.state.Lock()
	attr = s.attr
	s.state.Unlock()
	attr.Limit = s.t.Limit()
	s.w.release(controller)
	return attr, nil
}

// Destroy frees the queue. It is ErrBusy while queue pairs use it; targets of its
// domain find that it is gone. Destroying twice is no error.
func (s *srq) Destroy() error {
	s.modify.Lock() // nobody changes the ring meanwhile
	defer s.modify.Unlock()
	free, err := s.destroy()
	if free {
		s.owner.freeRing(s.ring)
	}
	return err
}

// destroy is Destroy but for the memory of the ring, and reports whether that is to be
// freed.
func (s *srq) destroy() (free bool, err error) {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.gone {
		return false, nil
	}
	if s.users != 0 && !d.closed.Load() {
		return false, fmt.Errorf("%w: %d queue pairs take receives from the queue: destroy them first", ErrBusy, s.users)
	}
	s.gone = true
	s.owner.events.forget(s)
	if s.xrcd != nil {
		// An error says that the device is closed, and nobody looks any more.
		_ = s.w.control(func() { s.xrcd.t.Remove(s.t) })
		delete(d.srqNumbers, s.t.Num())
		s.cq.unuse(s)
		s.xrcd.users--
		d.dropXRCD(s.xrcd)
	}
	s.w.srqs--
	delete(d.srqs, s)
	s.owner.use.SRQs--
	d.dropFromPD(s.pd)
	return !d.closed.Load(), nil
}
