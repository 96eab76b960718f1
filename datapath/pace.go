package datapath

import (
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// paceBurst is what a client may send at once after a pause, in the time that its
// rate takes for it.
const paceBurst = 10 * time.Millisecond

// pace bounds the rate of a client on all workers together: it is the time up to
// which what was sent has used up the rate, which runs ahead of the clock by no more
// than paceBurst and one turn.
type pace struct {
	perByte, perMessage int64 // picoseconds that a byte and a message take
	paid                atomic.Int64
}

const picoseconds = 1e12

// newPace is a bound of messages and bytes a second, nil without one.
func newPace(messages, bytes uint64) *pace {
	if messages == 0 && bytes == 0 {
		return nil
	}
	var p pace
	if messages != 0 {
		p.perMessage = picoseconds / int64(min(messages, picoseconds))
	}
	if bytes != 0 {
		p.perByte = picoseconds / int64(min(bytes, picoseconds))
	}
	return &p
}

// spend takes the time of what was sent and returns until when nothing may be, 0 if
// more may be at once.
func (p *pace) spend(now mono.Time, messages, bytes int) mono.Time {
	cost := (int64(messages)*p.perMessage + int64(bytes)*p.perByte) / 1000
	for {
		before := p.paid.Load()
		after := max(before, int64(now)) + cost
		if !p.paid.CompareAndSwap(before, after) {
			continue
		}
		if until := mono.Time(after).Add(-paceBurst); until > now {
			return until
		}
		return 0
	}
}
