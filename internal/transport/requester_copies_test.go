package transport

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// TestSendCopies runs two queue pairs' copies against a model: whatever is
// loaded, completed and given back, each work request in progress keeps its own.
func TestSendCopies(t *testing.T) {
	type held struct {
		wrid   uint64
		sge    queue.SGE
		inline byte
	}
	rapid.Check(t, func(t *rapid.T) {
		var pool copyPool
		var copies [2]sendCopies
		var want [2][]held
		var head [2]uint32
		for i := range copies {
			copies[i].limit = 1 << rapid.IntRange(0, 6).Draw(t, "ring")
			copies[i].maxSGE = rapid.IntRange(1, 5).Draw(t, "sge")
			copies[i].maxInline = rapid.IntRange(0, 40).Draw(t, "inline")
			head[i] = uint32(rapid.SampledFrom([]int{0, 5, 1<<32 - 3}).Draw(t, "head"))
		}
		for step := range uint64(rapid.IntRange(1, 200).Draw(t, "steps")) {
			i := rapid.IntRange(0, 1).Draw(t, "qp")
			c := &copies[i]
			tail := head[i] + uint32(len(want[i]))
			switch load := rapid.IntRange(0, 2).Draw(t, "load") != 0; {
			case load && len(want[i]) < c.limit:
				h := held{step, queue.SGE{Addr: step}, byte(step)}
				c.makeRoom(&pool, head[i], tail)
				c.at(tail).wrid = h.wrid
				c.sgesAt(tail)[c.maxSGE-1] = h.sge
				if c.maxInline > 0 {
					c.inlineAt(tail)[c.maxInline-1] = h.inline
				}
				want[i] = append(want[i], h)
			case len(want[i]) > 0:
				want[i] = want[i][1:]
				head[i]++
			default:
				c.idle(&pool)
			}
			for j := range copies {
				for k, h := range want[j] {
					at := head[j] + uint32(k)
					got := held{copies[j].at(at).wrid, copies[j].sgesAt(at)[copies[j].maxSGE-1], h.inline}
					if n := copies[j].maxInline; n > 0 {
						got.inline = copies[j].inlineAt(at)[n-1]
					}
					if got != h {
						t.Fatalf("queue pair %d, work request %d of %d: %+v, want %+v", j, k, len(want[j]), got, h)
					}
				}
			}
		}
	})
}

// TestSendCopiesFollowUse: what a queue pair holds follows what it has in
// progress, and what one gives back the next one takes.
func TestSendCopiesFollowUse(t *testing.T) {
	var pool copyPool
	c := sendCopies{limit: 256, maxSGE: 1}
	for i := range uint32(100) {
		c.makeRoom(&pool, 0, i)
	}
	if len(c.wqes) != 128 || len(c.sges) != 128 {
		t.Errorf("%d copies with %d entries for 100 requests, want 128", len(c.wqes), len(c.sges))
	}
	c.idle(&pool)
	if c.wqes != nil || c.sges != nil {
		t.Errorf("%d copies while idle", len(c.wqes))
	}
	use := func(c *sendCopies) func() {
		return func() {
			for i := range uint32(100) {
				c.makeRoom(&pool, 0, i)
			}
			c.idle(&pool)
		}
	}
	other := sendCopies{limit: 128, maxSGE: 1}
	if n := testing.AllocsPerRun(100, use(&other)); n != 0 {
		t.Errorf("%v allocations where the pool has enough", n)
	}
	c.makeRoom(&pool, 0, 0)
	if c.idle(&pool); len(c.wqes) != minCopies {
		t.Errorf("%d small copies are kept while idle, want %d", len(c.wqes), minCopies)
	}
	large := sendCopies{limit: 256, maxSGE: 30}
	large.makeRoom(&pool, 0, 0)
	if large.idle(&pool); large.wqes != nil {
		t.Errorf("%d large copies are kept while idle", len(large.wqes))
	}
}

func TestSlicePool(t *testing.T) {
	var p slicePool[uint16]
	for _, n := range []int{1, 2, 3, 4, 5, 64, 65} {
		s := p.get(n)
		if len(s) != n || cap(s)&(cap(s)-1) != 0 {
			t.Errorf("%d: length %d, capacity %d", n, len(s), cap(s))
		}
		p.put(s)
		again := p.get(n)
		if d := cmp.Diff(s, again); d != "" || &s[0] != &again[0] {
			t.Errorf("%d: not the same again: %s", n, d)
		}
	}
	if s := p.get(0); s != nil {
		t.Errorf("0: %v", s)
	}
	p.put(nil)
}
