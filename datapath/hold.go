package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// A program in another process often answers what it has received. Its message and
// the acknowledgement of what it answers then leave in one system call, and what
// arrived reaches the program before that call instead of after it: in a round trip
// between two such programs these two are as much as half of the time. So where there
// are acknowledgements alone to send for a small batch, the kick waits for a moment,
// until something is posted; but not when that has been in vain lately: who receives
// only, or does something else first, is acknowledged at once.

const (
	// holdTime is how long a kick waits at most: time for a program to be given a CPU by
	// another that yields, to see a message and to post.
	holdTime = 20 * time.Microsecond
	// heldFrames is how many frames make a batch that is a part of something larger.
	heldFrames = 4
	// holdMisses is how many times in a row it may be in vain, and holdAgain after how
	// many chances that were passed up it is tried again.
	holdMisses = 4
	holdAgain  = 64
)

// hold is what a worker remembers of it.
type hold struct {
	may    bool      // the kick of this round may wait
	urgent bool      // what it is for is more than acknowledgements
	since  mono.Time // since when one waits; 0: none does
	frames int       // that have come for it
	misses uint32    // times in a row that nothing was posted meanwhile
	passed uint32    // chances passed up since
}

// begin has the kick at now wait, if that promises something.
func (h *hold) begin(now mono.Time, frames int) bool {
	if !h.may || h.urgent {
		return false
	}
	if h.since != 0 {
		return true
	}
	if h.misses >= holdMisses {
		if h.passed++; h.passed < holdAgain {
			return false
		}
		h.misses = holdMisses - 1 // one more chance
	}
	h.since, h.frames, h.passed = now, frames, 0
	return true
}

// over ends what waits if something was posted, or it is time. It reports whether it did.
func (h *hold) over(now mono.Time, posted bool) bool {
	switch {
	case h.since == 0:
		return false
	case posted:
		h.misses = 0
	case now.Sub(h.since) >= holdTime || h.frames > heldFrames:
		h.misses++
	default:
		return false
	}
	h.since = 0
	return true
}

// kicked takes note of a kick.
func (h *hold) kicked() { h.urgent, h.since = false, 0 }

// round is one of the background goroutine: what has come in, and what there is to
// send. It reports whether there was anything. The lock is held.
func (w *worker) round(now mono.Time) bool {
	h := &w.hold
	served := w.belled.Load() != nil
	posted := served && w.pending()
	over := h.over(now, posted)
	did := w.receive(now)
	if h.since != 0 {
		h.frames += w.received
	}
	h.may = served && !posted && !over && w.received <= heldFrames
	did = w.transmit(now) || did
	h.may = false
	return did
}
