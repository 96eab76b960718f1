package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// epoch is the origin of the engine's time, a second before the process began,
// so that no reading is zero.
var epoch = time.Now().Add(-time.Second)

// clock reads the engine's time, once for each round of a worker.
func clock() mono.Time { return mono.Time(time.Since(epoch)) }
