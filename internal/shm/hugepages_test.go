package shm

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// mappedHuge is how many bytes of huge pages the process has mapped.
func mappedHuge(t *testing.T) string {
	t.Helper()
	b := must[[]byte](t)(os.ReadFile("/proc/self/status"))
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, "HugetlbPages:"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatal("the kernel tells of no huge pages")
	return ""
}

func TestCreateOfHugePages(t *testing.T) {
	noLeak(t)
	pages := netns.RaiseHugePages(t, 2)
	m := must[*Memory](t)(Create("test", 2*HugePage, Options{Huge: true}))
	peer := must[*Memory](t)(Open(dup(t, m.FD()), 2*HugePage, false))
	peer.Bytes()[2*HugePage-1], peer.Bytes()[0] = 42, 1
	m.Bytes()[1] = 2
	if !m.Huge() || m.Bytes()[2*HugePage-1] != 42 || mappedHuge(t) != "8192 kB" {
		t.Errorf("huge: %v; %s of huge pages are mapped, want 2 times 4096 kB", m.Huge(), mappedHuge(t))
	}
	ok(t, peer.Close())
	ok(t, m.Close())
	pages.Take(pages.Free())
	if m, err := Create("test", HugePage, Options{Huge: true}); !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "1 huge pages of 2 MiB are needed: raise vm.nr_hugepages") {
		if m != nil {
			ok(t, m.Close())
		}
		t.Errorf("without huge pages: %v", err)
	}
}

// TestSegmentsOfHugePages: large buffers are in huge pages as long as there are some,
// small ones never; pages come back when a buffer is given back.
func TestSegmentsOfHugePages(t *testing.T) {
	noLeak(t)
	pages := netns.RaiseHugePages(t, 6)
	pages.Take(pages.Free() - 6)
	s := NewSegments(SegmentsConfig{Name: "test", Huge: true, Limit: 64 << 20})
	defer s.Close()
	free := func(what string, want int) {
		t.Helper()
		if got := pages.Free(); got != want {
			t.Errorf("%s: %d huge pages are free, want %d", what, got, want)
		}
	}
	alloc := func(kind Kind, n int) Piece { t.Helper(); return must[Piece](t)(s.Alloc(kind, n, pageSize)) }
	alloc(Buffers, HugePage-1)
	alloc(Queues, 2*HugePage)
	free("small buffers, and queues", 6)
	large := alloc(Buffers, 2*HugePage+1)
	free("a buffer of three pages", 3)
	large.Mem[2*HugePage] = 7
	if used, total := s.Bytes(); used < 3*HugePage || total > 20<<20 {
		t.Errorf("%d of %d bytes", used, total)
	}
	ok(t, s.Free(large.Span))
	free("given back", 6)
	small := alloc(Buffers, pageSize)
	if small.Span.Segment == large.Span.Segment {
		t.Error("a page takes a huge one")
	}
	again := alloc(Buffers, 3*HugePage)
	if again.Span.Segment != large.Span.Segment || !bytes.Equal(again.Mem, make([]byte, 3*HugePage)) {
		t.Errorf("%+v after %+v, or it is not zero", again.Span, large.Span)
	}
	free("taken again", 3)
	ok(t, s.Free(again.Span))

	giveBack := pages.Take(5) // others have them, and one is too little
	ordinary := alloc(Buffers, 2*HugePage)
	free("a buffer of ordinary pages", 1)
	if ordinary.Span.Segment == large.Span.Segment {
		t.Error("it is in a segment of huge pages")
	}
	ordinary.Mem[2*HugePage-1] = 1
	giveBack()
	alloc(Buffers, 6*HugePage)
	free("all of them", 0)
	if _, err := s.Alloc(Buffers, 48<<20, 1); !errors.Is(err, ErrLimit) {
		t.Errorf("beyond the limit: %v", err)
	}
	ok(t, s.Close())
	free("the end", 6)
}
