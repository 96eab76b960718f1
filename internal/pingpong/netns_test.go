package pingpong

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func open(ifname string) (*verbs.Context, error) { return datapath.Open(ifname, nil) }

// outcome is what one side of a run returned and printed.
type outcome struct {
	res *Result
	out string
	err error
}

func run(ctx context.Context, service verbs.QPType, ns *netns.NS, o Options) outcome {
	var out strings.Builder
	var r outcome
	o.Open, o.Out = open, &out
	err := ns.Do(func() error {
		r.res, r.err = Run(ctx, service, o)
		return nil
	})
	r.out, r.err = out.String(), errors.Join(r.err, err)
	return r
}

// runBoth runs the server in one namespace and the client in the other.
func runBoth(t *testing.T, service verbs.QPType, pair *netns.Pair, server, client Options) (s, c outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	listening := make(chan struct{})
	server.Listening = func(int) { close(listening) }
	served := make(chan outcome, 1)
	go func() { served <- run(ctx, service, pair.A.NS, server) }()
	<-listening
	client.Server = pair.A.Addr().String()
	c = run(ctx, service, pair.B.NS, client)
	return <-served, c
}

func TestNetnsRun(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	tests := []struct {
		name           string
		service        verbs.QPType
		change         func(server, client *Options)
		validationPage int
	}{
		{"defaults", verbs.RC, func(_, _ *Options) {}, -1},
		{"events", verbs.RC, func(s, c *Options) { s.Events, c.Events = true, true }, -1},
		{"events at one end", verbs.RC, func(s, _ *Options) { s.Events = true }, -1},
		{"validated", verbs.RC, func(s, c *Options) { s.Validate, c.Validate, s.Size, c.Size = true, true, 10000, 10000 }, -1},
		{"validated by the server alone", verbs.RC, func(s, _ *Options) { s.Validate = true }, 0},
		{"one byte", verbs.RC, func(s, c *Options) { s.Size, c.Size = 1, 1 }, -1},
		{"large path MTU", verbs.RC, func(s, c *Options) { s.MTU, c.MTU, s.Size, c.Size = 4096, 4096, 100_001, 100_001 }, -1},
		{"receive queue of one", verbs.RC, func(s, c *Options) { s.RxDepth, c.RxDepth = 1, 1 }, -1},
		{"receive queue of two", verbs.RC, func(s, c *Options) { s.RxDepth, c.RxDepth = 2, 2 }, -1},
		{"UC", verbs.UC, func(_, _ *Options) {}, -1},
		{"UC, events", verbs.UC, func(s, c *Options) { s.Events, c.Events = true, true }, -1},
		{"UC, validated", verbs.UC, func(s, c *Options) { s.Validate, c.Validate, s.Size, c.Size = true, true, 10000, 10000 }, -1},
		{"UC, receive queue of one", verbs.UC, func(s, c *Options) { s.RxDepth, c.RxDepth = 1, 1 }, -1},
		{"UD", verbs.UD, func(_, _ *Options) {}, -1},
		{"UD, events", verbs.UD, func(s, c *Options) { s.Events, c.Events = true, true }, -1},
		{"UD, validated", verbs.UD, func(s, c *Options) { s.Validate, c.Validate, s.Size, c.Size = true, true, 4096, 4096 }, -1},
		{"UD, validated by the server alone", verbs.UD, func(s, _ *Options) { s.Validate = true }, 0},
		{"UD, receive queue of one", verbs.UD, func(s, c *Options) { s.RxDepth, c.RxDepth = 1, 1 }, -1},
		{"UD, path MTU of no meaning", verbs.UD, func(s, _ *Options) { s.MTU = 0 }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := Defaults(tt.service), Defaults(tt.service)
			s.Iters, c.Iters = 100, 100
			tt.change(&s, &c)
			server, client := runBoth(t, tt.service, pair, s, c)
			if server.err != nil || client.err != nil {
				t.Fatalf("server: %v; client: %v", server.err, client.err)
			}
			if server.res.ValidationPage != tt.validationPage {
				t.Errorf("server finds page %d wrong, want %d", server.res.ValidationPage, tt.validationPage)
			}
			if server.res.Local != client.res.Remote || client.res.Local != server.res.Remote {
				t.Errorf("ends disagree: %+v and %+v", server.res, client.res)
			}
			if want := int64(c.Size) * 200; client.res.Bytes != want || server.res.Bytes != want {
				t.Errorf("%d and %d bytes, want %d", server.res.Bytes, client.res.Bytes, want)
			}
			checkText(t, tt.service, client.out)
		})
	}
}

