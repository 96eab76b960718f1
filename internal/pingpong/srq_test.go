package pingpong

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/connect"
)

func someEnds(n int) []connect.Endpoint {
	ends := make([]connect.Endpoint, n)
	for i := range ends {
		ends[i] = connect.Endpoint{QPN: uint32(17 + i), PSN: uint32(0xabc000 + i), GID: netip.MustParseAddr("10.77.0.12")}
	}
	return ends
}

// message is what sendAll writes.
func message(t *testing.T, ends []connect.Endpoint) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	sent := make(chan error, 1)
	go func() { sent <- conn{a}.sendAll(ends) }()
	buf := make([]byte, 1<<20)
	n, err := b.Read(buf) // one write, or the rest would be missing
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// The message has 256 entries whatever the number of queue pairs is.
func TestMessageOfAllQueuePairs(t *testing.T) {
	for _, n := range []int{1, 2, maxQPs} {
		msg := message(t, someEnds(n))
		if len(msg) != 13312 {
			t.Fatalf("%d queue pairs: %d bytes, want 13312", n, len(msg))
		}
		if got, want := string(msg[:52]), "0000:000011:abc000:00000000000000000000ffff0a4d000c\x00"; got != want {
			t.Errorf("first entry %q, want %q", got, want)
		}
		if rest := strings.Trim(string(msg[n*52:]), "\x00"); rest != "" {
			t.Errorf("%d queue pairs: entries without one have %q", n, rest)
		}
	}
}

func TestReceiveAll(t *testing.T) {
	good := string(message(t, someEnds(3)))
	for name, tt := range map[string]struct {
		msg  string
		n    int
		want string // in the error; empty: none
	}{
		"all":                {good, 3, ""},
		"fewer than offered": {good, 2, ""},
		"more than offered":  {good, 4, "it has 3 queue pairs, this end 4"},
		"no colons":          {strings.Repeat("x", entries*addressLen), 1, "no address message"},
		"no GID":             {good[:19] + strings.Repeat("0", 32) + good[51:], 1, "(-g)"},
		"ends early":         {good[:520], 1, "520 of 13312 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := tcpPair(t)
			go func() {
				_, _ = fmt.Fprint(client, tt.msg)
				client.Close()
			}()
			got, err := conn{server}.receiveAll(tt.n)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("receiveAll = %v, want %q", err, tt.want)
				}
				return
			}
			if d := cmp.Diff(someEnds(tt.n), got, cmp.Comparer(func(a, b connect.Endpoint) bool { return a == b })); err != nil || d != "" {
				t.Errorf("%v: %s", err, d)
			}
		})
	}
}

// tcpPair are two ends of a connection on the loopback interface.
func tcpPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

func TestOptionsOfSRQ(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(o *Options)
		ok     bool
	}{
		"defaults":            {func(*Options) {}, true},
		"most":                {func(o *Options) { o.QPs = 255 }, true},
		"too many":            {func(o *Options) { o.QPs = 256 }, false},
		"none":                {func(o *Options) { o.QPs = 0 }, false},
		"as many as receives": {func(o *Options) { o.QPs, o.RxDepth = 4, 4 }, true},
		"more than receives":  {func(o *Options) { o.QPs, o.RxDepth = 5, 4 }, false},
		"one of all programs": {func(o *Options) { o.MTU = 1500 }, false},
		"one queue pair":      {func(o *Options) { o.QPs = 1 }, true},
	} {
		o := DefaultsSRQ()
		tt.change(&o)
		if err := o.checkSRQ(); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
