package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ReregisterMemory changes a region as flags say and returns when no worker goes
// by what it was. On an error the region is what it was.
func (c *Client) ReregisterMemory(mr verbs.ProviderMR, to *verbs.ProviderRereg) (verbs.ProviderMR, error) {
	return c.reregister(mr, &memory.Change{
		Flags: to.Flags, PD: memory.PD(to.PD), VA: memory.AddressOf(to.Buf), Data: to.Buf, Access: to.Access,
	}, uint64(len(to.Buf)))
}

// reregister changes a region; with ReregTranslation bytes of memory count for the
// client instead of those that did.
func (c *Client) reregister(mr verbs.ProviderMR, change *memory.Change, bytes uint64) (verbs.ProviderMR, error) {
	d := c.dev
	if change.Flags&ibv.ReregPD != 0 {
		if err := c.enterPD(uint32(change.PD)); err != nil {
			return mr, err
		}
	}
	n, err := c.replaceRegion(mr, change, bytes)
	if err != nil {
		if change.Flags&ibv.ReregPD != 0 {
			d.leavePD(uint32(change.PD))
		}
		return mr, busyIfBound(err)
	}
	return verbs.ProviderMR{Handle: mr.Handle, Addr: n.Start(), LKey: n.LKey(), RKey: n.RKey()}, d.settleMemory()
}

// replaceRegion puts a changed region in the place of that of mr.
func (c *Client) replaceRegion(mr verbs.ProviderMR, change *memory.Change, bytes uint64) (*memory.Region, error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	m := c.region(mr.Handle)
	switch {
	case c.gone(): // who closes it has seen all its regions, or will
		return nil, ErrClosed
	case m == nil || m.r == nil:
		return nil, fmt.Errorf("%w: no memory region with lkey %#x", ErrInvalid, mr.LKey)
	case change.Flags&ibv.ReregTranslation == 0:
		bytes = m.bytes
	case bytes > m.bytes:
		if err := c.admitBytes(bytes - m.bytes); err != nil {
			return nil, err
		}
	}
	was := m.r.PD()
	n, err := d.mem.Reregister(m.r, change)
	if err != nil {
		return nil, err
	}
	c.use.Bytes += bytes - m.bytes
	m.r, m.bytes = n, bytes
	if change.Flags&ibv.ReregPD != 0 {
		d.dropFromPD(uint32(was))
	}
	return n, nil
}

// AdviseMemory has the kernel bring pages of regions into memory before they are
// used. A software device has no page tables of its own, which prefetching that
// takes no faults would fill.
func (c *Client) AdviseMemory(pd uint32, advice ibv.Advice, sges []verbs.SGE) error {
	if err := c.ownsPD(pd); err != nil {
		return err
	}
	need := ibv.Access(0)
	switch advice {
	case ibv.AdvisePrefetch, ibv.AdvisePrefetchNoFault:
	case ibv.AdvisePrefetchWrite:
		need = ibv.AccessLocalWrite
	default:
		return fmt.Errorf("%w: advice %d: 0 to 2 are known", ErrInvalid, advice)
	}
	for i, e := range sges {
		r, fault := c.dev.mem.Check(e.LKey, memory.PD(pd), need, e.Addr, uint64(e.Length))
		if fault != memory.FaultNone {
			return fmt.Errorf("%w: entry %d, %d bytes at %#x: %v", ErrInvalid, i, e.Length, e.Addr, fault)
		}
		if advice == ibv.AdvisePrefetchNoFault || e.Length == 0 {
			continue
		}
		if err := prefetch(r, e.Addr, uint64(e.Length), advice == ibv.AdvisePrefetchWrite); err != nil {
			return fmt.Errorf("entry %d, %d bytes at %#x: not all pages are there: %w", i, e.Length, e.Addr, err)
		}
	}
	return nil
}

// prefetch brings the pages of n bytes at va of a region into memory. An implicit
// region of this process has them at their own addresses; memory that is only reached
// through its own process is none of ours to bring anywhere.
func prefetch(r *memory.Region, va, n uint64, write bool) error {
	if b := r.Backing(va, int(n)); b != nil {
		return shm.Prefetch(memory.AddressOf(b), n, write)
	}
	if _, ok := r.Through().(selfMemory); ok {
		return shm.Prefetch(va, n, write)
	}
	return nil
}
