package session

import (
	"context"
	"time"
)

// WaitNS is how long a request with a context may wait for other hosts, as it travels: 0
// without a deadline, which is as long as the daemon's device does.
func WaitNS(ctx context.Context) uint64 {
	if t, ok := ctx.Deadline(); ok {
		return uint64(max(time.Until(t), 1))
	}
	return 0
}
