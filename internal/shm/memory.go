package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// HugePage is the size of the huge pages that Options.Huge asks for.
const HugePage = 2 << 20

// Options say what Create makes. The zero value is memory of ordinary pages that
// both sides write.
type Options struct {
	// Huge wants huge pages that the system has set aside; the size must be a
	// multiple of HugePage. Without enough free ones Create fails; those that it has
	// got are its own, though a limit of a control group may yet forbid to touch them.
	Huge bool
	// ReadOnly lets nobody but the maker write: later mappings cannot.
	ReadOnly bool
}

// Memory is a file of shared memory and this process's mapping of it.
type Memory struct {
	mu   sync.Mutex
	fd   int // -1: given up, as who opens it needs the mapping only
	b    []byte
	huge bool
}

// sealed are the seals that every file has: its size is for good, and so are they.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes size bytes of zeroed memory, rounded up to whole pages. Pages come
// when they are touched first, and count for who does that; huge ones are there at
// once.
func Create(name string, size int, o Options) (*Memory, error) {
	page := os.Getpagesize()
	if o.Huge {
		page = HugePage
	}
	if size <= 0 || size > 1<<46 || o.Huge && size%HugePage != 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalid, size)
	}
	size = roundUp(size, page)
	fd, err := memfd(name, o.Huge)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	b, err := build(fd, size, o)
	if err != nil {
		if o.Huge {
			err = fmt.Errorf("%w: %d huge pages of 2 MiB are needed: raise vm.nr_hugepages", err, size/HugePage)
		}
		return nil, errors.Join(err, unix.Close(fd))
	}
	if !o.Huge && size >= HugePage {
		// Advice: without transparent huge pages it is merely slower.
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return &Memory{fd: fd, b: b, huge: o.Huge}, nil
}

func memfd(name string, huge bool) (int, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if huge {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	// Kernels before 6.3 do not know the flag that forbids to execute the file.
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	return fd, err
}

// build sizes, maps and seals a new file.
func build(fd, size int, o Options) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("memfd of %d bytes: %w", size, err)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	seals := sealed
	if o.ReadOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("seal: %w", err), unix.Munmap(b))
	}
	return b, nil
}

// Open maps memory that a peer has made, which must be size bytes and sealed. It
// closes fd, in every case.
func Open(fd int, size uint64, readOnly bool) (*Memory, error) {
	defer unix.Close(fd)
	if err := CheckMemfd(fd, size); err != nil {
		return nil, err
	}
	prot := unix.PROT_READ
	if !readOnly {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of shared memory: %w", size, err)
	}
	return &Memory{fd: -1, b: b}, nil
}

// OpenWhole is Open for memory whose size the peer does not tell.
func OpenWhole(fd int, readOnly bool) (*Memory, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrDescriptor, err), unix.Close(fd))
	}
	return Open(fd, uint64(st.Size), readOnly)
}

// Bytes are the memory. Nobody may touch them after Close.
func (m *Memory) Bytes() []byte { return m.b }

// Huge reports whether huge pages were asked for, and given.
func (m *Memory) Huge() bool { return m.huge }

// FD is the descriptor to pass on, -1 if there is none. It stays m's.
func (m *Memory) FD() int { return m.fd }

// Close takes mapping and descriptor away. Closing twice is no error.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	if m.b != nil {
		errs = append(errs, unix.Munmap(m.b))
		m.b = nil
	}
	if m.fd >= 0 {
		errs = append(errs, unix.Close(m.fd))
		m.fd = -1
	}
	return errors.Join(errs...)
}

// Lock has the pages of b brought into memory, where they count for the caller, and
// kept there if the process's limit allows (RLIMIT_MEMLOCK). b must begin at a page.
func Lock(b []byte) {
	if len(b) == 0 || unix.Mlock(b) == nil {
		return
	}
	// Memory that may be swapped out costs time and nothing else; touching it now
	// keeps first faults off the datapath.
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
}

// Unlock undoes Lock before the pages are given back.
func Unlock(b []byte) {
	if len(b) != 0 {
		_ = unix.Munlock(b) // it may not have been locked
	}
}

// Prefetch has the pages of n bytes at an address of this process brought into memory,
// to be written or only to be read. Pages that are missing are unix.EFAULT or
// unix.ENOMEM.
func Prefetch(addr, n uint64, write bool) error {
	if n == 0 {
		return nil
	}
	how := unix.MADV_POPULATE_READ
	if write {
		how = unix.MADV_POPULATE_WRITE
	}
	page := uint64(os.Getpagesize())
	start := addr &^ (page - 1)
	end := (addr + n + page - 1) &^ (page - 1)
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), uintptr(how)); errno != 0 {
		return errno
	}
	return nil
}
