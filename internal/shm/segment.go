package shm

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

var pageSize = os.Getpagesize()

// segment is a file of memory and what of it is in use.
type segment struct {
	kind   Kind
	mem    *Memory
	unit   int         // pieces begin at its multiples, and are as long
	free   []extent    // by offset, no two touch
	pieces map[int]int // length by offset
}

type extent struct{ off, n int }

// newSegment makes a segment of size bytes.
func newSegment(name string, kind Kind, size int, huge bool) (*segment, error) {
	mem, err := Create(name, size, Options{Huge: huge})
	if err != nil {
		return nil, err
	}
	g := &segment{kind: kind, mem: mem, unit: cacheLine, pieces: map[int]int{}}
	switch {
	case huge:
		g.unit = HugePage
	case kind == Buffers:
		g.unit = pageSize
	}
	g.free = []extent{{0, len(g.mem.Bytes())}}
	return g, nil
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// alloc takes the first room for n bytes.
func (g *segment) alloc(n, align int) (off int, ok bool) {
	align, n = max(align, g.unit), roundUp(n, g.unit)
	for i, e := range g.free {
		off := roundUp(e.off, align)
		if pad := off - e.off; pad >= e.n || e.n-pad < n {
			continue
		}
		// Huge pages that were given back need not be there a second time.
		if g.mem.Huge() && unix.Fallocate(g.mem.FD(), 0, int64(off), int64(n)) != nil {
			_ = g.punch(off, n) // what there was of them is for others
			continue
		}
		g.carve(i, off, n)
		g.pieces[off] = n
		return off, true
	}
	return 0, false
}

// carve takes n bytes at off out of the i-th free extent.
func (g *segment) carve(i, off, n int) {
	e := g.free[i]
	before := extent{e.off, off - e.off}
	after := extent{off + n, e.off + e.n - off - n}
	switch {
	case before.n == 0 && after.n == 0:
		g.free = slices.Delete(g.free, i, i+1)
	case before.n == 0:
		g.free[i] = after
	case after.n == 0:
		g.free[i] = before
	default:
		g.free[i] = before
		g.free = slices.Insert(g.free, i+1, after)
	}
}

// release takes the piece at off back. Its memory is zero afterwards: whole pages are
// given to the system, of others the bytes are cleared. A segment whose pages cannot
// be given back keeps the piece, so that nobody gets what was in it.
func (g *segment) release(off int) error {
	n := g.pieces[off]
	delete(g.pieces, off)
	page := pageSize
	if g.mem.Huge() {
		page = HugePage
	}
	b := g.mem.Bytes()
	first, last := roundUp(off, page), (off+n)/page*page
	if first >= last {
		clear(b[off : off+n])
	} else {
		clear(b[off:first])
		clear(b[last : off+n])
		if err := g.punch(first, last-first); err != nil {
			return fmt.Errorf("give %d bytes of shared memory back: %w", n, err)
		}
	}
	g.insert(extent{off, n})
	return nil
}

// punch gives the pages of n bytes at off to the system.
func (g *segment) punch(off, n int) error {
	return unix.Fallocate(g.mem.FD(), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n))
}

// insert adds a free extent and joins it with its neighbours.
func (g *segment) insert(e extent) {
	i, _ := slices.BinarySearchFunc(g.free, e.off, func(f extent, off int) int { return f.off - off })
	if i < len(g.free) && e.off+e.n == g.free[i].off {
		e.n += g.free[i].n
		g.free = slices.Delete(g.free, i, i+1)
	}
	if i > 0 && g.free[i-1].off+g.free[i-1].n == e.off {
		g.free[i-1].n += e.n
		return
	}
	g.free = slices.Insert(g.free, i, e)
}
