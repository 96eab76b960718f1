package datapath

import (
	"runtime"
	"runtime/debug"

	"github.com/roce-xdp/roce-xdp/internal/giveway"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

const (
	yieldShared = 16  // empty polls between two times that a poller gives way, where CPUs are few
	yieldOwn    = 256 // and where they are not
)

// breath lets others run when a poller finds nothing: other goroutines, and other
// processes too where there is one CPU for all.
type breath struct {
	giveway.Pace
	kernel bool
}

func (b *breath) init() {
	cpus := runtime.NumCPU() // those that the process may use
	b.kernel = cpus == 1
	if min(cpus, runtime.GOMAXPROCS(0)) <= smallMachine {
		b.Init(yieldShared)
	} else {
		b.Init(yieldOwn)
	}
}

func (b *breath) take() {
	if b.kernel {
		shm.Yield()
	}
	b.GiveWay()
}

// version is that of the module, for device attributes.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
