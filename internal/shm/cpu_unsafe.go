package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Yield lets other threads that wait for this CPU run, those of other processes too.
func Yield() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail
}

// CPU is the number of the CPU that the calling thread runs on.
func CPU() int {
	var cpu uint32
	// golang.org/x/sys/unix does not have the call; the kernel writes to cpu meanwhile,
	// and nothing keeps it.
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}
