package demo

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func opener(mode bpf.Mode) func(string) (*verbs.Context, error) {
	return func(ifname string) (*verbs.Context, error) {
		return datapath.Open(ifname, &datapath.Options{Mode: mode})
	}
}

// namespaces are those of this process.
func namespaces(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(netns.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "rxdp-"+itoa(os.Getpid())+"-") {
			all = append(all, e.Name())
		}
	}
	return all
}

func TestNetnsDemo(t *testing.T) {
	netns.Require(t)
	tests := []struct {
		name    string
		mode    bpf.Mode
		o       Options
		pathMTU int
	}{
		{"native, jumbo, IPv4", bpf.ModeNative, Options{LinkMTU: 9000, Queues: 1}, 4096},
		{"generic, IPv6, link MTU 1500", bpf.ModeGeneric, Options{LinkMTU: 1500, Queues: 1, IPv6: true}, 1024},
		{"four queues", bpf.ModeNative, Options{LinkMTU: 9000, Queues: 4}, 4096},
		{"smallest link", bpf.ModeGeneric, Options{LinkMTU: 336, Queues: 1}, 256},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			tt.o.Open, tt.o.Quick = opener(tt.mode), true
			r, err := Run(ctx, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			const want = 5*10*2 + 4*2 // transfers at ten sizes and atomics, both ways
			if r.Passed != want || r.Failed != 0 || len(r.Checks) != want {
				t.Errorf("%d passed, %d failed, %d checks; want %d passed", r.Passed, r.Failed, len(r.Checks), want)
			}
			if r.PathMTU != tt.pathMTU || r.A.XDPMode != tt.mode.String() {
				t.Errorf("path MTU %d, XDP %s; want %d, %s", r.PathMTU, r.A.XDPMode, tt.pathMTU, tt.mode)
			}
			if r.A.XDP["redirect"] == 0 || r.B.XDP["redirect"] == 0 {
				t.Errorf("programs redirected nothing: %v, %v", r.A.XDP, r.B.XDP)
			}
			if len(r.Transfer) != 5 || r.Latency.Write.Iterations == 0 || r.Latency.TCP.Iterations == 0 {
				t.Errorf("measurements are missing: %+v, %+v", r.Transfer, r.Latency)
			}
			if left := namespaces(t); len(left) > 0 {
				t.Errorf("namespaces left behind: %v", left)
			}
			var out strings.Builder
			if err := r.Print(&out, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "all 108 checks passed") {
				t.Errorf("output has no verdict:\n%s", out.String())
			}
		})
	}
}

// Wherever an interruption comes, nothing is left.
func TestNetnsDemoInterrupted(t *testing.T) {
	netns.Require(t)
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			start := time.Now()
			_, err := Run(ctx, Options{Open: opener(bpf.ModeAuto), LinkMTU: 9000, Queues: 1})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v, want context.Canceled", err)
			}
			if took := time.Since(start); took > after+20*time.Second {
				t.Errorf("took %v to end", took-after)
			}
			if left := namespaces(t); len(left) > 0 {
				t.Errorf("namespaces left behind: %v", left)
			}
		})
	}
}

// A device that cannot be opened at the second end leaves nothing of the first.
func TestNetnsDemoOpenFails(t *testing.T) {
	netns.Require(t)
	opened := 0
	want := errors.New("no second device")
	_, err := Run(t.Context(), Options{
		LinkMTU: 9000, Queues: 1,
		Open: func(ifname string) (*verbs.Context, error) {
			if opened++; opened > 1 {
				return nil, want
			}
			return datapath.Open(ifname, nil)
		},
	})
	if !errors.Is(err, want) {
		t.Errorf("Run = %v, want %v", err, want)
	}
	if left := namespaces(t); len(left) > 0 {
		t.Errorf("namespaces left behind: %v", left)
	}
}

// The checks can fail: memory that changes behind the operation's back is seen.
func TestCompareSeesEveryByte(t *testing.T) {
	want := []byte("hello")
	good := func() []byte {
		b := make([]byte, 2*guard+len(want))
		for i := range b {
			b[i] = 0xa5
		}
		copy(b[guard:], want)
		return b
	}
	if err := compare(good(), want); err != nil {
		t.Fatal(err)
	}
	for i := range good() {
		b := good()
		b[i] ^= 1
		if err := compare(b, want); err == nil {
			t.Errorf("byte %d changed and was not seen", i-guard)
		}
	}
}
