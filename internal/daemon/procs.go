package daemon

import (
	"runtime"
	"sync"
)

// procs guards GOMAXPROCS between being read and written.
var procs sync.Mutex

// addProcs gives the process n more Go processors, or takes them away again. A worker
// that has a thread of its own keeps a processor while it looks for work, so that
// without one for each of them everything else that the daemon does would wait.
func addProcs(n int) {
	procs.Lock()
	defer procs.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}
