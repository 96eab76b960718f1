package serve

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/memory"
)

// logged is a log that a test reads while it is written.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// When a program's memory makes an access wait, the log and Problems say whose it is,
// once, and that it is over.
func TestHungMemoryIsTold(t *testing.T) {
	page := newFaulting(t)
	log := &logged{}
	r := newRig(t, Config{Log: slog.New(slog.NewTextHandler(log, nil)), hungAfter: 50 * time.Millisecond})
	bystander, w := r.open(t), r.open(t)
	handOver(bystander)
	handOver(w)
	var mem [2]*datapath.ProcessMemory
	for _, n := range r.srv.of(nil) {
		mem[n.id-1] = n.opened().proc
	}
	const told, over = "a worker waits", "has answered"
	if got := r.srv.Problems(); len(got) != 0 {
		t.Fatalf("at first there are problems: %q", got)
	}
	done := make(chan error)
	// What waits is the copy out of the kernel: one of a program's memory that a file
	// system does not provide waits in the same call.
	some := make([]byte, 8)
	go func() { done <- mem[1].ReadAt(page.page[:8], memory.AddressOf(some)) }()
	waitFor(t, "the problem is known", func() bool { return len(r.srv.Problems()) != 0 })
	want := fmt.Sprintf("memory of client 2 (%s, pid %d, uid %d)", commOf(os.Getpid()), os.Getpid(), os.Getuid())
	if got := r.srv.Problems(); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		t.Errorf("problems %q, want one with %q", got, want)
	}
	// Others' accesses, and some time, change nothing.
	for range 20 {
		_ = mem[0].ReadAt(make([]byte, 8), 0) // nothing is there
		time.Sleep(10 * time.Millisecond)
	}
	if n := log.count(told); n != 1 {
		t.Errorf("it was told %d times, want once", n)
	}
	page.provide(t)
	if err := <-done; err != nil {
		t.Errorf("the access ended with %v", err)
	}
	runtime.KeepAlive(some)
	waitFor(t, "the problem is gone", func() bool { return len(r.srv.Problems()) == 0 })
	if n := log.count(over); n != 1 {
		t.Errorf("the end was told %d times, want once", n)
	}
}
