package perf

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func open(ifname string) (*verbs.Context, error) { return datapath.Open(ifname, nil) }

// outcome is what one side of a run returned.
type outcome struct {
	report *Report
	err    error
}

// runBoth runs server and client in the namespaces of a pair. Port 0 is not
// known to the client in advance, so each run has the default port: namespaces
// keep runs apart.
func runBoth(t *testing.T, ctx context.Context, pair *netns.Pair, server, client Config) (s, c outcome) {
	t.Helper()
	listening := make(chan struct{})
	server.Output.W, client.Output.W = io.Discard, io.Discard
	server.Listening = func(int) { close(listening) }
	client.Server = pair.A.Addr().String()
	served := make(chan outcome, 1)
	go func() {
		var o outcome
		err := pair.A.NS.Do(func() error {
			o.report, o.err = Run(ctx, server)
			return nil
		})
		o.err = errors.Join(o.err, err)
		served <- o
	}()
	select {
	case <-listening:
	case s = <-served:
		return s, outcome{}
	}
	err := pair.B.NS.Do(func() error {
		c.report, c.err = Run(ctx, client)
		return nil
	})
	c.err = errors.Join(c.err, err)
	return <-served, c
}

func config(t *testing.T, test string, p Params) Config {
	t.Helper()
	p.Test = mustTest(test)
	p, err := p.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Open: open, GIDIndex: -1, Params: p}
}

func TestNetnsPerf(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	tests := []struct {
		name, test string
		p          Params
	}{
		{"send-bw", "send-bw", Params{Iters: 200}},
		{"write-bw", "write-bw", Params{Iters: 200}},
		{"read-bw", "read-bw", Params{Iters: 200}},
		{"atomic-bw", "atomic-bw", Params{Iters: 200}},
		{"send-lat", "send-lat", Params{Iters: 200}},
		{"write-lat", "write-lat", Params{Iters: 600}}, // more than the marker's 256 values
		{"read-lat", "read-lat", Params{Iters: 200}},
		{"atomic-lat", "atomic-lat", Params{Iters: 200}},
		{"several sizes", "write-lat", Params{Iters: 50, Sizes: []int{1, 3, 4, 5, 4096, 4097, 65536, 7}}},
		{"empty messages", "send-bw", Params{Iters: 200, Sizes: []int{0}}},
		{"inline", "send-lat", Params{Iters: 200, Sizes: []int{0, 64, 512, 513}, Inline: 512}},
		{"four queue pairs and post lists", "write-bw", Params{Iters: 203, QPs: 4, PostList: 8, CQMod: 16, TxDepth: 32}},
		{"queue of one", "write-bw", Params{Iters: 50, TxDepth: 1}},
		{"few receives", "send-bw", Params{Iters: 100, RxDepth: 2, Sizes: []int{64}}},
		{"both directions", "send-bw", Params{Iters: 200, Bidirectional: true}},
		{"both directions READ", "read-bw", Params{Iters: 100, Bidirectional: true, QPs: 2}},
		{"for a time", "write-bw", Params{Duration: 50 * time.Millisecond, QPs: 2, PostList: 3, CQMod: 7}},
		{"latency for a time", "send-lat", Params{Duration: 50 * time.Millisecond}},
		{"small path MTU", "write-bw", Params{Iters: 50, MTU: 256}},
		{"connection manager send-lat", "send-lat", Params{Iters: 200, RDMACM: true}},
		{"connection manager write-lat", "write-lat", Params{Iters: 200, RDMACM: true}},
		{"connection manager send-bw", "send-bw", Params{Iters: 203, QPs: 5, PostList: 8, RxDepth: 32, Bidirectional: true, RDMACM: true}},
		{"connection manager read-bw", "read-bw", Params{Iters: 100, QPs: 2, Outstanding: 3, MTU: 1024, RDMACM: true}},
		{"connection manager atomic-bw", "atomic-bw", Params{Iters: 100, TrafficClass: 0x20, RDMACM: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c := config(t, tt.test, tt.p)
			server, client := runBoth(t, ctx, pair, config(t, tt.test, Params{}), c)
			if server.err != nil || client.err != nil {
				t.Fatalf("server: %v; client: %v", server.err, client.err)
			}
			checkReports(t, c.Params, server.report, client.report)
		})
	}
}

