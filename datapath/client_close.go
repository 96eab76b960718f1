package datapath

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/memory"
)

// Close destroys everything that the client has, whatever it is doing, and returns
// when no worker uses its queues or touches its memory any more. Who calls it,
// NextEvent or WaitEvent later, or waits in them, is told ErrClosed. Closing twice is
// no error. Peers of its connections hear nothing more.
func (c *Client) Close() error {
	d := c.dev
	d.mu.Lock()
	first := !c.closed.Swap(true) // from here on nothing is added
	if first {
		close(c.done)
		d.setClients(slices.DeleteFunc(slices.Clone(*d.clients.Load()), func(o *Client) bool { return o == c }))
	}
	d.mu.Unlock()
	c.events.close()
	c.closing.Lock() // the second waits for the first
	defer c.closing.Unlock()
	if d.closed.Load() || !first {
		return nil
	}
	var errs []error
	for _, q := range c.queuePairs() {
		errs = append(errs, q.Destroy())
	}
	for _, s := range owned(d, d.srqs, func(s *srq) bool { return s.owner == c }) {
		errs = append(errs, s.Destroy())
	}
	c.leaveDomains()
	for _, q := range owned(d, d.cqs, func(q *cq) bool { return q.owner == c }) {
		errs = append(errs, q.Destroy())
	}
	c.leave()
	d.eventsLost.Add(c.events.lostCount())
	return errors.Join(append(errs, c.dropMemory())...)
}

// owned are the keys of a map of the device that are the client's.
func owned[K comparable](d *Device, m map[K]struct{}, mine func(K) bool) (list []K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range m {
		if mine(k) {
			list = append(list, k)
		}
	}
	return list
}

// destroyer is a queue pair, or a handle on a target.
type destroyer interface{ Destroy() error }

// queuePairs are the client's, and its handles on targets, which others may have
// too.
func (c *Client) queuePairs() (list []destroyer) {
	targets := owned(c.dev, c.dev.qps, func(q *qp) bool {
		if q.xrcd == nil && q.owner == c {
			list = append(list, q)
		}
		return q.xrcd != nil
	})
	for _, q := range targets {
		if q.w.acquire() != nil {
			return list // the device is closed
		}
		for _, h := range q.targets {
			if h.owner == c {
				list = append(list, h)
			}
		}
		q.w.release(controller)
	}
	return list
}

// leaveDomains gives up the XRC domains that the client has open.
func (c *Client) leaveDomains() {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	for _, x := range slices.Collect(maps.Values(c.dev.xrcds)) {
		for x.opens[c] != 0 {
			c.leaveOpen(x)
		}
	}
}

// dropMemory takes the client's keys and address handles out of their tables, lets
// every worker pass a point where it uses none of them, and frees what is left.
func (c *Client) dropMemory() error {
	d := c.dev
	d.mu.Lock()
	for h := range d.handles {
		c.leaveAH(h)
	}
	mine := map[uint64]*registered{}
	for h, m := range d.mrs {
		if m.owner == c {
			mine[h] = m
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, aliases := range []bool{true, false} { // what is bound goes before what it is bound to
		errs = append(errs, c.dropRegions(mine, aliases)...)
	}
	if d.settleMemory() != nil {
		return nil // the device was closed meanwhile, which is reported to who closes it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for pd, m := range d.pds {
		if m.owner == c {
			delete(d.pds, pd)
			c.use.PDs--
		}
	}
	for k, b := range d.buffers {
		if b.owner == c {
			delete(d.buffers, k)
			errs = append(errs, unix.Munmap(b.mem))
		}
	}
	return errors.Join(errs...)
}

// dropRegions takes windows and fast regions, or the others, out of the table. One
// that another call has taken out at the same time is gone as well.
func (c *Client) dropRegions(mine map[uint64]*registered, aliases bool) (errs []error) {
	for len(mine) != 0 {
		left := len(mine)
		for h, m := range mine {
			if (m.alias != nil) != aliases {
				continue
			}
			var err error
			var pd memory.PD
			if m.alias != nil {
				pd, err = m.alias.PD(), c.dev.mem.Dealloc(m.alias)
			} else {
				pd, err = m.r.PD(), c.dev.mem.Deregister(m.r)
			}
			if errors.Is(err, memory.ErrBound) {
				continue // by one of those that come after it
			}
			if err != nil && !errors.Is(err, memory.ErrNotRegistered) {
				errs = append(errs, err)
			}
			delete(mine, h)
			c.dev.leaveRegion(h, pd)
		}
		if len(mine) == left {
			return errs
		}
	}
	return errs
}
