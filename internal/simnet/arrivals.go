package simnet

import "github.com/roce-xdp/roce-xdp/internal/mono"

// arrival is a frame on its way.
type arrival struct {
	at       mono.Time
	seq      uint64 // order of sending
	from, to int
	frame    []byte
}

func (a *arrival) before(b *arrival) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// arrivals is a binary heap, the earliest on top.
type arrivals struct {
	heap []arrival
	seq  uint64
}

func (q *arrivals) next() mono.Time {
	if len(q.heap) == 0 {
		return mono.Never
	}
	return q.heap[0].at
}

func (q *arrivals) push(at mono.Time, from, to int, frame []byte) {
	q.heap = append(q.heap, arrival{at: at, seq: q.seq, from: from, to: to, frame: frame})
	q.seq++
	for i := len(q.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.heap[i].before(&q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

// pop takes the earliest; there must be one.
func (q *arrivals) pop() arrival {
	top := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = arrival{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&q.heap[i]) {
			return top
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}
