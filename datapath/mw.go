package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// AllocMW makes a memory window that work requests bind.
func (c *Client) AllocMW(pd uint32, typ ibv.MWType) (verbs.ProviderMW, error) {
	h, a, err := c.allocAlias(pd, func() (*memory.Alias, error) { return c.dev.mem.AllocWindow(memory.PD(pd), typ) })
	if err != nil {
		return verbs.ProviderMW{}, err
	}
	return verbs.ProviderMW{Handle: h, RKey: a.Key()}, nil
}

// DeallocMW frees a memory window and returns when no worker goes through it any
// more.
func (c *Client) DeallocMW(mw verbs.ProviderMW) error { return c.deallocAlias(mw.Handle, mw.RKey) }

// AllocFastMR makes a region without memory that work requests register.
func (c *Client) AllocFastMR(pd uint32, limit uint64) (verbs.ProviderMR, error) {
	if limit > maxMRSize {
		return verbs.ProviderMR{}, fmt.Errorf("%w: a region for %d bytes: at most %d are possible", ErrInvalid, limit, uint64(maxMRSize))
	}
	h, a, err := c.allocAlias(pd, func() (*memory.Alias, error) { return c.dev.mem.AllocFast(memory.PD(pd), limit) })
	if err != nil {
		return verbs.ProviderMR{}, err
	}
	key := a.Key()
	return verbs.ProviderMR{Handle: h, LKey: key, RKey: key}, nil
}

// DeallocFastMR is DeallocMW for a region of AllocFastMR. It is ErrBusy while
// windows are bound to it.
func (c *Client) DeallocFastMR(mr verbs.ProviderMR) error {
	return c.deallocAlias(mr.Handle, mr.LKey)
}

func (c *Client) allocAlias(pd uint32, alloc func() (*memory.Alias, error)) (uint64, *memory.Alias, error) {
	if err := c.enterPD(pd); err != nil {
		return 0, nil, err
	}
	a, err := alloc()
	if err != nil {
		c.dev.leavePD(pd)
		return 0, nil, err
	}
	h, err := c.enterRegion(&registered{owner: c, alias: a})
	if err != nil {
		_ = c.dev.mem.Dealloc(a) // nothing is bound to it
		c.dev.leavePD(pd)
		return 0, nil, err
	}
	return h, a, nil
}

// deallocAlias frees the alias of a handle; key was its first.
func (c *Client) deallocAlias(handle uint64, key uint32) error {
	return c.endRegion(handle, true, "no memory window or fast region with index", key>>8)
}
