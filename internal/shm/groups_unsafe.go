package shm

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerGroups are the supplementary groups of who has connected (SO_PEERGROUPS), an
// option that x/sys has no function for. The kernel writes at most size bytes into
// the slice and says how many it wanted.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errors.Is(errno, unix.ENODATA): // of a pair that nobody has connected
			return nil, nil
		case errors.Is(errno, unix.ERANGE) && int(size/4) > len(groups):
			groups = make([]uint32, size/4)
		default:
			return nil, errno
		}
	}
}
