package datapath

import (
	"errors"
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

// owned are the keys of a map of the device that are the client's: who owns an object
// does not change.
func owned[K comparable](d *Device, m map[K]struct{}, mine func(K) bool) []K {
	return slices.DeleteFunc(keysOf(d, m), func(k K) bool { return !mine(k) })
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
	d := c.dev
	for _, id := range keysOf(d, d.xrcds) {
		d.mu.Lock()
		for x := d.xrcds[id]; x != nil && x.opens[c] != 0; {
			c.leaveOpen(x)
		}
		d.mu.Unlock()
	}
}

// dropMemory takes the client's keys and address handles out of their tables, lets
// every worker pass a point where it uses none of them, and frees what is left.
func (c *Client) dropMemory() error {
	d := c.dev
	walk(d, keysOf(d, d.handles), func(h uint32) { c.leaveAH(h) })
	var aliases, regions []uint64
	walk(d, keysOf(d, d.mrs), func(h uint64) {
		switch m := c.region(h); {
		case m == nil:
		case m.alias != nil:
			aliases = append(aliases, h)
		default:
			regions = append(regions, h)
		}
	})
	errs := append(c.dropRegions(aliases), c.dropRegions(regions)...) // what is bound goes before what it is bound to
	if d.settleMemory() != nil {
		return nil // the device was closed meanwhile, which is reported to who closes it
	}
	walk(d, keysOf(d, d.pds), func(pd uint32) {
		if m := d.pds[pd]; m != nil && m.owner == c {
			delete(d.pds, pd)
			c.use.PDs--
		}
	})
	var unused [][]byte
	walk(d, keysOf(d, d.buffers), func(k uint64) {
		if b := d.buffers[k]; b.owner == c {
			delete(d.buffers, k)
			unused = append(unused, b.mem)
		}
	})
	for _, b := range unused {
		errs = append(errs, unix.Munmap(b))
	}
	return errors.Join(errs...)
}

// dropRegions takes what handles stand for out of the table of keys. One that another
// call has taken out at the same time is gone as well. The device's lock is given back
// after each: there may be many.
func (c *Client) dropRegions(handles []uint64) (errs []error) {
	d := c.dev
	for len(handles) != 0 {
		var bound []uint64
		for _, h := range handles {
			d.mu.Lock()
			var err error
			if m := c.region(h); m != nil {
				err = d.dropRegion(h, m)
			}
			d.mu.Unlock()
			switch {
			case errors.Is(err, memory.ErrBound): // by one of those that come after it
				bound = append(bound, h)
			case err != nil:
				errs = append(errs, err)
			}
		}
		if len(bound) == len(handles) {
			return errs
		}
		handles = bound
	}
	return errs
}