// checkReports compares what both ends say with each other and with p.
func checkReports(t *testing.T, p Params, server, client *Report) {
	t.Helper()
	if d := cmp.Diff(server.Bandwidth, client.Bandwidth, cmpopts.EquateApprox(1e-9, 0)); d != "" {
		t.Errorf("bandwidth differs between the ends: %s", d)
	}
	if d := cmp.Diff(server.Latency, client.Latency); d != "" {
		t.Errorf("latency differs between the ends: %s", d)
	}
	if p.MTU == 0 {
		p.MTU = 4096
	}
	if client.Params.MTU != p.MTU || server.Params.MTU != p.MTU {
		t.Errorf("path MTU %d and %d, want %d", client.Params.MTU, server.Params.MTU, p.MTU)
	}
	if n := len(client.Bandwidth) + len(client.Latency); n != len(p.Sizes) {
		t.Errorf("%d results for %d sizes", n, len(p.Sizes))
	}
	messages := int64(p.Iters * p.QPs)
	if p.Bidirectional {
		messages *= 2
	}
	for i, b := range client.Bandwidth {
		if b.Bytes != p.Sizes[i] || b.Rate <= 0 || b.Peak < b.Avg || (p.Duration == 0 && b.Iterations != messages) {
			t.Errorf("result %+v, want %d bytes and %d messages", b, p.Sizes[i], messages)
		}
	}
	for i, l := range client.Latency {
		if l.Bytes != p.Sizes[i] || l.Min <= 0 || l.Min > l.Typical || l.Typical > l.Max || (p.Duration == 0 && l.Iterations != messages-1) {
			t.Errorf("result %+v, want %d bytes and %d samples", l, p.Sizes[i], messages-1)
		}
	}
}

// Each refusal reaches both ends, with its reason.
func TestNetnsPerfRefusals(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	tests := []struct {
		name           string
		server, client Config
		want           string
	}{
		{"different tests", config(t, "read-bw", Params{}), config(t, "write-bw", Params{}), "runs write-bw, the server read-bw"},
		{"path MTU does not fit", config(t, "write-bw", Params{}), config(t, "write-bw", Params{MTU: 4096}), "link MTU of eth0 is 1500"},
		{"service level", config(t, "write-bw", Params{}), func() Config {
			c := config(t, "write-bw", Params{RDMACM: true})
			c.Params.SL = 1
			return c
		}(), "leave out -S or -R"},
		{"bad client", config(t, "write-bw", Params{}), func() Config {
			c := config(t, "write-bw", Params{})
			c.Params.QPs = 1 << 20 // past Complete, as a foreign client could
			return c
		}(), "(-q)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			server, client := runBoth(t, ctx, pair, tt.server, tt.client)
			for who, o := range map[string]outcome{"server": server, "client": client} {
				if o.err == nil || !strings.Contains(o.err.Error(), tt.want) {
					t.Errorf("%s: %v, want %q", who, o.err, tt.want)
				}
			}
		})
	}
}

// A test that is cancelled ends soon at both ends and gives everything back: the
// next one runs.
func TestNetnsPerfCancel(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	start := time.Now()
	server, client := runBoth(t, ctx, pair, config(t, "write-bw", Params{}), config(t, "write-bw", Params{Duration: time.Hour}))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v to end", took)
	}
	for who, o := range map[string]outcome{"server": server, "client": client} {
		if !errors.Is(o.err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", who, o.err)
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server, client = runBoth(t, ctx, pair, config(t, "write-bw", Params{}), config(t, "write-bw", Params{Iters: 10}))
	if server.err != nil || client.err != nil {
		t.Errorf("run after a cancelled one: server %v, client %v", server.err, client.err)
	}
}
