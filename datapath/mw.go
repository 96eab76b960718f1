package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// AllocMW makes a memory window that work requests bind.
func (d *Device) AllocMW(pd uint32, typ ibv.MWType) (verbs.ProviderMW, error) {
	h, a, err := d.allocAlias(pd, func() (*memory.Alias, error) { return d.mem.AllocWindow(memory.PD(pd), typ) })
	if err != nil {
		return verbs.ProviderMW{}, err
	}
	return verbs.ProviderMW{Handle: h, RKey: a.Key()}, nil
}

// DeallocMW frees a memory window and returns when no worker goes through it any
// more.
func (d *Device) DeallocMW(mw verbs.ProviderMW) error { return d.deallocAlias(mw.Handle, mw.RKey) }

// AllocFastMR makes a region without memory that work requests register.
func (d *Device) AllocFastMR(pd uint32, limit uint64) (verbs.ProviderMR, error) {
	if limit > maxMRSize {
		return verbs.ProviderMR{}, fmt.Errorf("%w: a region for %d bytes: at most %d are possible", ErrInvalid, limit, uint64(maxMRSize))
	}
	h, a, err := d.allocAlias(pd, func() (*memory.Alias, error) { return d.mem.AllocFast(memory.PD(pd), limit) })
	if err != nil {
		return verbs.ProviderMR{}, err
	}
	key := a.Key()
	return verbs.ProviderMR{Handle: h, LKey: key, RKey: key}, nil
}

// DeallocFastMR is DeallocMW for a region of AllocFastMR. It is ErrBusy while
// windows are bound to it.
func (d *Device) DeallocFastMR(mr verbs.ProviderMR) error {
	return d.deallocAlias(mr.Handle, mr.LKey)
}

func (d *Device) allocAlias(pd uint32, alloc func() (*memory.Alias, error)) (uint64, *memory.Alias, error) {
	if err := d.enterPD(pd); err != nil {
		return 0, nil, err
	}
	a, err := alloc()
	if err != nil {
		d.leavePD(pd)
		return 0, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastMR++
	d.aliases[d.lastMR] = a
	return d.lastMR, a, nil
}

// deallocAlias frees the alias of a handle; key was its first.
func (d *Device) deallocAlias(handle uint64, key uint32) error {
	d.mu.Lock()
	a := d.aliases[handle]
	d.mu.Unlock()
	if d.closed.Load() {
		return d.Close() // which returns when nobody touches memory any more
	}
	if a == nil {
		return fmt.Errorf("%w: no memory window or fast region with index %#x", ErrInvalid, key>>8)
	}
	if err := d.mem.Dealloc(a); err != nil {
		return busyIfBound(err)
	}
	d.mu.Lock()
	delete(d.aliases, handle)
	d.pds[uint32(a.PD())]--
	d.mu.Unlock()
	return d.settleMemory()
}
