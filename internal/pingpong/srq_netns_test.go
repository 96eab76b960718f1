package pingpong

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// outcomeSRQ is what one side of a run over a shared queue returned and printed.
type outcomeSRQ struct {
	res *ResultSRQ
	out string
	err error
}

func runSRQ(ctx context.Context, ns *netns.NS, o Options) outcomeSRQ {
	var out strings.Builder
	var r outcomeSRQ
	o.Open, o.Out = open, &out
	err := ns.Do(func() error {
		r.res, r.err = RunSRQ(ctx, o)
		return nil
	})
	r.out, r.err = out.String(), errors.Join(r.err, err)
	return r
}

func runBothSRQ(t *testing.T, pair *netns.Pair, server, client Options) (s, c outcomeSRQ) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listening := make(chan struct{})
	server.Listening = func(int) { close(listening) }
	served := make(chan outcomeSRQ, 1)
	go func() { served <- runSRQ(ctx, pair.A.NS, server) }()
	<-listening
	client.Server = pair.A.Addr().String()
	c = runSRQ(ctx, pair.B.NS, client)
	return <-served, c
}

func TestNetnsRunSRQ(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	for _, tt := range []struct {
		name   string
		change func(o *Options)
	}{
		{"defaults", func(*Options) {}},
		{"events", func(o *Options) { o.Events = true }},
		{"validated", func(o *Options) { o.Validate, o.Size = true, 10_000 }},
		{"one queue pair", func(o *Options) { o.QPs = 1 }},
		{"a receive for each queue pair", func(o *Options) { o.QPs, o.RxDepth = 4, 4 }},
		{"fewer messages than queue pairs", func(o *Options) { o.QPs, o.Iters = 16, 3 }},
		{"as many queue pairs as there can be", func(o *Options) { o.QPs, o.Size = maxQPs, 64 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := DefaultsSRQ()
			o.Iters = 200
			tt.change(&o)
			server, client := runBothSRQ(t, pair, o, o)
			if server.err != nil || client.err != nil {
				t.Fatalf("server: %v; client: %v", server.err, client.err)
			}
			if server.res.ValidationPage != -1 {
				t.Errorf("server finds page %d wrong", server.res.ValidationPage)
			}
			if want := int64(o.Size) * int64(o.Iters) * 2; server.res.Bytes != want || client.res.Bytes != want {
				t.Errorf("%d and %d bytes, want %d", server.res.Bytes, client.res.Bytes, want)
			}
			checkEnds(t, o.QPs, server.res, client.res)
			lines := strings.Split(strings.TrimSuffix(client.out, "\n"), "\n")
			if len(lines) != 2*o.QPs+2 || !strings.HasPrefix(lines[0], "  local address: ") || !strings.HasPrefix(lines[o.QPs], "  remote address: ") {
				t.Errorf("output:\n%s", client.out)
			}
		})
	}
}

// checkEnds: both sides have the same queue pairs in the same order.
func checkEnds(t *testing.T, n int, server, client *ResultSRQ) {
	t.Helper()
	if len(server.Locals) != n || len(client.Locals) != n {
		t.Fatalf("%d and %d queue pairs, want %d", len(server.Locals), len(client.Locals), n)
	}
	for i := range n {
		if server.Locals[i] != client.Remotes[i] || client.Locals[i] != server.Remotes[i] {
			t.Errorf("ends of queue pair %d disagree", i)
		}
	}
}

func TestNetnsJSONOfSRQ(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{NoIPv4: true})
	o := DefaultsSRQ()
	o.Iters, o.QPs, o.JSON = 10, 3, true
	server, client := runBothSRQ(t, pair, o, o)
	if server.err != nil || client.err != nil {
		t.Fatalf("server: %v; client: %v", server.err, client.err)
	}
	var got struct {
		Bytes int64
		Local []struct{ GID string }
	}
	if err := json.Unmarshal([]byte(client.out), &got); err != nil {
		t.Fatalf("%v:\n%s", err, client.out)
	}
	if got.Bytes != 81920 || len(got.Local) != 3 || got.Local[2].GID != "2001:db8::2" {
		t.Errorf("result %+v", got)
	}
}

// Different numbers of queue pairs are told at the side that has more.
func TestNetnsUnequalQueuePairs(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	s, c := DefaultsSRQ(), DefaultsSRQ()
	c.QPs = 4
	server, client := runBothSRQ(t, pair, s, c)
	if !errors.Is(server.err, ErrProtocol) || !strings.Contains(server.err.Error(), "it has 4 queue pairs, this end 16") {
		t.Errorf("server = %v, want advice on -q", server.err)
	}
	if client.err == nil {
		t.Error("the client was not told")
	}
}
