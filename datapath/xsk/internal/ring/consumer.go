package ring

import "sync/atomic"

// Consumer is the side of a ring that takes entries.
type Consumer[T any] struct {
	shared  words
	entries []T
	mask    uint32
	size    uint32
	next    uint32 // the consumer index, which nobody else writes
	limit   uint32 // the producer index as last seen
	broken  atomic.Bool
}

// Take copies up to len(dst) entries to dst, gives their places back and
// returns how many it copied.
func (c *Consumer[T]) Take(dst []T) int {
	n := c.Peek(dst)
	c.Release(n)
	return n
}

// Peek copies up to len(dst) entries to dst and leaves them in the ring.
func (c *Consumer[T]) Peek(dst []T) int {
	n := c.limit - c.next
	if uint64(n) < uint64(len(dst)) {
		n = c.refresh()
	}
	n = uint32(min(uint64(n), uint64(len(dst))))
	if n == 0 {
		return 0
	}
	at := c.next & c.mask
	copied := copy(dst[:n], c.entries[at:])
	copy(dst[copied:n], c.entries)
	return int(n)
}

// Release gives the places of the n oldest entries back to the producer. n is
// at most what the last Peek returned; more is cut down to what is there.
func (c *Consumer[T]) Release(n int) {
	if n <= 0 {
		return
	}
	c.next += uint32(min(uint64(n), uint64(c.limit-c.next)))
	c.shared.cons.Store(c.next)
}

func (c *Consumer[T]) refresh() uint32 {
	prod := c.shared.prod.Load()
	if prod-c.limit > c.next+c.size-c.limit || c.broken.Load() {
		// The producer went back, or claims more entries than the ring has.
		c.broken.Store(true)
		c.limit = c.next
		return 0
	}
	c.limit = prod
	return prod - c.next
}

// Avail returns how many entries can be taken now.
func (c *Consumer[T]) Avail() int { return int(c.refresh()) }

// Ready reports whether there is anything to take. It only reads the shared
// indices and is safe from any goroutine.
func (c *Consumer[T]) Ready() bool {
	return c.shared.prod.Load() != c.shared.cons.Load()
}

// Size returns the number of entries of the ring, 0 after Detach.
func (c *Consumer[T]) Size() int { return int(c.size) }

// SetNeedWakeup sets or clears the flag that the producer's NeedWakeup reads.
func (c *Consumer[T]) SetNeedWakeup(on bool) {
	var v uint32
	if on {
		v = needWakeup
	}
	c.shared.flags.Store(v)
}

// Broken reports whether the other side ever published an index that cannot
// be. Safe from any goroutine.
func (c *Consumer[T]) Broken() bool { return c.broken.Load() }

// Detach makes the ring empty and unusable, so that no call reaches memory
// that is about to be unmapped.
func (c *Consumer[T]) Detach() {
	c.shared = newWords()
	c.entries, c.mask, c.size = nil, 0, 0
	c.next, c.limit = 0, 0
}
