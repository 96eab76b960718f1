package transport_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// pairEach is how long a host takes for a packet that has waited.
const pairEach = time.Microsecond

// absent keeps a frame that comes while the host stands still, or behind others that
// did. Any frame may find that it has just begun to: for up to three timeouts.
func (h *pairHost) absent(frame []byte) bool {
	w := h.w
	if !w.stalls {
		return false
	}
	if w.now >= h.asleep && len(h.inbox) == 0 && w.rnd.IntN(20) == 0 {
		h.asleep = w.now.Add(time.Duration(w.rnd.Int64N(int64(3 * 4096 * time.Nanosecond << w.timeout))))
		h.note("stands still until %v", h.asleep.Sub(pairBegin))
	}
	if w.now >= h.asleep && len(h.inbox) == 0 {
		return false
	}
	h.inbox = append(h.inbox, slices.Clone(frame))
	return true
}

// awake reports whether the host runs, and hands over the next packet that waited.
func (h *pairHost) awake() bool {
	if h.w.now < h.asleep {
		return false
	}
	if len(h.inbox) > 0 {
		frame := h.inbox[0]
		h.inbox = h.inbox[1:]
		h.asleep = h.w.now.Add(pairEach)
		h.receive(frame)
		h.releaseFrames()
		h.service()
	}
	return true
}

// TestPairLate is TestPair with hosts that stand still for longer than the local ACK
// timeout. Without losses no connection breaks.
func TestPairLate(t *testing.T) {
	first, last := seedRange(1, 300)
	gaveUp, timeouts := 0, uint64(0)
	eachSeed(t, "", first, last, func(t *testing.T, seed uint64, rec worldRecorder) {
		p := drawParams(seed)
		p.rec, p.stalls, p.windows = rec, true, seed%2 == 0
		w := newPairWorld(t, p)
		if runPairWorld(w) {
			gaveUp++
		}
		for _, h := range w.hosts {
			timeouts += h.env.Counters[LocalAckTimeoutErr]
		}
	})
	if total := int(last - first + 1); gaveUp > total/4 {
		t.Errorf("%d of %d connections broke: the conditions test little", gaveUp, total)
	}
	if total := last - first + 1; *pairSeed == 0 && timeouts < total {
		t.Error("few timeouts expired: the conditions test little")
	}
}
