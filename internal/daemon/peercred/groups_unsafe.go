package peercred

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxGroups is the kernel's NGROUPS_MAX.
const maxGroups = 1 << 16

// peerGroups asks for SO_PEERGROUPS, for which x/sys/unix has no function: the
// kernel writes an array of group numbers, and with ERANGE the length that it needs.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 32)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		n := int(size / 4)
		switch {
		case errno == 0:
			return groups[:n], nil
		case errno != unix.ERANGE || n <= len(groups) || n > maxGroups:
			return nil, errno
		}
		groups = make([]uint32, n)
	}
}
