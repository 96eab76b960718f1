package xsk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// x/sys has the structures of AF_XDP but no calls that pass them, so the
// pointers are made here.

// addressOf returns where mem begins: the kernel is told a number, and the
// UMEM keeps mem alive.
func addressOf(mem []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
}

func setsockopt[T any](fd, opt int, v *T) error {
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(unsafe.Pointer(v)), unsafe.Sizeof(*v), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getsockopt returns how many bytes of v the kernel filled.
func getsockopt[T any](fd, opt int, v *T) (int, error) {
	size := uint32(unsafe.Sizeof(*v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(unsafe.Pointer(v)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(size), nil
}
