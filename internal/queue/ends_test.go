package queue

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// startAt moves both ends of an empty ring to an index.
func startAt(r *Ring, index uint32) (*Producer, *Consumer) {
	r.producer.Store(index)
	r.consumer.Store(index)
	return &Producer{ring: *r, next: index, consumed: index}, &Consumer{ring: *r, next: index, produced: index}
}

func TestRingFillsAndEmpties(t *testing.T) {
	for _, entries := range []int{1, 2, 4, 64} {
		for _, start := range []uint32{0, 1, 1<<32 - 1, 1<<32 - 3, 1<<31 - 2} {
			r, _ := newRing(t, entries, 8)
			p, c := startAt(r, start)
			if n, ok := c.Avail(); n != 0 || !ok {
				t.Fatalf("empty ring has %d, %v", n, ok)
			}
			next := uint64(0)
			for round := range 3 {
				if p.Free() != entries {
					t.Fatalf("round %d of %d from %#x: %d free", round, entries, start, p.Free())
				}
				for i := range entries {
					binary.LittleEndian.PutUint64(p.Slot(i), next+uint64(i))
				}
				p.Publish(entries)
				if p.Free() != 0 || p.FreeNow() != 0 {
					t.Fatalf("a full ring has %d free", p.Free())
				}
				n, ok := c.Avail()
				if n != entries || !ok {
					t.Fatalf("a full ring has %d of %d, %v", n, entries, ok)
				}
				for i := range entries {
					if got := binary.LittleEndian.Uint64(c.Slot(i)); got != next {
						t.Fatalf("element %d, want %d", got, next)
					}
					next++
				}
				c.Release(entries)
				if n, ok := c.Avail(); n != 0 || !ok {
					t.Fatalf("an emptied ring has %d, %v", n, ok)
				}
			}
		}
	}
}

func TestPublishIsWhatMakesElementsVisible(t *testing.T) {
	r, _ := newRing(t, 4, 8)
	p, c := startAt(r, 0)
	p.Slot(0)[0] = 1
	if n, _ := c.Avail(); n != 0 {
		t.Error("visible before Publish")
	}
	p.Publish(1)
	if n, _ := c.Avail(); n != 1 {
		t.Error("not visible after Publish")
	}
	// The consumer's peek does not give the element back.
	if p.FreeNow() != 3 {
		t.Errorf("%d free", p.FreeNow())
	}
	c.Release(1)
	if p.FreeNow() != 4 {
		t.Errorf("%d free after Release", p.FreeNow())
	}
}

// Free may be out of date, but only to the safe side, and not when it matters.
func TestFreeLooksAgainWhenFull(t *testing.T) {
	r, _ := newRing(t, 2, 8)
	p, c := startAt(r, 0)
	p.Publish(2)
	c.Release(1)
	if p.Free() != 1 {
		t.Errorf("%d free, 1 was released", p.Free())
	}
}

func TestCorruptedIndices(t *testing.T) {
	for _, start := range []uint32{0, 100, 1<<32 - 2} {
		for _, off := range []uint32{5, 6, 1 << 20, 1 << 31, 1<<32 - 1} {
			r, _ := newRing(t, 4, 8)
			p, c := startAt(r, start)
			r.producer.Store(start + off)
			if n, ok := c.Avail(); n != 0 || ok {
				t.Errorf("producer %#x ahead: %d, %v", off, n, ok)
			}
			r.producer.Store(start + 4)
			if n, ok := c.Avail(); n != 4 || !ok {
				t.Errorf("a good index after a bad one: %d, %v", n, ok)
			}
			p.Publish(4)
			// A consumer that claims more than was produced, or less than before.
			r.consumer.Store(start + off)
			if n := p.FreeNow(); n != 0 {
				t.Errorf("consumer %#x ahead: %d free", off, n)
			}
			if n := p.Free(); n != 0 {
				t.Errorf("consumer %#x ahead: %d free from memory", off, n)
			}
			r.consumer.Store(start + 4)
			if n := p.Free(); n != 4 {
				t.Errorf("a good index after a bad one: %d free", n)
			}
		}
	}
}

// The shared word follows the private index, not the other way round.
func TestOwnIndexIsNotReadBack(t *testing.T) {
	r, _ := newRing(t, 4, 8)
	p, c := startAt(r, 0)
	p.Publish(1)
	r.producer.Store(77)
	p.Publish(1)
	if got := r.producer.Load(); got != 2 {
		t.Errorf("producer %d", got)
	}
	c.Release(1)
	r.consumer.Store(99)
	c.Release(1)
	if got := r.consumer.Load(); got != 2 {
		t.Errorf("consumer %d", got)
	}
}

// A ring is a queue of bounded length, wherever its indices are.
func TestRingModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := rapid.IntRange(1, 9).Draw(rt, "entries")
		r, _ := newRing(t, entries, 8)
		p, c := startAt(r, rapid.SampledFrom([]uint32{0, 1<<32 - 5, 1<<31 - 5}).Draw(rt, "start"))
		var model []uint64
		next := uint64(1)
		rt.Repeat(map[string]func(*rapid.T){
			"produce": func(rt *rapid.T) {
				n := rapid.IntRange(0, p.Free()).Draw(rt, "n")
				for i := range n {
					binary.LittleEndian.PutUint64(p.Slot(i), next)
					model = append(model, next)
					next++
				}
				p.Publish(n)
			},
			"consume": func(rt *rapid.T) {
				avail, ok := c.Avail()
				if !ok || avail != len(model) {
					rt.Fatalf("%d available, %v, want %d", avail, ok, len(model))
				}
				n := rapid.IntRange(0, avail).Draw(rt, "n")
				for i := range n {
					if got := binary.LittleEndian.Uint64(c.Slot(i)); got != model[i] {
						rt.Fatalf("element %d, want %d", got, model[i])
					}
				}
				c.Release(n)
				model = model[n:]
			},
			"": func(rt *rapid.T) {
				if free := p.FreeNow(); free != r.Entries()-len(model) {
					rt.Fatalf("%d free with %d of %d in use", free, len(model), r.Entries())
				}
			},
		})
	})
}

// One goroutine produces, one consumes, over the wrap of the index; the race
// detector checks that the indices order the elements' bytes.
func TestRingBetweenGoroutines(t *testing.T) {
	r, _ := newRing(t, 8, 16)
	p, c := startAt(r, 1<<32-1000)
	const total = 20000
	deadline := time.Now().Add(30 * time.Second)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sent := uint64(0); sent < total; {
			n := min(p.Free(), int(sent%5)+1, int(total-sent))
			for i := range n {
				binary.LittleEndian.PutUint64(p.Slot(i), sent)
				binary.LittleEndian.PutUint64(p.Slot(i)[8:], ^sent)
				sent++
			}
			p.Publish(n)
			if n == 0 {
				if time.Now().After(deadline) {
					return
				}
				runtime.Gosched()
			}
		}
	})
	for got := uint64(0); got < total; {
		n, ok := c.Avail()
		if !ok {
			t.Fatal("corrupted")
		}
		for i := range n {
			s := c.Slot(i)
			if v := binary.LittleEndian.Uint64(s); v != got || binary.LittleEndian.Uint64(s[8:]) != ^got {
				t.Fatalf("element %d, want %d", v, got)
			}
			got++
		}
		c.Release(n)
		if n == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("stuck at %d", got)
			}
			runtime.Gosched()
		}
	}
	wg.Wait()
}
