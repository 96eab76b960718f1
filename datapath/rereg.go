package datapath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ReregisterMemory changes a region as flags say and returns when no worker goes
// by what it was. On an error the region is what it was.
func (d *Device) ReregisterMemory(mr verbs.ProviderMR, c *verbs.ProviderRereg) (verbs.ProviderMR, error) {
	d.mu.Lock()
	r := d.mrs[mr.Handle]
	d.mu.Unlock()
	if d.closed.Load() {
		return mr, ErrClosed
	}
	if r == nil {
		return mr, fmt.Errorf("%w: no memory region with lkey %#x", ErrInvalid, mr.LKey)
	}
	if c.Flags&ibv.ReregPD != 0 {
		if err := d.enterPD(c.PD); err != nil {
			return mr, err
		}
	}
	n, err := d.mem.Reregister(r, &memory.Change{
		Flags: c.Flags, PD: memory.PD(c.PD), VA: memory.AddressOf(c.Buf), Data: c.Buf, Access: c.Access,
	})
	if err != nil {
		if c.Flags&ibv.ReregPD != 0 {
			d.leavePD(c.PD)
		}
		return mr, busyIfBound(err)
	}
	d.mu.Lock()
	d.mrs[mr.Handle] = n
	if c.Flags&ibv.ReregPD != 0 {
		d.pds[uint32(r.PD())]--
	}
	d.mu.Unlock()
	return verbs.ProviderMR{Handle: mr.Handle, Addr: n.Start(), LKey: n.LKey(), RKey: n.RKey()}, d.settleMemory()
}

// AdviseMemory has the kernel bring pages of regions into memory before they are
// used. A software device has no page tables of its own, which prefetching that
// takes no faults would fill.
func (d *Device) AdviseMemory(pd uint32, advice ibv.Advice, sges []verbs.SGE) error {
	how, need := unix.MADV_POPULATE_READ, ibv.Access(0)
	switch advice {
	case ibv.AdvisePrefetch, ibv.AdvisePrefetchNoFault:
	case ibv.AdvisePrefetchWrite:
		how, need = unix.MADV_POPULATE_WRITE, ibv.AccessLocalWrite
	default:
		return fmt.Errorf("%w: advice %d: 0 to 2 are known", ErrInvalid, advice)
	}
	for i, e := range sges {
		if _, fault := d.mem.Check(e.LKey, memory.PD(pd), need, e.Addr, uint64(e.Length)); fault != memory.FaultNone {
			return fmt.Errorf("%w: entry %d, %d bytes at %#x: %v", ErrInvalid, i, e.Length, e.Addr, fault)
		}
		if advice == ibv.AdvisePrefetchNoFault || e.Length == 0 {
			continue
		}
		if err := populate(e.Addr, uint64(e.Length), how); err != nil {
			return fmt.Errorf("entry %d, %d bytes at %#x: not all pages are there: %w", i, e.Length, e.Addr, err)
		}
	}
	return nil
}

// populate brings the pages of n bytes at addr into memory. Regions of this device
// are named by the addresses that their memory has.
func populate(addr, n uint64, how int) error {
	page := uint64(os.Getpagesize())
	start := addr &^ (page - 1)
	end := (addr + n + page - 1) &^ (page - 1)
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), uintptr(how))
	if errno != 0 {
		return errno
	}
	return nil
}
