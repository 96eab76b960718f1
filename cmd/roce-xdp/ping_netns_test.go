package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// ping fails in time, and says what the likely cause is.
func TestNetnsPingFails(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	const slack = 3 * time.Second // of a busy machine: the program starts in 50 ms
	for _, tt := range []struct {
		name, line string
		within     time.Duration
		says       string
	}{
		{"no route", "ping -c -a 203.0.113.1", 0, "the routes with ip route get 203.0.113.1"},
		{"no route through the interface", "ping -c --device eth0 -a 203.0.113.1", 0, "no route to the peer"},
		{"own address", "ping -c -a " + pair.B.IPv4.String(), 0, "an address of this host's own"},
		{"no neighbour", "ping -c -a 192.0.2.77", 4 * time.Second, "nobody answered for 192.0.2.77 on eth0 within 3s (the peer is down or not on this network)"},
		{"a host without RDMA", "ping -c --timeout 1s -a " + pair.A.IPv4.String(), time.Second, "within 1s: no RDMA adapter may be at that address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			began := time.Now()
			out, err := program(ctx, pair.B.NS, tt.line).CombinedOutput()
			took := time.Since(began)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailure || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v: %q, want that it says %q", err, out, tt.says)
			}
			if took > tt.within+slack {
				t.Errorf("took %v, want %v", took, tt.within)
			}
			t.Logf("%v: %s", took, out)
		})
	}
}

// Either signal ends both ends cleanly, with a summary.
func TestNetnsPingInterrupted(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			a := program(ctx, pair.A.NS, "ping -s -P")
			waiting := &trigger{want: "waiting for the client on RDMA port 7174", seen: make(chan struct{})}
			var served strings.Builder
			a.Stderr, a.Stdout = waiting, &served
			if err := a.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, ctx, waiting)
			b := program(ctx, pair.B.NS, "ping -c -V -v -a "+pair.A.IPv4.String())
			going := &trigger{want: "ping data: rdma-ping-5: ", seen: make(chan struct{})}
			var stderr strings.Builder
			b.Stdout, b.Stderr = going, &stderr
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, ctx, going)
			if err := errors.Join(b.Process.Signal(sig), b.Wait()); err != nil {
				t.Errorf("client: %v: %s", err, stderr.String())
			}
			if err := errors.Join(a.Process.Signal(sig), a.Wait()); err != nil {
				t.Errorf("server: %v: %s", err, waiting.text.String())
			}
			if out := going.text.String(); !strings.Contains(out, "bytes, 0 lost, rtt min/avg/max ") {
				t.Errorf("no summary at the end: %q", out[max(0, len(out)-200):])
			}
			if !strings.Contains(served.String(), " rounds of 64 bytes, ") {
				t.Errorf("server says %q", served.String())
			}
		})
	}
}

// await waits for what a program prints.
func await(t *testing.T, ctx context.Context, w *trigger) {
	t.Helper()
	select {
	case <-w.seen:
	case <-ctx.Done():
		t.Fatalf("it does not print %q", w.want)
	}
}
