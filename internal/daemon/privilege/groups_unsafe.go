package privilege

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of this thread alone: the wrappers of
// setgroups change all threads.
func setGroups(groups []int) error {
	list := make([]uint32, len(groups))
	for i, g := range groups {
		list[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(unsafe.SliceData(list))), 0)
	if errno != 0 {
		return fmt.Errorf("set groups: %w", errno)
	}
	return nil
}
