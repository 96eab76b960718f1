package datapath

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// selfMemory is the process's own memory by address, whatever is or is not mapped
// there. The kernel copies: it finds out what is missing, or must not be written,
// and says so, where an access of our own would have to survive a fault at an
// address that a peer has chosen, also one that no pointer can have. Unlike
// /proc/self/mem this keeps to the protection of pages. It implements
// memory.Indirect.
type selfMemory struct{ pid int }

func (m selfMemory) ReadAt(dst []byte, va uint64) error {
	local, remote := m.vectors(dst, va)
	n, err := unix.ProcessVMReadv(m.pid, local[:], remote[:], 0)
	return whole(n, len(dst), err)
}

func (m selfMemory) WriteAt(src []byte, va uint64) error {
	local, remote := m.vectors(src, va)
	n, err := unix.ProcessVMWritev(m.pid, local[:], remote[:], 0)
	return whole(n, len(src), err)
}

func (m selfMemory) vectors(b []byte, va uint64) (local [1]unix.Iovec, remote [1]unix.RemoteIovec) {
	if len(b) != 0 {
		local[0].Base = &b[0]
		local[0].SetLen(len(b))
	}
	remote[0] = unix.RemoteIovec{Base: uintptr(va), Len: len(b)}
	return local, remote
}

// whole takes a copy that ended early for one that met a missing page.
func whole(n, want int, err error) error {
	if err == nil && n != want {
		err = unix.EFAULT
	}
	return err
}

// selfReachable says why the process's memory cannot be reached that way, which
// filters of system calls may forbid.
var selfReachable = sync.OnceValue(func() error {
	b, got := []byte{42}, []byte{0}
	m := selfMemory{os.Getpid()}
	if err := m.ReadAt(got, memory.AddressOf(b)); err != nil {
		return fmt.Errorf("%w: process_vm_readv: %w: a filter of system calls forbids it", ErrUnsupported, err)
	}
	if err := m.WriteAt(got, memory.AddressOf(b)); err != nil {
		return fmt.Errorf("%w: process_vm_writev: %w: a filter of system calls forbids it", ErrUnsupported, err)
	}
	return nil
})

// RegisterImplicit makes all memory of the process one region.
func (c *Client) RegisterImplicit(pd uint32, access ibv.Access) (verbs.ProviderMR, error) {
	if err := selfReachable(); err != nil {
		return verbs.ProviderMR{}, err
	}
	return c.register(pd, 0, func() (*memory.Region, error) {
		return c.dev.mem.RegisterImplicit(memory.PD(pd), selfMemory{os.Getpid()}, access)
	})
}

// odpCaps are what works on memory whose pages may be missing.
func odpCaps() verbs.ODPCaps {
	const datagrams = ibv.ODPSend | ibv.ODPRecv | ibv.ODPSRQRecv
	return verbs.ODPCaps{
		Supported: true,
		Implicit:  selfReachable() == nil,
		RC:        datagrams | ibv.ODPWrite | ibv.ODPRead | ibv.ODPAtomic,
		UC:        datagrams | ibv.ODPWrite,
		UD:        datagrams,
	}
}
