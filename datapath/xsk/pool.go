package xsk

// Pool hands out free frames of a range of a UMEM, last returned first, so
// that a frame is likely still in the cache. All of it takes constant time for
// a frame. One goroutine at a time uses a pool; pools of disjoint ranges are
// independent.
type Pool struct {
	umem  *UMEM
	first uint64 // number of the first frame
	stack []uint64
	count int      // of frames in the range
	free  []uint64 // a bit for each frame, set while it is in stack
	bad   uint64
}

// NewPool returns a pool of the n frames of u from frame number first on, all
// free. The range is cut to the frames that u has.
func NewPool(u *UMEM, first, n int) *Pool {
	first = min(max(first, 0), u.Frames())
	n = min(max(n, 0), u.Frames()-first)
	p := &Pool{
		umem:  u,
		first: uint64(first),
		stack: make([]uint64, 0, n),
		count: n,
		free:  make([]uint64, (n+63)/64),
	}
	// Pushed from the end, so that the first frames are handed out first.
	for i := n - 1; i >= 0; i-- {
		p.Put(uint64(first+i) * u.frameSize)
	}
	return p
}

// Get takes up to len(dst) free frames, stores their addresses in dst and
// returns how many.
func (p *Pool) Get(dst []uint64) int {
	n := min(len(dst), len(p.stack))
	for i := range dst[:n] {
		dst[i] = p.pop()
	}
	return n
}

// GetOne takes a free frame. ok is false if there is none.
func (p *Pool) GetOne() (addr uint64, ok bool) {
	if len(p.stack) == 0 {
		return 0, false
	}
	return p.pop(), true
}

func (p *Pool) pop() uint64 {
	last := len(p.stack) - 1
	addr := p.stack[last]
	p.stack = p.stack[:last]
	i := addr/p.umem.frameSize - p.first
	p.free[i/64] &^= 1 << (i % 64)
	return addr
}

// Put returns a frame. addr may be any address in it: of a received
// descriptor, with the headroom, or one from Complete. Put reports false and
// does nothing when the frame is free already or not of this pool, which is a
// mistake of the caller; Rejected counts those.
func (p *Pool) Put(addr uint64) bool {
	base := p.umem.Base(addr)
	i := base/p.umem.frameSize - p.first
	if i >= uint64(p.count) || p.free[i/64]&(1<<(i%64)) != 0 {
		p.bad++
		return false
	}
	p.free[i/64] |= 1 << (i % 64)
	p.stack = append(p.stack, base)
	return true
}

// PutAll returns frames and tells how many of them Put accepted.
func (p *Pool) PutAll(addrs []uint64) int {
	n := 0
	for _, addr := range addrs {
		if p.Put(addr) {
			n++
		}
	}
	return n
}

// Owns reports whether addr is in a frame of the pool's range, free or not.
func (p *Pool) Owns(addr uint64) bool {
	return p.umem.Base(addr)/p.umem.frameSize-p.first < uint64(p.count)
}

// Free returns the number of free frames.
func (p *Pool) Free() int { return len(p.stack) }

// Size returns the number of frames of the pool, free or not.
func (p *Pool) Size() int { return p.count }

// Rejected returns how many frames Put refused.
func (p *Pool) Rejected() uint64 { return p.bad }
