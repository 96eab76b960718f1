package datapath

import (
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// timerHeap orders queue pairs by when they must be polled. A queue pair's key
// is never later than its deadline, but may be earlier: a deadline that moves
// away, as it does with each acknowledgement, is only looked at again when the
// old one has come. Keys lie side by side: with thousands of queue pairs, none of
// which is in the cache, only those that move are touched.
type timerHeap struct {
	list []timer
}

type timer struct {
	key mono.Time
	q   *qp
}

const (
	noTimer = -1
	// timerFan is how many children an entry of the heap has: those of four lie in
	// one or two cache lines, and there are half as many levels.
	timerFan = 4
)

// set makes q due at t at the latest; Never takes back nothing that is queued.
func (h *timerHeap) set(q *qp, t mono.Time) {
	switch {
	case q.timerPos == noTimer:
		if t == mono.Never {
			return
		}
		h.list = append(h.list, timer{})
		h.up(len(h.list)-1, timer{t, q})
	case t < h.list[q.timerPos].key:
		h.up(q.timerPos, timer{t, q})
	}
}

// reserve makes room for n queue pairs.
func (h *timerHeap) reserve(n int) { h.list = slices.Grow(h.list, max(0, n-len(h.list))) }

// next is when the first queue pair is due.
func (h *timerHeap) next() mono.Time {
	if len(h.list) == 0 {
		return mono.Never
	}
	return h.list[0].key
}

// expired takes out a queue pair that is due at now, nil when none is.
func (h *timerHeap) expired(now mono.Time) *qp {
	if len(h.list) == 0 || h.list[0].key > now {
		return nil
	}
	q := h.list[0].q
	h.remove(q)
	return q
}

// remove takes q out, if it is in.
func (h *timerHeap) remove(q *qp) {
	i := q.timerPos
	if i == noTimer {
		return
	}
	q.timerPos = noTimer
	last := len(h.list) - 1
	moved := h.list[last]
	h.list[last] = timer{}
	h.list = h.list[:last]
	if i == last {
		return
	}
	if i > 0 && moved.key < h.list[(i-1)/timerFan].key {
		h.up(i, moved)
	} else {
		h.down(i, moved)
	}
}

// up puts t at the free place i or above it.
func (h *timerHeap) up(i int, t timer) {
	for i > 0 {
		parent := (i - 1) / timerFan
		if h.list[parent].key <= t.key {
			break
		}
		h.put(i, h.list[parent])
		i = parent
	}
	h.put(i, t)
}

// down puts t at the free place i or below it.
func (h *timerHeap) down(i int, t timer) {
	for {
		first := timerFan*i + 1
		if first >= len(h.list) {
			break
		}
		least := first
		for k := first + 1; k < min(first+timerFan, len(h.list)); k++ {
			if h.list[k].key < h.list[least].key {
				least = k
			}
		}
		if t.key <= h.list[least].key {
			break
		}
		h.put(i, h.list[least])
		i = least
	}
	h.put(i, t)
}

func (h *timerHeap) put(i int, t timer) { h.list[i], t.q.timerPos = t, i }
