package queue

// Producer is the writing end of a ring, used by one goroutine at a time.
type Producer struct {
	ring     Ring   // a view of its own: one cache line with the indices
	next     uint32 // index of the next element to write; the shared word follows
	consumed uint32 // last seen consumer index
}

// NewProducer takes the writing end of an empty ring.
func NewProducer(r *Ring) *Producer { return &Producer{ring: *r} }

// ResumeProducer takes the writing end where its last user left it. The consumer
// may have begun to read.
func ResumeProducer(r *Ring) *Producer {
	return &Producer{ring: *r, next: r.producer.Load(), consumed: r.consumer.Load()}
}

// Ring is the ring that p writes to.
func (p *Producer) Ring() *Ring { return &p.ring }

// Free is the number of elements that can be written now. A consumer index that
// cannot be true counts as a full ring.
func (p *Producer) Free() int {
	if used := p.next - p.consumed; used <= p.ring.mask {
		return int(p.ring.mask + 1 - used)
	}
	return p.refresh()
}

func (p *Producer) refresh() int {
	p.consumed = p.ring.consumer.Load()
	used := p.next - p.consumed
	if used > p.ring.mask+1 {
		return 0
	}
	return int(p.ring.mask + 1 - used)
}

// FreeNow is Free with a fresh look at the consumer's index.
func (p *Producer) FreeNow() int { return p.refresh() }

// Slot is the memory of the i-th element not yet published, i < Free().
func (p *Producer) Slot(i int) []byte { return p.ring.slot(p.next + uint32(i)) }

// Publish makes the next n elements visible to the consumer.
func (p *Producer) Publish(n int) {
	p.next += uint32(n)
	p.ring.producer.Store(p.next)
}

// Pending is the number of elements that the consumer has not released, with a
// fresh look at its index. ok is false when that cannot be true.
func (p *Producer) Pending() (n int, ok bool) {
	p.refresh()
	if d := p.next - p.consumed; d <= p.ring.mask+1 {
		return int(d), true
	}
	return 0, false
}

// PendingSlot is the memory of the i-th element of these, i < Pending().
func (p *Producer) PendingSlot(i int) []byte { return p.ring.slot(p.consumed + uint32(i)) }

// Consumer is the reading end of a ring, used by one goroutine at a time.
type Consumer struct {
	ring     Ring   // a view of its own: one cache line with the indices
	next     uint32 // index of the next element to read; the shared word follows
	produced uint32 // last seen producer index
}

// NewConsumer takes the reading end of an empty ring.
func NewConsumer(r *Ring) *Consumer { return &Consumer{ring: *r} }

// Ring is the ring that c reads from.
func (c *Consumer) Ring() *Ring { return &c.ring }

// Avail is the number of elements that can be read, with a fresh look at the
// producer's index. ok is false when that index cannot be true: the other side
// has corrupted the ring.
func (c *Consumer) Avail() (n int, ok bool) {
	c.produced = c.ring.producer.Load()
	if d := c.produced - c.next; d <= c.ring.mask+1 {
		return int(d), true
	}
	return 0, false
}

// Slot is the memory of the i-th element not yet released, i < Avail(). In
// shared memory the other side may change it at any time: copy, then check.
func (c *Consumer) Slot(i int) []byte { return c.ring.slot(c.next + uint32(i)) }

// Release gives n elements back to the producer.
func (c *Consumer) Release(n int) {
	c.next += uint32(n)
	c.ring.consumer.Store(c.next)
}
