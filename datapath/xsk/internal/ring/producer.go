package ring

import "sync/atomic"

// Producer is the side of a ring that adds entries.
type Producer[T any] struct {
	shared  words
	entries []T
	mask    uint32
	size    uint32
	next    uint32 // the producer index, which nobody else writes
	limit   uint32 // consumer index as last seen plus size: saves an addition
	broken  atomic.Bool
}

// Put adds as many of src as there is room for, in order, and publishes them
// with one store. It returns how many it added.
func (p *Producer[T]) Put(src []T) int {
	if len(src) == 0 {
		return 0
	}
	n := uint32(p.Room(len(src)))
	if n == 0 {
		return 0
	}
	at := p.next & p.mask
	copied := copy(p.entries[at:], src[:n])
	copy(p.entries, src[copied:n])
	p.next += n
	// A sequentially consistent store: entries become visible before the
	// index, and a later NeedWakeup cannot be read ahead of it.
	p.shared.prod.Store(p.next)
	return int(n)
}

// Room returns how many entries can be added, at most want. It looks at the
// consumer's index only when what it knew already does not suffice.
func (p *Producer[T]) Room(want int) int {
	want = min(want, int(p.size))
	free := int(p.limit - p.next)
	if free < want {
		free = int(p.refresh())
	}
	return min(free, want)
}

func (p *Producer[T]) refresh() uint32 {
	cons := p.shared.cons.Load()
	if seen := p.limit - p.size; cons-seen > p.next-seen || p.broken.Load() {
		// The consumer went back, or claims entries that were never produced.
		p.broken.Store(true)
		p.limit = p.next
		return 0
	}
	p.limit = cons + p.size
	return p.limit - p.next
}

// Free returns how many entries can be added now.
func (p *Producer[T]) Free() int { return int(p.refresh()) }

// Pending returns how many added entries the consumer has not taken.
func (p *Producer[T]) Pending() int {
	return int(p.size - p.refresh())
}

// Size returns the number of entries of the ring, 0 after Detach.
func (p *Producer[T]) Size() int { return int(p.size) }

// NeedWakeup reports whether the consumer asks to be woken when entries were
// added. Safe from any goroutine.
func (p *Producer[T]) NeedWakeup() bool {
	return p.shared.flags.Load()&needWakeup != 0
}

// Broken reports whether the other side ever published an index that cannot
// be. Safe from any goroutine.
func (p *Producer[T]) Broken() bool { return p.broken.Load() }

// Detach makes the ring empty, full and unusable, so that no call reaches
// memory that is about to be unmapped.
func (p *Producer[T]) Detach() {
	p.shared = newWords()
	p.entries, p.mask, p.size = nil, 0, 0
	p.next, p.limit = 0, 0
}
