package shm

import (
	"bytes"
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"pgregory.net/rapid"
)

func TestSegmentsSimple(t *testing.T) {
	noLeak(t)
	s := NewSegments(SegmentsConfig{Name: "test"})
	defer s.Close()
	q := must[Piece](t)(s.Alloc(Queues, 1000, 8))
	b := must[Piece](t)(s.Alloc(Buffers, 1, pageSize))
	big := must[Piece](t)(s.Alloc(Buffers, 3*firstSegment, pageSize))
	if q.Span.Segment == b.Span.Segment || big.Span.Segment == b.Span.Segment || len(big.Mem) != 3*firstSegment {
		t.Errorf("%+v %+v %+v", q.Span, b.Span, big.Span)
	}
	fd, size, err := s.FD(b.Span.Segment)
	if err != nil {
		t.Fatal(err)
	}
	peer := must[*Memory](t)(Open(dup(t, fd), size, false))
	defer peer.Close()
	peer.Bytes()[b.Span.Offset] = 9
	if b.Mem[0] != 9 {
		t.Error("the span leads somewhere else")
	}
	at := must[[]byte](t)(s.At(b.Span.Segment, b.Span.Offset, 1))
	if &at[0] != &b.Mem[0] {
		t.Error("At leads somewhere else")
	}
	for name, f := range map[string]func() error{
		"queues are no buffers":  func() error { _, err := s.At(q.Span.Segment, 0, 1); return err },
		"no bytes":               func() error { _, err := s.At(b.Span.Segment, 0, 0); return err },
		"behind the end":         func() error { _, err := s.At(b.Span.Segment, size, 1); return err },
		"across the end":         func() error { _, err := s.At(b.Span.Segment, size-1, 2); return err },
		"wraps":                  func() error { _, err := s.At(b.Span.Segment, 2, 1<<64-1); return err },
		"segment 0":              func() error { _, err := s.At(0, 0, 1); return err },
		"segment 4":              func() error { _, err := s.At(4, 0, 1); return err },
		"descriptor of 4":        func() error { _, _, err := s.FD(4); return err },
		"free what is not there": func() error { return s.Free(proto.Span{Segment: 1, Offset: 64}) },
		"free far away":          func() error { return s.Free(proto.Span{Segment: 1, Offset: 1 << 63}) },
		"free of 0":              func() error { return s.Free(proto.Span{}) },
		"0 bytes":                func() error { _, err := s.Alloc(Queues, 0, 8); return err },
		"align to 3":             func() error { _, err := s.Alloc(Queues, 8, 3); return err },
		"align to 1 MiB":         func() error { _, err := s.Alloc(Queues, 8, 1<<20); return err },
		"of no kind":             func() error { _, err := s.Alloc(kinds, 8, 8); return err },
	} {
		if err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok(t, s.Free(b.Span))
	if err := s.Free(b.Span); !errors.Is(err, ErrInvalid) {
		t.Errorf("freed twice: %v", err)
	}
	ok(t, s.Close())
	ok(t, s.Close())
	if _, err := s.Alloc(Queues, 8, 8); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestSegmentsLimit(t *testing.T) {
	s := NewSegments(SegmentsConfig{Name: "test", Limit: 3 << 20, Huge: true})
	defer s.Close()
	a := must[Piece](t)(s.Alloc(Buffers, 2<<20, 1))
	if _, err := s.Alloc(Buffers, 1<<20+1, 1); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	must[Piece](t)(s.Alloc(Queues, 1<<20, 1))
	if _, err := s.Alloc(Queues, 1, 1); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	ok(t, s.Free(a.Span))
	b := must[Piece](t)(s.Alloc(Buffers, 2<<20, 1))
	if used, total := s.Bytes(); used != 3<<20 || total != 3<<20 || b.Span != a.Span {
		t.Errorf("%d of %d bytes, %+v", used, total, b.Span)
	}
}

// Ten thousand queue pairs of ordinary size take a few descriptors.
func TestSegmentsAreFew(t *testing.T) {
	s := NewSegments(SegmentsConfig{Name: "test"})
	defer s.Close()
	for range 10_000 {
		must[Piece](t)(s.Alloc(Queues, 16<<10, 64))
		must[Piece](t)(s.Alloc(Queues, 4<<10, 64))
	}
	if n := len(s.list); n > 16 {
		t.Errorf("%d segments", n)
	}
}

// Whatever is taken and given back in whatever order: pieces do not overlap, keep
// what is written to them, are zero when they come, and leave nothing behind.
func TestSegmentsProperty(t *testing.T) {
	noLeak(t)
	rapid.Check(t, func(t *rapid.T) {
		s := NewSegments(SegmentsConfig{Name: "test", Limit: 32 << 20})
		defer s.Close()
		type held struct {
			Piece
			mark byte
		}
		var all []held
		mark := byte(0)
		check := func(h held) {
			if bytes.Count(h.Mem, []byte{h.mark}) != len(h.Mem) {
				t.Fatalf("piece %+v was overwritten", h.Span)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				kind := Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
				n := rapid.OneOf(rapid.IntRange(1, 500), rapid.IntRange(1, 20_000), rapid.IntRange(1, 2<<20)).Draw(t, "bytes")
				align := 1 << rapid.IntRange(0, 12).Draw(t, "align")
				p, err := s.Alloc(kind, n, align)
				if errors.Is(err, ErrLimit) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(p.Mem) != n || p.Span.Size != uint64(n) || p.Span.Offset%uint64(align) != 0 {
					t.Fatalf("%d bytes aligned to %d: %+v", n, align, p.Span)
				}
				if bytes.Count(p.Mem, []byte{0}) != n {
					t.Fatalf("piece %+v is not zero", p.Span)
				}
				mark = mark%255 + 1
				for i := range p.Mem {
					p.Mem[i] = mark
				}
				all = append(all, held{p, mark})
			},
			"free": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nothing to free")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				check(all[i])
				if err := s.Free(all[i].Span); err != nil {
					t.Fatal(err)
				}
				all = append(all[:i], all[i+1:]...)
			},
			"": func(*rapid.T) {
				used := int64(0)
				for _, g := range s.list {
					free := 0
					for i, e := range g.free {
						if i > 0 && e.off <= g.free[i-1].off+g.free[i-1].n {
							t.Fatalf("free extents overlap or touch: %v", g.free)
						}
						free += e.n
					}
					used += int64(len(g.mem.Bytes()) - free)
				}
				if got, _ := s.Bytes(); got != used {
					t.Fatalf("%d bytes are used, it says %d", used, got)
				}
			},
		})
		for _, h := range all {
			check(h)
			if err := s.Free(h.Span); err != nil {
				t.Fatal(err)
			}
		}
		for i, g := range s.list {
			if len(g.free) != 1 || len(g.pieces) != 0 {
				t.Fatalf("segment %d is in pieces after all were freed: %v", i+1, g.free)
			}
		}
	})
}

// TestBytesWhileBusy: who asks how much there is does not wait for memory to come or go.
func TestBytesWhileBusy(t *testing.T) {
	s := NewSegments(SegmentsConfig{Name: "test"})
	defer s.Close()
	p, err := s.Alloc(Buffers, 1<<16, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	used, total := s.Bytes()
	s.mu.Unlock()
	if used != 1<<16 || total < used {
		t.Errorf("%d of %d bytes", used, total)
	}
	if err := s.Free(p.Span); err != nil {
		t.Fatal(err)
	}
	if used, now := s.Bytes(); used != 0 || now != total {
		t.Errorf("%d of %d bytes after all was freed", used, now)
	}
}
