package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Memory of a client that is another process. The client names it by addresses of
// its own; here it is a mapping of the same pages, or can be copied through a
// descriptor only. The client may take it away at any moment: the access that finds
// it gone fails at its queue pair, and the region with it, unless it is ON_DEMAND.

// RegisterShared makes a region of memory that a client knows as the bytes from start
// on and that is mapped here as backing, which stays mapped until the region is gone.
func (c *Client) RegisterShared(pd uint32, start uint64, backing []byte, access ibv.Access) (verbs.ProviderMR, error) {
	return c.register(pd, uint64(len(backing)), func() (*memory.Region, error) {
		return c.dev.mem.RegisterRevocable(memory.PD(pd), start, backing, access)
	})
}

// RegisterIndirect makes a region of the n bytes from start on that through reaches,
// by system calls. Remote atomics are refused. The last bytes of a message are written
// last.
func (c *Client) RegisterIndirect(pd uint32, start, n uint64, through memory.Indirect, access ibv.Access) (verbs.ProviderMR, error) {
	if n > maxMRSize {
		return verbs.ProviderMR{}, fmt.Errorf("%w: a region of %d bytes: at most %d are possible", ErrInvalid, n, uint64(maxMRSize))
	}
	return c.register(pd, n, func() (*memory.Region, error) {
		return c.dev.mem.RegisterIndirect(memory.PD(pd), start, n, through, access)
	})
}

// RegisterAll makes all memory that through reaches one region, as RegisterImplicit
// does with that of this process. It does not count as registered bytes.
func (c *Client) RegisterAll(pd uint32, through memory.Indirect, access ibv.Access) (verbs.ProviderMR, error) {
	return c.register(pd, 0, func() (*memory.Region, error) {
		return c.dev.mem.RegisterImplicit(memory.PD(pd), through, access)
	})
}

// ReregisterShared is ReregisterMemory with memory as of RegisterShared; to.Buf does
// not count.
func (c *Client) ReregisterShared(mr verbs.ProviderMR, to *verbs.ProviderRereg, start uint64, backing []byte) (verbs.ProviderMR, error) {
	return c.reregister(mr, &memory.Change{
		Flags: to.Flags, PD: memory.PD(to.PD), Access: to.Access, VA: start, Data: backing, Foreign: true,
	}, uint64(len(backing)))
}

// ReregisterIndirect is ReregisterMemory with memory as of RegisterIndirect; to.Buf
// does not count.
func (c *Client) ReregisterIndirect(mr verbs.ProviderMR, to *verbs.ProviderRereg, start, n uint64, through memory.Indirect) (verbs.ProviderMR, error) {
	if to.Flags&ibv.ReregTranslation != 0 && (through == nil || n > maxMRSize) {
		return mr, fmt.Errorf("%w: a region of %d bytes: memory to reach, and at most %d bytes, are needed", ErrInvalid, n, uint64(maxMRSize))
	}
	return c.reregister(mr, &memory.Change{
		Flags: to.Flags, PD: memory.PD(to.PD), Access: to.Access, VA: start, Len: n, Ind: through,
	}, n)
}
