package datapath

import "sync/atomic"

// postedList collects queue pairs with new work requests from any goroutine,
// each at most once. Who drives the worker takes them all.
type postedList struct {
	head atomic.Pointer[qp]
}

// push adds q unless it is in already. The caller has published its work request
// before: either it finds q's mark cleared, or who cleared it has yet to look at
// q's queue.
func (l *postedList) push(q *qp) {
	if !q.posted.CompareAndSwap(false, true) {
		return
	}
	for {
		old := l.head.Load()
		q.nextPosted = old
		if l.head.CompareAndSwap(old, q) {
			return
		}
	}
}

// empty reports whether there is nothing to take.
func (l *postedList) empty() bool { return l.head.Load() == nil }

// take empties the list and returns the queue pair that was posted first; the
// others follow by nextOf.
func (l *postedList) take() *qp {
	if l.empty() {
		return nil
	}
	var first *qp
	for q := l.head.Swap(nil); q != nil; {
		next := q.nextPosted
		q.nextPosted = first
		first, q = q, next
	}
	return first
}

// nextOf returns the queue pair after q in a list that was taken and lets q be
// posted again. q's queues may be looked at from then on.
func nextOf(q *qp) *qp {
	next := q.nextPosted
	q.posted.Store(false)
	return next
}

// turns is the round robin of queue pairs that want to transmit, each at most
// once. Its room is made when queue pairs are.
type turns struct {
	ring []*qp // a power of two
	head int
	n    int
}

// reserve makes room for n queue pairs.
func (t *turns) reserve(n int) {
	size := max(len(t.ring), 16)
	for size < n {
		size *= 2
	}
	if size == len(t.ring) {
		return
	}
	ring := make([]*qp, size)
	for i := range t.n {
		ring[i] = t.ring[(t.head+i)&(len(t.ring)-1)]
	}
	t.ring, t.head = ring, 0
}

// push puts q at the end unless it waits already.
func (t *turns) push(q *qp) {
	if q.waiting {
		return
	}
	if t.n == len(t.ring) { // queue pairs that were destroyed still wait
		t.reserve(2 * t.n)
	}
	q.waiting = true
	t.ring[(t.head+t.n)&(len(t.ring)-1)] = q
	t.n++
}

// pop takes the queue pair whose turn it is; there is one.
func (t *turns) pop() *qp {
	q := t.ring[t.head]
	t.ring[t.head] = nil
	t.head = (t.head + 1) & (len(t.ring) - 1)
	t.n--
	q.waiting = false
	return q
}
