package datapath

import (
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

const (
	yieldShared = 16  // empty polls between two yields where CPUs are few
	yieldOwn    = 256 // and where they are not
)

// yieldPolicy says after how many empty polls a poller lets others run, and
// whether it must ask the kernel to: with one CPU for all, other processes wait
// for it too.
func yieldPolicy() (every uint32, kernel bool) {
	cpus := runtime.NumCPU() // those that the process may use
	switch {
	case cpus == 1:
		return yieldShared, true
	case min(cpus, runtime.GOMAXPROCS(0)) <= smallMachine:
		return yieldShared, false
	}
	return yieldOwn, false
}

// yield lets other goroutines run, and other processes where that is called for.
func (d *Device) yield() {
	if d.osYield {
		kernelYield()
	}
	runtime.Gosched()
}

// kernelYield lets other threads have the CPU, of this process and of others.
func kernelYield() {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail
}

// version is that of the module, for device attributes.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
