package datapath

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// protection is a protection domain.
type protection struct {
	owner   *Client
	objects int
}

// registered is a memory region or, with an alias, a key that work requests bind. It
// is guarded by the device's lock: another region may take the place of r.
type registered struct {
	owner *Client
	r     *memory.Region
	alias *memory.Alias
	bytes uint64 // that count for the owner
}

// AllocPD makes a protection domain.
func (c *Client) AllocPD() (uint32, error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pds) >= maxPD {
		return 0, fmt.Errorf("%w: %d protection domains", ErrLimit, maxPD)
	}
	if err := c.admit(&c.use.PDs, c.limits.PDs, "protection domains"); err != nil {
		return 0, err
	}
	for {
		d.lastPD++
		if _, taken := d.pds[d.lastPD]; !taken && d.lastPD != 0 {
			break
		}
	}
	d.pds[d.lastPD] = &protection{owner: c}
	return d.lastPD, nil
}

// DeallocPD frees a protection domain. It is ErrBusy while it has regions, memory
// windows, queue pairs, shared receive queues or address handles.
func (c *Client) DeallocPD(pd uint32) error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone() { // everything went with the device, or with the client
		return nil
	}
	switch m := d.pds[pd]; {
	case m == nil || m.owner != c:
		return fmt.Errorf("%w: no protection domain %d", ErrInvalid, pd)
	case m.objects != 0:
		return fmt.Errorf("%w: %d regions, windows, queue pairs, shared receive queues and address handles are in protection domain %d: destroy them first", ErrBusy, m.objects, pd)
	}
	delete(d.pds, pd)
	c.use.PDs--
	return nil
}

// ownsPD reports whether pd is the client's.
func (c *Client) ownsPD(pd uint32) error {
	if err := c.enterPD(pd); err != nil {
		return err
	}
	c.dev.leavePD(pd)
	return nil
}

// enterPD counts an object of pd.
func (c *Client) enterPD(pd uint32) error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone() {
		return ErrClosed
	}
	m := d.pds[pd]
	if m == nil || m.owner != c {
		return fmt.Errorf("%w: no protection domain %d", ErrInvalid, pd)
	}
	m.objects++
	return nil
}

func (d *Device) leavePD(pd uint32) {
	d.mu.Lock()
	d.dropFromPD(pd)
	d.mu.Unlock()
}

// dropFromPD is leavePD with the device's lock held. The domain may have gone with
// its client.
func (d *Device) dropFromPD(pd uint32) {
	if m := d.pds[pd]; m != nil {
		m.objects--
	}
}

// RegisterMemory makes b a memory region. It must stay where it is until
// DeregisterMemory has returned; with ON_DEMAND its pages may go and come.
func (c *Client) RegisterMemory(pd uint32, b []byte, access ibv.Access) (verbs.ProviderMR, error) {
	d := c.dev
	return c.register(pd, uint64(len(b)), func() (*memory.Region, error) {
		if access&ibv.AccessOnDemand != 0 {
			return d.mem.RegisterOnDemand(memory.PD(pd), memory.AddressOf(b), b, access)
		}
		return d.mem.Register(memory.PD(pd), memory.AddressOf(b), b, access)
	})
}

// register makes a region of pd and a handle of it. bytes of memory count for the
// client.
func (c *Client) register(pd uint32, bytes uint64, add func() (*memory.Region, error)) (verbs.ProviderMR, error) {
	d := c.dev
	if err := c.enterPD(pd); err != nil {
		return verbs.ProviderMR{}, err
	}
	r, err := add()
	if err != nil {
		d.leavePD(pd)
		return verbs.ProviderMR{}, err
	}
	h, err := c.enterRegion(&registered{owner: c, r: r, bytes: bytes})
	if err != nil {
		_ = d.mem.Deregister(r) // nobody has bound anything to it
		d.leavePD(pd)
		_ = d.settleMemory() // the first error is the one to report
		return verbs.ProviderMR{}, err
	}
	return verbs.ProviderMR{Handle: h, Addr: r.Start(), LKey: r.LKey(), RKey: r.RKey()}, nil
}

// enterRegion gives a region or an alias a handle, if the client may have it.
func (c *Client) enterRegion(m *registered) (uint64, error) {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.admitBytes(m.bytes); err != nil {
		return 0, err
	}
	if err := c.admit(&c.use.MRs, c.limits.MRs, "memory regions and windows"); err != nil {
		return 0, err
	}
	c.use.Bytes += m.bytes
	d.lastMR++
	d.mrs[d.lastMR] = m
	return d.lastMR, nil
}

