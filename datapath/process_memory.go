package datapath

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ProcessMemory is the memory of a process by its addresses, through an open
// /proc/PID/mem that this has passed on: that needs no capability and no process
// number, and does not reach another process that gets the number later. It
// implements memory.Indirect.
type ProcessMemory struct {
	fd    int
	begun atomic.Uint64
	slots [len(Accesses{})]atomic.Uint64
}

// Accesses are the numbers of accesses that are under way, each where it stays as long as
// it is; 0 is none.
type Accesses [8]uint64

// NewProcessMemory takes a descriptor that was checked to be such a file, open for
// reading and writing: others might block who reads them. It stays the caller's and
// must be open as long as a region uses it.
func NewProcessMemory(fd int) *ProcessMemory { return &ProcessMemory{fd: fd} }

// ReadAt fills dst with the bytes at va.
func (m *ProcessMemory) ReadAt(dst []byte, va uint64) error {
	defer m.leave(m.enter())
	return transfer(dst, va, func(b []byte, off int64) (int, error) { return unix.Pread(m.fd, b, off) })
}

// WriteAt writes src to va.
func (m *ProcessMemory) WriteAt(src []byte, va uint64) error {
	defer m.leave(m.enter())
	return transfer(src, va, func(b []byte, off int64) (int, error) { return unix.Pwrite(m.fd, b, off) })
}

// transfer repeats a system call until all of b is copied.
func transfer(b []byte, va uint64, call func([]byte, int64) (int, error)) error {
	for len(b) != 0 {
		n, err := call(b, int64(va))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n <= 0: // the process is gone
			return unix.EFAULT
		default:
			b, va = b[n:], va+uint64(n)
		}
	}
	return nil
}

// Accesses are those under way. One that is among them again much later waits for memory
// that nobody provides.
func (m *ProcessMemory) Accesses() (n Accesses) {
	for i := range m.slots {
		n[i] = m.slots[i].Load()
	}
	return n
}

// enter notes an access. Where there is no room for more of them it is not seen.
func (m *ProcessMemory) enter() (slot int) {
	n := m.begun.Add(1)
	for i := range m.slots {
		if m.slots[i].CompareAndSwap(0, n) {
			return i
		}
	}
	return len(m.slots)
}

func (m *ProcessMemory) leave(slot int) {
	if slot < len(m.slots) {
		m.slots[slot].Store(0)
	}
}
