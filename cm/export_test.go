package cm

import (
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// SetResolveTime changes how long a next hop may take to answer, until undo is called.
func SetResolveTime(d time.Duration) (undo func()) {
	before := resolveTime
	resolveTime = d
	return func() { resolveTime = before }
}

// Withdrawn reports whether the peer has given up a request.
func Withdrawn(r *Request) bool { return r.withdrawn() }

// Waiting is how many requests wait at a listener.
func Waiting(l *Listener) int {
	l.requests.mu.Lock()
	defer l.requests.mu.Unlock()
	return len(l.requests.list)
}

// Referred reports whether a device still has ids.
func Referred(dev *verbs.Context) bool {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	return devices.of[dev] != nil
}
