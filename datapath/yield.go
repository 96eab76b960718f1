package datapath

import (
	"runtime"
	"runtime/debug"

	"github.com/roce-xdp/roce-xdp/internal/shm"
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
		shm.Yield()
	}
	runtime.Gosched()
}

// version is that of the module, for device attributes.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
