package datapath

import (
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// timerHeap orders queue pairs by when they must be polled. A queue pair's key
// is never later than its deadline, but may be earlier: a deadline that moves
// away, as it does with each acknowledgement, is only looked at again when the
// old one has come.
type timerHeap struct {
	qps []*qp
}

const noTimer = -1

// set makes q due at t at the latest; Never takes back nothing that is queued.
func (h *timerHeap) set(q *qp, t mono.Time) {
	switch {
	case q.timerPos == noTimer:
		if t == mono.Never {
			return
		}
		q.timerKey, q.timerPos = t, len(h.qps)
		h.qps = append(h.qps, q)
		h.up(q.timerPos)
	case t < q.timerKey:
		q.timerKey = t
		h.up(q.timerPos)
	}
}

// reserve makes room for n queue pairs.
func (h *timerHeap) reserve(n int) { h.qps = slices.Grow(h.qps, max(0, n-len(h.qps))) }

// next is when the first queue pair is due.
func (h *timerHeap) next() mono.Time {
	if len(h.qps) == 0 {
		return mono.Never
	}
	return h.qps[0].timerKey
}

// expired takes out a queue pair that is due at now, nil when none is.
func (h *timerHeap) expired(now mono.Time) *qp {
	if len(h.qps) == 0 || h.qps[0].timerKey > now {
		return nil
	}
	q := h.qps[0]
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
	last := len(h.qps) - 1
	moved := h.qps[last]
	h.qps[last] = nil
	h.qps = h.qps[:last]
	if i == last {
		return
	}
	h.qps[i], moved.timerPos = moved, i
	h.down(i)
	h.up(moved.timerPos)
}

func (h *timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.qps[parent].timerKey <= h.qps[i].timerKey {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timerHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.qps) {
			return
		}
		if right := child + 1; right < len(h.qps) && h.qps[right].timerKey < h.qps[child].timerKey {
			child = right
		}
		if h.qps[i].timerKey <= h.qps[child].timerKey {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *timerHeap) swap(i, j int) {
	h.qps[i], h.qps[j] = h.qps[j], h.qps[i]
	h.qps[i].timerPos, h.qps[j].timerPos = i, j
}
