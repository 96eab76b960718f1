package perf

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// managed makes the end of a test that is connected by the connection manager.
func managed(t *testing.T, dev *verbs.Context, side int, p Params) *End {
	t.Helper()
	index, err := dev.GIDIndex(datapathtest.IPv4[side])
	if err != nil {
		t.Fatal(err)
	}
	gid, err := dev.QueryGID(index)
	if err != nil {
		t.Fatal(err)
	}
	p.RDMACM = true
	e, err := NewEnd(dev, gid, connect.Path{MTU: verbs.MTU1024}, config(t, "send-bw", p).Params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestManagedStranger: a request that is not the client's is refused and disturbs nobody; the
// client's come in their order, each to the queue pair of its index.
func TestManagedStranger(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p := Params{QPs: 3, RxDepth: 4}
	server, client := managed(t, b, 1, p), managed(t, a, 0, p)
	l, m, err := server.listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() { accepted <- server.accept(ctx, l, m) }()
	for name, private := range map[string][]byte{
		"nothing": nil, "a wrong secret": make([]byte, ticketLen), "another's turn": m.ticket(1), "half a ticket": m.ticket(0)[:secretLen-1],
	} {
		_, err := cm.Dial(ctx, a, m.Addr.String(), &cm.Config{PrivateData: private})
		var rejected *cm.RejectedError
		if !errors.As(err, &rejected) || rejected.Reason != cm.RejectByApplication {
			t.Errorf("a request with %s: %v, want that it is rejected", name, err)
		}
	}
	if err := client.dial(ctx, m); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	for i := range p.QPs {
		mine, err := client.qps[i].Query()
		if err != nil {
			t.Fatal(err)
		}
		if mine.DestQPN != server.qps[i].Num() || mine.RQPSN != server.own[i].PSN || mine.PathMTU != verbs.MTU1024 {
			t.Errorf("queue pair %d is connected to %#x with PSN %#x and MTU %v, want %#x, %#x and 1024",
				i, mine.DestQPN, mine.RQPSN, mine.PathMTU, server.qps[i].Num(), server.own[i].PSN)
		}
		if got := client.qps[i].InitAttr().Context; got != uint64(i) {
			t.Errorf("queue pair %d has context %d", i, got)
		}
	}
}

// A meeting that a server cannot have meant is no address to connect to.
func TestMeetingCheck(t *testing.T) {
	addr := (&End{gid: verbs.GIDEntry{GID: verbs.GID(datapathtest.IPv4[0].As16())}}).config(0, nil).LocalAddr
	for _, tt := range []struct {
		name string
		m    meeting
		ok   bool
	}{
		{"right", meeting{addr, make([]byte, secretLen)}, true},
		{"nothing", meeting{}, false},
		{"no address", meeting{Secret: make([]byte, secretLen)}, false},
		{"secret too long for private data", meeting{addr, make([]byte, cm.MaxDialPrivate)}, false},
	} {
		if err := tt.m.check(); (err == nil) != tt.ok || (err != nil && !errors.Is(err, connect.ErrProtocol)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// An end that cannot use the connection manager ends the test at both, long before the other
// gives up waiting.
func TestNetnsManagedFails(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	busy := func(ifname string) (*verbs.Context, error) {
		dev, err := open(ifname)
		if err != nil {
			return nil, err
		}
		pd, err1 := dev.AllocPD()
		cq, err2 := dev.CreateCQ(1)
		if err := errors.Join(err1, err2); err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		_, err = pd.CreateQP(&verbs.QPInitAttr{Type: verbs.GSI, SendCQ: cq, RecvCQ: cq})
		return dev, err
	}
	for _, tt := range []struct {
		name           string
		server, client func(string) (*verbs.Context, error)
	}{{"server", busy, open}, {"client", open, busy}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			s, c := config(t, "write-bw", Params{}), config(t, "write-bw", Params{RDMACM: true})
			s.Open, c.Open = tt.server, tt.client
			start := time.Now()
			server, client := runBoth(t, ctx, pair, s, c)
			if took := time.Since(start); took > meetTime/2 {
				t.Errorf("took %v", took)
			}
			for who, o := range map[string]outcome{"server": server, "client": client} {
				if o.err == nil || !strings.Contains(o.err.Error(), "another connection manager has queue pair 1") {
					t.Errorf("%s: %v", who, o.err)
				}
				if failed := who == tt.name; errors.Is(o.err, verbs.ErrBusy) != failed || errors.Is(o.err, connect.ErrPeer) == failed {
					t.Errorf("%s: %v, want that the %s's own failure is told to the other", who, o.err, tt.name)
				}
			}
		})
	}
}
