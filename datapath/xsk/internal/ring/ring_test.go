package ring

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func pair(t testing.TB, size int, start uint32) (*Producer[uint64], *Consumer[uint64]) {
	t.Helper()
	p, c, err := Pair[uint64](size, start)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// starts are indices from which a test reaches what is special about them.
var starts = []uint32{0, 1, math.MaxInt32 - 2, math.MaxInt32, math.MaxUint32 - 5, math.MaxUint32}

func TestPutTake(t *testing.T) {
	for _, start := range starts {
		p, c := pair(t, 4, start)
		dst := make([]uint64, 8)
		if n := c.Take(dst); n != 0 {
			t.Fatalf("start %d: took %d of an empty ring", start, n)
		}
		if n := p.Put([]uint64{1, 2, 3}); n != 3 {
			t.Fatalf("start %d: put %d of 3", start, n)
		}
		if n := p.Put([]uint64{4, 5}); n != 1 {
			t.Fatalf("start %d: put %d into the last place", start, n)
		}
		if n := p.Put([]uint64{6}); n != 0 || p.Free() != 0 || p.Pending() != 4 || c.Avail() != 4 {
			t.Fatalf("start %d: full ring took %d; free %d, pending %d, avail %d", start, n, p.Free(), p.Pending(), c.Avail())
		}
		if n := c.Take(dst[:3]); n != 3 || !slices.Equal(dst[:3], []uint64{1, 2, 3}) {
			t.Fatalf("start %d: took %v", start, dst[:n])
		}
		if n := p.Put([]uint64{6, 7, 8, 9}); n != 3 {
			t.Fatalf("start %d: put %d of 3 places", start, n)
		}
		if n := c.Take(dst); n != 4 || !slices.Equal(dst[:4], []uint64{4, 6, 7, 8}) {
			t.Fatalf("start %d: took %v", start, dst[:n])
		}
		if p.Broken() || c.Broken() {
			t.Errorf("start %d: broken", start)
		}
	}
}

func TestPeekRelease(t *testing.T) {
	p, c := pair(t, 4, math.MaxUint32-1)
	p.Put([]uint64{1, 2, 3})
	dst := make([]uint64, 4)
	for range 2 {
		if n := c.Peek(dst); n != 3 || !slices.Equal(dst[:3], []uint64{1, 2, 3}) {
			t.Fatalf("peeked %v", dst[:n])
		}
	}
	if p.Free() != 1 {
		t.Errorf("Peek freed places: %d", p.Free())
	}
	c.Release(2)
	if n := c.Peek(dst); n != 1 || dst[0] != 3 || p.Free() != 3 {
		t.Errorf("after Release peeked %v with %d places", dst[:n], p.Free())
	}
	c.Release(9) // more than there is
	c.Release(0)
	c.Release(-1)
	if c.Avail() != 0 || p.Free() != 4 || c.Ready() {
		t.Errorf("after releasing all: avail %d, free %d", c.Avail(), p.Free())
	}
}

func TestNothing(t *testing.T) {
	p, c := pair(t, 1, 7)
	if p.Put(nil) != 0 || c.Take(nil) != 0 || c.Peek(nil) != 0 || p.Room(0) != 0 {
		t.Error("nothing is something")
	}
	p.Put([]uint64{5})
	if c.Take(nil) != 0 || !c.Ready() {
		t.Error("taking nothing took something")
	}
}

func TestNeedWakeup(t *testing.T) {
	p, c := pair(t, 2, 0)
	for _, on := range []bool{false, true, true, false} {
		c.SetNeedWakeup(on)
		if p.NeedWakeup() != on {
			t.Errorf("flag reads %v, want %v", !on, on)
		}
	}
}

// Model test: a ring is a queue of bounded length.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 6).Draw(t, "log2 size")
		start := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(math.MaxUint32-64, math.MaxUint32)).Draw(t, "start")
		p, c, err := Pair[uint64](size, start)
		if err != nil {
			t.Fatal(err)
		}
		var model []uint64
		next := uint64(0)
		dst := make([]uint64, 100)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				src := make([]uint64, rapid.IntRange(0, 80).Draw(t, "n"))
				for i := range src {
					src[i] = next + uint64(i)
				}
				n := p.Put(src)
				if want := min(len(src), size-len(model)); n != want {
					t.Fatalf("put %d, want %d", n, want)
				}
				model = append(model, src[:n]...)
				next += uint64(n)
			},
			"take": func(t *rapid.T) {
				want := min(rapid.IntRange(0, 80).Draw(t, "n"), 100)
				n := c.Take(dst[:want])
				want = min(want, len(model))
				if n != want || !slices.Equal(dst[:n], model[:want]) {
					t.Fatalf("took %v, want %v", dst[:n], model[:want])
				}
				model = model[n:]
			},
			"peek and release some": func(t *rapid.T) {
				n := c.Peek(dst[:rapid.IntRange(0, 80).Draw(t, "n")])
				if !slices.Equal(dst[:n], model[:n]) {
					t.Fatalf("peeked %v, want %v", dst[:n], model[:n])
				}
				n = rapid.IntRange(0, n).Draw(t, "release")
				c.Release(n)
				model = model[n:]
			},
			"": func(t *rapid.T) {
				if p.Free() != size-len(model) || p.Pending() != len(model) || c.Avail() != len(model) || c.Ready() != (len(model) != 0) {
					t.Fatalf("free %d, pending %d, avail %d, ready %v with %d of %d", p.Free(), p.Pending(), c.Avail(), c.Ready(), len(model), size)
				}
				if p.Broken() || c.Broken() {
					t.Fatal("broken")
				}
			},
		})
	})
}