// region is what a handle of the client stands for, nil if nothing. The device's lock
// is held.
func (c *Client) region(handle uint64) *registered {
	if m := c.dev.mrs[handle]; m != nil && m.owner == c {
		return m
	}
	return nil
}

// DeregisterMemory ends a region and returns when no worker can touch its memory
// any more. It is ErrBusy while windows or fast regions are bound to it.
func (c *Client) DeregisterMemory(mr verbs.ProviderMR) error {
	return c.endRegion(mr.Handle, false, "no memory region with lkey", mr.LKey)
}

// endRegion ends what a handle stands for, which is an alias or is none, and returns
// when no worker goes by it. With none such, none and key say what there is not.
func (c *Client) endRegion(handle uint64, alias bool, none string, key uint32) error {
	d := c.dev
	d.mu.Lock()
	m, gone := c.region(handle), c.gone()
	found := m != nil && (m.alias != nil) == alias
	var err error
	if found && !gone {
		err = d.dropRegion(handle, m)
	}
	d.mu.Unlock()
	switch {
	case gone:
		return c.end() // which returns when nobody touches memory any more
	case !found:
		return fmt.Errorf("%w: %s %#x", ErrInvalid, none, key)
	case err != nil:
		return busyIfBound(err)
	}
	return d.settleMemory()
}

// dropRegion takes what handle stands for out of the table of keys, and forgets it.
// Who has looked the key up before is done with it after settleMemory. It is
// memory.ErrBound while something is bound to it. The device's lock is held.
func (d *Device) dropRegion(handle uint64, m *registered) (err error) {
	var pd memory.PD
	if m.alias != nil {
		pd, err = m.alias.PD(), d.mem.Dealloc(m.alias)
	} else {
		pd, err = m.r.PD(), d.mem.Deregister(m.r)
	}
	if err != nil {
		return err
	}
	delete(d.mrs, handle)
	m.owner.use.MRs--
	m.owner.use.Bytes -= m.bytes
	d.dropFromPD(uint32(pd))
	return nil
}

// settleMemory returns when no worker uses a key that has been taken out of the
// table. It is gone for those who look it up; who did before holds a lock.
func (d *Device) settleMemory() error {
	for _, w := range d.workers {
		if err := w.quiesce(); err != nil {
			return d.Close() // nothing runs after it
		}
	}
	return nil
}

func busyIfBound(err error) error {
	if errors.Is(err, memory.ErrBound) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// buffer is memory of AllocBuffer.
type buffer struct {
	owner *Client
	mem   []byte
}

// AllocBuffer returns n zeroed bytes outside of the Go heap, page-aligned. They
// are locked in memory if the limit allows; a software device works without.
func (c *Client) AllocBuffer(n int) ([]byte, error) {
	d := c.dev
	if n < 1 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalid, n)
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	if n >= hugePage {
		// Advice: without huge pages it is merely slower.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	if err := unix.Mlock(b); err != nil {
		// Memory that is not locked may be swapped out, which costs time and
		// nothing else; touching it now keeps first faults off the datapath.
		d.unlocked.Add(uint64(n))
		_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	}
	d.mu.Lock()
	gone := c.gone()
	if !gone {
		d.buffers[memory.AddressOf(b)] = buffer{c, b}
	}
	d.mu.Unlock()
	if gone {
		return nil, joinUnmap(ErrClosed, b)
	}
	return b, nil
}

const hugePage = 2 << 20

// FreeBuffer gives back what AllocBuffer returned. No region may be on it.
func (c *Client) FreeBuffer(b []byte) error {
	d, key := c.dev, memory.AddressOf(b)
	d.mu.Lock()
	whole := d.buffers[key]
	ok := whole.owner == c && len(b) != 0
	if ok {
		delete(d.buffers, key)
	}
	gone := c.gone()
	d.mu.Unlock()
	if gone && !ok { // it went with the device, or with the client
		return nil
	}
	if !ok {
		return fmt.Errorf("%w: not the start of a buffer of AllocBuffer", ErrInvalid)
	}
	return unix.Munmap(whole.mem)
}

func joinUnmap(err error, b []byte) error {
	if uerr := unix.Munmap(b); uerr != nil {
		return fmt.Errorf("%w (and %w)", err, uerr)
	}
	return err
}
