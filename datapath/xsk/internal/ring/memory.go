package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
)

// needWakeup is XDP_RING_NEED_WAKEUP of linux/if_xdp.h.
const needWakeup = 1

// ErrSize says that a ring size is not a power of two or does not fit its
// memory.
var ErrSize = errors.New("ring: bad size")

// words are the parts of a ring that both sides see.
type words struct {
	prod, cons, flags *atomic.Uint32
}

// line keeps a word alone on its pair of cache lines.
type line struct {
	word atomic.Uint32
	_    [124]byte
}

func newWords() words {
	w := new([3]line)
	return words{prod: &w[0].word, cons: &w[1].word, flags: &w[2].word}
}

// Pair returns the two sides of a new ring of size entries in ordinary memory.
// Both indices begin at start, so that their wrap can be reached in tests.
func Pair[T any](size int, start uint32) (*Producer[T], *Consumer[T], error) {
	if err := CheckSize(size); err != nil {
		return nil, nil, err
	}
	w := newWords()
	w.prod.Store(start)
	w.cons.Store(start)
	p, c := sides(w, make([]T, size))
	return p, c, nil
}

// CheckSize returns an error that wraps ErrSize unless size can be a ring's.
func CheckSize(size int) error {
	if size < 1 || size > 1<<30 || bits.OnesCount(uint(size)) != 1 {
		return fmt.Errorf("%w: %d entries is not a power of two between 1 and 2^30", ErrSize, size)
	}
	return nil
}

func sides[T any](w words, entries []T) (*Producer[T], *Consumer[T]) {
	return newProducer(w, entries), newConsumer(w, entries)
}

func newProducer[T any](w words, entries []T) *Producer[T] {
	size := uint32(len(entries))
	p := &Producer[T]{shared: w, entries: entries, mask: size - 1, size: size, next: w.prod.Load()}
	p.limit = p.next // nothing is known to be free
	p.refresh()
	return p
}

func newConsumer[T any](w words, entries []T) *Consumer[T] {
	size := uint32(len(entries))
	c := &Consumer[T]{shared: w, entries: entries, mask: size - 1, size: size, next: w.cons.Load()}
	c.limit = c.next // nothing is known to be there
	c.refresh()
	return c
}

// EmptyProducer returns a producer without entries, as after Detach.
func EmptyProducer[T any]() *Producer[T] {
	p := new(Producer[T])
	p.Detach()
	return p
}

// EmptyConsumer returns a consumer without entries, as after Detach.
func EmptyConsumer[T any]() *Consumer[T] {
	c := new(Consumer[T])
	c.Detach()
	return c
}
