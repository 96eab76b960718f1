package datapath

import "sync/atomic"

// cacheLine keeps words of different writers apart. Prefetchers fetch pairs of
// lines of 64 bytes.
const cacheLine = 128

// spsc is a bounded queue between who drives one worker and who drives another:
// one producer and one consumer at a time, without locks. What the producer puts
// becomes visible with publish.
type spsc[T any] struct {
	buf  []T
	mask uint32

	_     [cacheLine]byte
	tail  atomic.Uint32 // published by the producer
	put   uint32        // producer: next to write
	freed uint32        // producer: last seen head

	_    [cacheLine]byte
	head atomic.Uint32 // published by the consumer
	took uint32        // consumer: next to read
}

// newSPSC makes a queue for at least n elements.
func newSPSC[T any](n int) *spsc[T] {
	size := 1
	for size < n {
		size *= 2
	}
	return &spsc[T]{buf: make([]T, size), mask: uint32(size - 1)}
}

// room reports whether n more elements fit.
func (q *spsc[T]) room(n int) bool {
	if int(q.put-q.freed)+n <= len(q.buf) {
		return true
	}
	q.freed = q.head.Load()
	return int(q.put-q.freed)+n <= len(q.buf)
}

// add appends v; there is room.
func (q *spsc[T]) add(v T) {
	q.buf[q.put&q.mask] = v
	q.put++
}

// publish shows the consumer all that was added.
func (q *spsc[T]) publish() { q.tail.Store(q.put) }

// avail is how many elements the consumer can take.
func (q *spsc[T]) avail() int { return int(q.tail.Load() - q.took) }

// at is the i-th element that the consumer can take.
func (q *spsc[T]) at(i int) T { return q.buf[(q.took+uint32(i))&q.mask] }

// release gives the room of n elements back to the producer.
func (q *spsc[T]) release(n int) {
	q.took += uint32(n)
	q.head.Store(q.took)
}
