package transport

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// sendCopies are the engine's copies of the send work requests from head to
// tail. They are as many as the queue pair has in progress, not as many as its
// ring holds: of the thousands that a device may have, most are idle at any
// time. Arrays come from, and go back to, a pool that the queue pairs of a worker
// share, so that a busy queue pair reuses memory that is in the cache.
type sendCopies struct {
	wqes              []sendWQE   // a power of two, or none
	sges              []queue.SGE // maxSGE for each of wqes
	inline            []byte      // maxInline for each of wqes
	mask              uint32
	maxSGE, maxInline int
	limit             int // entries of the ring
}

// minCopies is what a queue pair begins with. It is kept while idle unless
// scatter/gather lists or inline data make it large.
const minCopies = 4

// maxIdleBytes is how many bytes of scatter/gather lists and inline data an idle
// queue pair keeps at most, besides the copies of minCopies requests.
const maxIdleBytes = 512

func (c *sendCopies) at(i uint32) *sendWQE { return &c.wqes[i&c.mask] }

func (c *sendCopies) sgesAt(i uint32) []queue.SGE {
	k := int(i&c.mask) * c.maxSGE
	return c.sges[k : k+c.maxSGE]
}

func (c *sendCopies) inlineAt(i uint32) []byte {
	k := int(i&c.mask) * c.maxInline
	return c.inline[k : k+c.maxInline]
}

// makeRoom makes a place for the work request with index tail while those from
// head on are held.
func (c *sendCopies) makeRoom(p *copyPool, head, tail uint32) {
	if int(tail-head) < len(c.wqes) {
		return
	}
	n := min(max(2*len(c.wqes), minCopies), c.limit)
	old := *c
	c.wqes, c.mask = p.wqes.get(n), uint32(n-1)
	c.sges = p.sges.get(n * c.maxSGE)
	c.inline = p.inline.get(n * c.maxInline)
	for i := head; i != tail; i++ {
		*c.at(i) = *old.at(i)
		copy(c.sgesAt(i), old.sgesAt(i))
		copy(c.inlineAt(i), old.inlineAt(i))
	}
	old.drop(p)
}

// idle gives back what a queue pair without requests in progress need not keep.
func (c *sendCopies) idle(p *copyPool) {
	if n := len(c.wqes); n > minCopies || n*(c.maxSGE*sgeLen+c.maxInline) > maxIdleBytes {
		c.drop(p)
	}
}

// drop gives everything back.
func (c *sendCopies) drop(p *copyPool) {
	p.wqes.put(c.wqes)
	p.sges.put(c.sges)
	p.inline.put(c.inline)
	c.wqes, c.sges, c.inline = nil, nil, nil
}

// copyPool has the arrays that no queue pair uses at the moment. It grows to what
// the queue pairs of a worker have had in progress together at most.
type copyPool struct {
	wqes   slicePool[sendWQE]
	sges   slicePool[queue.SGE]
	inline slicePool[byte]
}

// slicePool has slices for reuse by the logarithm of their capacity.
type slicePool[T any] struct{ free [32][][]T }

// get is a slice of n elements with a power of two as its capacity. What is in
// it is left from before.
func (p *slicePool[T]) get(n int) []T {
	if n == 0 {
		return nil
	}
	class := bits.Len(uint(n - 1))
	list := p.free[class]
	if len(list) == 0 {
		return make([]T, n, 1<<class)
	}
	s := list[len(list)-1]
	p.free[class] = list[:len(list)-1]
	return s[:n]
}

// put takes a slice of get back.
func (p *slicePool[T]) put(s []T) {
	if cap(s) == 0 {
		return
	}
	class := bits.Len(uint(cap(s) - 1))
	p.free[class] = append(p.free[class], s)
}
