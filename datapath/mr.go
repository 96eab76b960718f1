package datapath

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return 0, ErrClosed
	}
	if len(d.pds) >= maxPD {
		return 0, fmt.Errorf("%w: %d protection domains", ErrLimit, maxPD)
	}
	for {
		d.lastPD++
		if _, taken := d.pds[d.lastPD]; !taken && d.lastPD != 0 {
			break
		}
	}
	d.pds[d.lastPD] = 0
	return d.lastPD, nil
}

// DeallocPD frees a protection domain. It is ErrBusy while it has regions, memory
// windows, queue pairs, shared receive queues or address handles.
func (d *Device) DeallocPD(pd uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.pds[pd]
	switch {
	case d.closed.Load(): // everything went with the device
		return nil
	case !ok:
		return fmt.Errorf("%w: no protection domain %d", ErrInvalid, pd)
	case n != 0:
		return fmt.Errorf("%w: %d regions, windows, queue pairs, shared receive queues and address handles are in protection domain %d: destroy them first", ErrBusy, n, pd)
	}
	delete(d.pds, pd)
	return nil
}

// enterPD counts an object of pd.
func (d *Device) enterPD(pd uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return ErrClosed
	}
	n, ok := d.pds[pd]
	if !ok {
		return fmt.Errorf("%w: no protection domain %d", ErrInvalid, pd)
	}
	d.pds[pd] = n + 1
	return nil
}

func (d *Device) leavePD(pd uint32) {
	d.mu.Lock()
	d.pds[pd]--
	d.mu.Unlock()
}

// RegisterMemory makes b a memory region. It must stay where it is until
// DeregisterMemory has returned; with ON_DEMAND its pages may go and come.
func (d *Device) RegisterMemory(pd uint32, b []byte, access ibv.Access) (verbs.ProviderMR, error) {
	return d.register(pd, func() (*memory.Region, error) {
		if access&ibv.AccessOnDemand != 0 {
			return d.mem.RegisterOnDemand(memory.PD(pd), memory.AddressOf(b), b, access)
		}
		return d.mem.Register(memory.PD(pd), memory.AddressOf(b), b, access)
	})
}

// register makes a region of pd and a handle of it.
func (d *Device) register(pd uint32, add func() (*memory.Region, error)) (verbs.ProviderMR, error) {
	if err := d.enterPD(pd); err != nil {
		return verbs.ProviderMR{}, err
	}
	r, err := add()
	if err != nil {
		d.leavePD(pd)
		return verbs.ProviderMR{}, err
	}
	d.mu.Lock()
	d.lastMR++
	h := d.lastMR
	d.mrs[h] = r
	d.mu.Unlock()
	return verbs.ProviderMR{Handle: h, Addr: r.Start(), LKey: r.LKey(), RKey: r.RKey()}, nil
}

// DeregisterMemory ends a region and returns when no worker can touch its memory
// any more. It is ErrBusy while windows or fast regions are bound to it.
func (d *Device) DeregisterMemory(mr verbs.ProviderMR) error {
	d.mu.Lock()
	r := d.mrs[mr.Handle]
	d.mu.Unlock()
	if d.closed.Load() {
		return d.Close() // which returns when nobody touches memory any more
	}
	if r == nil {
		return fmt.Errorf("%w: no memory region with lkey %#x", ErrInvalid, mr.LKey)
	}
	if err := d.mem.Deregister(r); err != nil {
		return busyIfBound(err)
	}
	d.mu.Lock()
	delete(d.mrs, mr.Handle)
	d.pds[uint32(r.PD())]--
	d.mu.Unlock()
	return d.settleMemory()
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

// AllocBuffer returns n zeroed bytes outside of the Go heap, page-aligned. They
// are locked in memory if the limit allows; a software device works without.
func (d *Device) AllocBuffer(n int) ([]byte, error) {
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
	defer d.mu.Unlock()
	if d.closed.Load() {
		return nil, joinUnmap(ErrClosed, b)
	}
	d.buffers[memory.AddressOf(b)] = b
	return b, nil
}

const hugePage = 2 << 20

// FreeBuffer gives back what AllocBuffer returned. No region may be on it.
func (d *Device) FreeBuffer(b []byte) error {
	key := memory.AddressOf(b)
	d.mu.Lock()
	whole, ok := d.buffers[key]
	delete(d.buffers, key)
	closed := d.closed.Load()
	d.mu.Unlock()
	if closed && !ok { // it went with the device
		return nil
	}
	if !ok || len(b) == 0 {
		return fmt.Errorf("%w: not the start of a buffer of AllocBuffer", ErrInvalid)
	}
	return unix.Munmap(whole)
}

func joinUnmap(err error, b []byte) error {
	if uerr := unix.Munmap(b); uerr != nil {
		return fmt.Errorf("%w (and %w)", err, uerr)
	}
	return err
}