// TestNetnsDatagramTooLong: the port's MTU bounds the size, as in the C program.
func TestNetnsDatagramTooLong(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	s, c := Defaults(verbs.UD), Defaults(verbs.UD)
	c.Size = 1025
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	listening := make(chan struct{})
	s.Listening = func(int) { close(listening) }
	served := make(chan outcome, 1)
	go func() { served <- run(ctx, verbs.UD, pair.A.NS, s) }()
	<-listening
	c.Server = pair.A.Addr().String()
	if got := run(ctx, verbs.UD, pair.B.NS, c); got.err == nil || !strings.Contains(got.err.Error(), "larger than the port MTU of 1024") {
		t.Errorf("client = %v", got.err)
	}
	if got := <-served; got.err == nil {
		t.Error("the server was not told")
	}
}

// TestNetnsClientCannotConnect: the server hears of it instead of waiting for
// messages of a client that is gone.
func TestNetnsClientCannotConnect(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	s, c := Defaults(verbs.RC), Defaults(verbs.RC)
	c.MTU = 2048
	server, client := runBoth(t, verbs.RC, pair, s, c)
	if !errors.Is(client.err, datapath.ErrMTU) {
		t.Errorf("client = %v, want ErrMTU", client.err)
	}
	if server.err == nil || !strings.Contains(server.err.Error(), "did not confirm") {
		t.Errorf("server = %v, want that the client did not confirm", server.err)
	}
}

// checkText looks for the four lines of the C programs.
func checkText(t *testing.T, service verbs.QPType, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	want := []string{
		"  local address:  LID 0x0000, QPN 0x", "  remote address: LID 0x0000, QPN 0x",
		" bytes in ", "100 iters in ",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %q has no %q", lines[i], want[i])
		}
	}
	mark := ","
	if service == verbs.UD {
		mark = ":"
	}
	if !strings.HasSuffix(lines[0], mark+" GID ::ffff:192.0.2.2") {
		t.Errorf("local address %q, want %q before a mapped GID", lines[0], mark)
	}
	if !strings.HasSuffix(lines[1], ", GID ::ffff:192.0.2.1") {
		t.Errorf("remote address %q, want it mapped", lines[1])
	}
}

func TestNetnsJSON(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{NoIPv4: true})
	for service, bytes := range map[verbs.QPType]int{verbs.RC: 81920, verbs.UC: 81920, verbs.UD: 20480} {
		t.Run(service.String(), func(t *testing.T) { checkJSON(t, pair, service, bytes) })
	}
}

func checkJSON(t *testing.T, pair *netns.Pair, service verbs.QPType, bytes int) {
	s, c := Defaults(service), Defaults(service)
	s.Iters, c.Iters, c.JSON = 10, 10, true
	server, client := runBoth(t, service, pair, s, c)
	if server.err != nil || client.err != nil {
		t.Fatalf("server: %v; client: %v", server.err, client.err)
	}
	var got struct {
		Iters int
		Bytes int64
		Valid bool
		Local struct{ GID string }
	}
	if err := json.Unmarshal([]byte(client.out), &got); err != nil {
		t.Fatalf("%v:\n%s", err, client.out)
	}
	if got.Iters != 10 || got.Bytes != int64(bytes) || !got.Valid || got.Local.GID != "2001:db8::2" {
		t.Errorf("result %+v", got)
	}
}

// A stock client that was started without -g sends a zero GID.
func TestNetnsPeerWithoutGID(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	listening := make(chan struct{})
	o := Defaults(verbs.RC)
	o.Listening = func(int) { close(listening) }
	served := make(chan outcome, 1)
	go func() { served <- run(ctx, verbs.RC, pair.A.NS, o) }()
	<-listening
	err := pair.B.NS.Do(func() error {
		c, err := net.Dial("tcp", net.JoinHostPort(pair.A.Addr().String(), "18515"))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.WriteString(c, stock[:19]+strings.Repeat("0", 32)+"\x00")
		if err == nil {
			_, err = io.Copy(io.Discard, c) // the server closes
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if got := <-served; got.err == nil || !strings.Contains(got.err.Error(), "(-g)") {
		t.Errorf("server = %v, want advice to use -g", got.err)
	}
}

func TestNetnsCancel(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	o := Defaults(verbs.RC)
	o.Interface = netns.Ifname
	o.Listening = func(int) { cancel() }
	if got := run(ctx, verbs.RC, pair.A.NS, o); !errors.Is(got.err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", got.err)
	}
}
