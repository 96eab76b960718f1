package shm

import (
	"fmt"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

// CheckMemfd says why fd is not size bytes of memory that cannot shrink.
func CheckMemfd(fd int, size uint64) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: not a memfd: %w", ErrDescriptor, err)
	}
	if seals&(unix.F_SEAL_SHRINK|unix.F_SEAL_GROW) != unix.F_SEAL_SHRINK|unix.F_SEAL_GROW {
		return fmt.Errorf("%w: a memfd that could be resized (seals %#x)", ErrDescriptor, seals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if size == 0 || size > 1<<46 || uint64(st.Size) != size {
		return fmt.Errorf("%w: a memfd of %d bytes, %d are needed", ErrDescriptor, st.Size, size)
	}
	return nil
}

// memPath is how the kernel spells the memory of a process, whatever of the path is
// visible from here.
var memPath = regexp.MustCompile(`(^|/)[0-9]+(/task/[0-9]+)?/mem$`)

// CheckProcMem says why fd is not the memory of a process (/proc/PID/mem), open for
// reading and writing. Whose, it does not tell: who could open it has the right to
// hand it over.
func CheckProcMem(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("%w: not a file of /proc", ErrDescriptor)
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if !memPath.MatchString(name) {
		return fmt.Errorf("%w: %s, /proc/PID/mem is needed", ErrDescriptor, name)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_PATH != 0 {
		return fmt.Errorf("%w: %s is not open for reading and writing", ErrDescriptor, name)
	}
	return nil
}

// CheckEventfd says why fd is not an eventfd.
func CheckEventfd(fd int) error {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if name != "anon_inode:[eventfd]" {
		return fmt.Errorf("%w: %s, an eventfd is needed", ErrDescriptor, name)
	}
	return nil
}
