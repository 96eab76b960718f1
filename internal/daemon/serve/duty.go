package serve

import "time"

// How much of the time of one CPU the quick requests of a client may take while others
// have the daemon to share: a part of each second, after a sum that is enough to set
// a large program up.
const (
	dutyBurst = time.Second
	dutyShare = 4 // a quarter
	// dutyRest is how long a client waits at most: the end of one is noticed then, too.
	dutyRest = time.Second
)

// duty is what a client has left of that. A client that makes and destroys objects
// without a pause would take the CPU from workers, which give way to whoever wants it.
type duty struct {
	left time.Duration
	last time.Time
}

// charge takes the time that a request took, until now, and returns how long the
// client has to wait before its next one: 0 as long as something is left.
func (d *duty) charge(took time.Duration, now time.Time) time.Duration {
	if d.last.IsZero() {
		d.left, d.last = dutyBurst, now
	}
	d.left = max(min(d.left+now.Sub(d.last)/dutyShare, dutyBurst)-took, -dutyRest/dutyShare)
	d.last = now
	if d.left >= 0 {
		return 0
	}
	return -d.left * dutyShare
}
