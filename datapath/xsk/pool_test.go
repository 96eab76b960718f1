package xsk_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func newUMEM(t testing.TB, cfg xsk.UMEMConfig) *xsk.UMEM {
	t.Helper()
	u, err := xsk.NewUMEM(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func TestPoolOrder(t *testing.T) {
	u := newUMEM(t, xsk.UMEMConfig{Frames: 8, FrameSize: 2048})
	p := xsk.NewPool(u, 2, 4)
	dst := make([]uint64, 3)
	if n := p.Get(dst); n != 3 || !slices.Equal(dst, []uint64{2 * 2048, 3 * 2048, 4 * 2048}) {
		t.Fatalf("first frames %v", dst[:n])
	}
	if !p.Put(3 * 2048) {
		t.Fatal("Put refused a frame")
	}
	if addr, ok := p.GetOne(); !ok || addr != 3*2048 {
		t.Errorf("got %d, want the frame returned last", addr)
	}
	if n := p.Get(dst); n != 1 || dst[0] != 5*2048 {
		t.Errorf("got %v, want the last frame", dst[:n])
	}
	if _, ok := p.GetOne(); ok || p.Get(dst) != 0 || p.Free() != 0 || p.Size() != 4 {
		t.Error("an empty pool gave a frame")
	}
	if n := p.PutAll([]uint64{2 * 2048, 4 * 2048, 4 * 2048}); n != 2 || p.Free() != 2 || p.Rejected() != 1 {
		t.Errorf("PutAll accepted %d, free %d, rejected %d", n, p.Free(), p.Rejected())
	}
}

func TestPoolPut(t *testing.T) {
	aligned := xsk.UMEMConfig{Frames: 8, FrameSize: 4096}
	unaligned := xsk.UMEMConfig{Frames: 8, FrameSize: 3000, Unaligned: true}
	for _, tc := range []struct {
		name string
		cfg  xsk.UMEMConfig
		addr uint64
		base uint64 // of the frame that it is in
		ok   bool
	}{
		{"base", aligned, 8192, 8192, true},
		{"received, with headroom", aligned, 8192 + 256, 8192, true},
		{"last byte", aligned, 8192 + 4095, 8192, true},
		{"first of the range", aligned, 4096, 4096, true},
		{"last of the range", aligned, 5*4096 - 1, 4 * 4096, true},
		{"before the range", aligned, 4095, 0, false},
		{"behind the range", aligned, 5 * 4096, 0, false},
		{"behind the memory", aligned, 8 * 4096, 0, false},
		{"far behind", aligned, 1<<64 - 1, 0, false},
		{"upper bits in aligned mode", aligned, 1<<48 | 4096, 0, false},
		{"unaligned base", unaligned, 6000, 6000, true},
		{"unaligned, offset in the upper bits", unaligned, 256<<48 | 6000, 6000, true},
		{"unaligned, offset added", unaligned, 6000 + 256, 6000, true},
		{"unaligned, last byte", unaligned, 8999, 6000, true},
		{"unaligned, before the range", unaligned, 2999, 0, false},
		{"unaligned, behind the range", unaligned, 15000, 0, false},
		{"unaligned power of two", xsk.UMEMConfig{Frames: 8, FrameSize: 4096, Unaligned: true}, 320<<48 | 8192, 8192, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := xsk.NewPool(newUMEM(t, tc.cfg), 1, 4)
			all := make([]uint64, 4)
			p.Get(all)
			if got := p.Owns(tc.addr); got != tc.ok {
				t.Errorf("Owns says %v", got)
			}
			if got := p.Put(tc.addr); got != tc.ok {
				t.Fatalf("Put says %v", got)
			}
			if tc.ok {
				if p.Put(tc.addr) || p.Put(tc.base) || p.Rejected() != 2 {
					t.Error("the frame could be put twice")
				}
				if addr, _ := p.GetOne(); addr != tc.base {
					t.Errorf("got %d back, want %d", addr, tc.base)
				}
			} else if p.Rejected() != 1 || p.Free() != 0 {
				t.Errorf("rejected %d, free %d", p.Rejected(), p.Free())
			}
		})
	}
}

func TestPoolRange(t *testing.T) {
	u := newUMEM(t, xsk.UMEMConfig{Frames: 10})
	for _, tc := range []struct{ first, n, size int }{
		{0, 10, 10}, {0, 0, 0}, {9, 1, 1}, {9, 5, 1}, {10, 1, 0}, {50, 5, 0}, {-3, 4, 4}, {2, -1, 0}, {0, 1 << 40, 10},
	} {
		if p := xsk.NewPool(u, tc.first, tc.n); p.Size() != tc.size || p.Free() != tc.size {
			t.Errorf("NewPool(%d, %d) has %d frames, want %d", tc.first, tc.n, p.Size(), tc.size)
		}
	}
}

// Model test: a pool is a stack of distinct frames.
func TestPoolModel(t *testing.T) {
	umems := []*xsk.UMEM{
		newUMEM(t, xsk.UMEMConfig{Frames: 150, FrameSize: 2048}),
		newUMEM(t, xsk.UMEMConfig{Frames: 150, FrameSize: 2600, Unaligned: true}),
	}
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.SampledFrom(umems).Draw(t, "umem")
		first, n := rapid.IntRange(0, 20).Draw(t, "first"), rapid.IntRange(1, 130).Draw(t, "frames")
		size := uint64(u.FrameSize())
		p := xsk.NewPool(u, first, n)
		var free, out []uint64
		for i := n - 1; i >= 0; i-- {
			free = append(free, uint64(first+i)*size)
		}
		rejected := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				dst := make([]uint64, rapid.IntRange(0, 40).Draw(t, "n"))
				got := p.Get(dst)
				if want := min(len(dst), len(free)); got != want {
					t.Fatalf("got %d, want %d", got, want)
				}
				for _, addr := range dst[:got] {
					last := len(free) - 1
					if addr != free[last] {
						t.Fatalf("got %d, want %d", addr, free[last])
					}
					free = free[:last]
				}
				out = append(out, dst[:got]...)
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				addr := out[i] + rapid.Uint64Range(0, size-1).Draw(t, "offset")
				if !p.Put(addr) {
					t.Fatalf("refused %d", addr)
				}
				free = append(free, out[i])
				out = slices.Delete(out, i, i+1)
			},
			"put what is free": func(t *rapid.T) {
				if len(free) == 0 {
					t.Skip("nothing is free")
				}
				if p.Put(rapid.SampledFrom(free).Draw(t, "frame")) {
					t.Fatal("accepted a free frame")
				}
				rejected++
			},
			"": func(t *rapid.T) {
				if p.Free() != len(free) || p.Rejected() != rejected {
					t.Fatalf("free %d, rejected %d, want %d and %d", p.Free(), p.Rejected(), len(free), rejected)
				}
			},
		})
	})
}

func TestPoolAllocs(t *testing.T) {
	p := xsk.NewPool(newUMEM(t, xsk.UMEMConfig{Frames: 64}), 0, 64)
	buf := make([]uint64, 64)
	if n := testing.AllocsPerRun(100, func() {
		p.PutAll(buf[:p.Get(buf)])
		addr, _ := p.GetOne()
		p.Put(addr)
		p.Put(addr)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPool(b *testing.B) {
	for _, cfg := range []xsk.UMEMConfig{{}, {FrameSize: 3000, Unaligned: true}} {
		b.Run(fmt.Sprintf("frame=%d", cfg.FrameSize), func(b *testing.B) {
			p := xsk.NewPool(newUMEM(b, cfg), 0, 4096)
			var buf [32]uint64
			for b.Loop() {
				p.PutAll(buf[:p.Get(buf[:])])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(32*b.N), "ns/frame")
		})
	}
}