// Two goroutines, for the race detector and the order of what passes.
func TestConcurrent(t *testing.T) {
	const total = 50_000
	p, c := pair(t, 64, math.MaxUint32-1000)
	go func() {
		src := make([]uint64, 7)
		for sent := 0; sent < total; {
			batch := src[:min(len(src), total-sent)]
			for i := range batch {
				batch[i] = uint64(sent + i)
			}
			n := p.Put(batch)
			if sent += n; n == 0 {
				runtime.Gosched()
			}
		}
	}()
	dst := make([]uint64, 5)
	for got := 0; got < total; {
		n := c.Take(dst)
		for i, v := range dst[:n] {
			if v != uint64(got+i) {
				t.Fatalf("entry %d is %d", got+i, v)
			}
		}
		if got += n; n == 0 {
			runtime.Gosched()
		}
	}
}

// An index that cannot be marks the ring and yields nothing.
func TestBroken(t *testing.T) {
	for _, tc := range []struct {
		name string
		off  uint32 // added to the index that the other side writes
	}{
		{"one too far", 5}, {"far too far", 1 << 31}, {"backwards", math.MaxUint32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := pair(t, 4, 10)
			c.shared.prod.Add(tc.off)
			if n := c.Take(make([]uint64, 9)); n != 0 || !c.Broken() || c.Avail() != 0 {
				t.Errorf("consumer took %d, broken %v", n, c.Broken())
			}
			p, _ := pair(t, 4, 10)
			p.shared.cons.Add(tc.off)
			if p.Free() != 0 || p.Put([]uint64{1, 2, 3, 4}) != 0 || !p.Broken() {
				t.Errorf("producer has room, broken %v", p.Broken())
			}
		})
	}
}

func TestDetach(t *testing.T) {
	p, c := pair(t, 4, 3)
	p.Put([]uint64{1, 2})
	p.Detach()
	c.Detach()
	for _, p := range []*Producer[uint64]{p, EmptyProducer[uint64]()} {
		if p.Put([]uint64{1}) != 0 || p.Free() != 0 || p.Pending() != 0 || p.Size() != 0 || p.NeedWakeup() || p.Broken() {
			t.Error("detached producer does something")
		}
	}
	for _, c := range []*Consumer[uint64]{c, EmptyConsumer[uint64]()} {
		if c.Take(make([]uint64, 2)) != 0 || c.Avail() != 0 || c.Size() != 0 || c.Ready() || c.Broken() {
			t.Error("detached consumer does something")
		}
	}
}

func TestSize(t *testing.T) {
	for _, size := range []int{-1, 0, 3, 6, 1<<30 + 1, 1 << 31} {
		if _, _, err := Pair[uint64](size, 0); !errors.Is(err, ErrSize) {
			t.Errorf("size %d: %v, want ErrSize", size, err)
		}
	}
	for _, size := range []int{1, 2, 2048} {
		if p, c := pair(t, size, 0); p.Size() != size || c.Size() != size {
			t.Errorf("size %d becomes %d and %d", size, p.Size(), c.Size())
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	p, c := pair(t, 64, 0)
	buf := make([]uint64, 32)
	if n := testing.AllocsPerRun(100, func() {
		p.Put(buf)
		c.Take(buf)
		_ = p.Free() + p.Pending() + c.Avail()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPutTake(b *testing.B) {
	for _, batch := range []int{1, 32, 256} {
		b.Run(map[int]string{1: "1", 32: "32", 256: "256"}[batch], func(b *testing.B) {
			p, c := pair(b, 2048, 0)
			buf := make([]uint64, batch)
			for b.Loop() {
				p.Put(buf)
				c.Take(buf)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/entry")
		})
	}
}
