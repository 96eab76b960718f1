package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/explain"
	"github.com/roce-xdp/roce-xdp/internal/opener"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// in runs a question in a namespace.
func in(ns *netns.NS, o explain.Options) (string, error) {
	var out strings.Builder
	o.Out = &out
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	err := ns.Do(func() error { return explain.Run(context.Background(), &o) })
	return out.String(), err
}

// TestNetnsExplainByDaemon: a daemon says what a resolver in the process does, also of a
// way that is known in part.
func TestNetnsExplainByDaemon(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	netns.IP(t, pair.A.NS, "route add 198.51.100.0/24 via 192.0.2.77")
	var dev *verbs.Context
	if err := pair.A.NS.Do(func() (err error) {
		dev, err = datapath.Open("eth0", nil)
		return err
	}); errors.Is(err, bpf.ErrNotSupported) {
		netns.Missing(t, "xdp", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(session.DirVariable, daemontest.Start(t, dev, serve.Config{}).Dir)
	for _, tt := range []struct {
		name, peer string
		is         error
		want       []string
	}{
		{"direct", "192.0.2.2", nil, []string{"next hop     192.0.2.2 at " + pair.B.MAC.String() + ", "}},
		{"silent", "192.0.2.99", resolve.ErrNoNeighbour, []string{
			"device       eth0", "source       192.0.2.1, GID ::ffff:192.0.2.1, index 1", "route        direct, table main",
			"next hop     192.0.2.99, which does not answer", "path MTU     1500 bytes, RDMA MTU 1024",
		}},
		{"by a silent gateway", "198.51.100.5", resolve.ErrNoNeighbour, []string{"route        via 192.0.2.77, table main", "next hop     192.0.2.77, which does not answer"}},
		{"no route", "203.0.113.9", resolve.ErrNoRoute, []string{"destination  203.0.113.9"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := explain.Options{Peer: tt.peer, Interface: "eth0", Timeout: 300 * time.Millisecond, Way: opener.InProcess}
			mine, err := in(pair.A.NS, o)
			if !errors.Is(err, tt.is) {
				t.Errorf("in the process: %v, want %v", err, tt.is)
			}
			o.Way = opener.Daemon
			got, err := in(pair.A.NS, o)
			if !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %v", err, tt.is)
			}
			if steady := neighbourState.ReplaceAllString; steady(got, "") != steady(mine, "") {
				t.Errorf("the daemon says\n%s\nin the process it is\n%s", got, mine)
			}
			for _, w := range tt.want {
				if !strings.Contains("\n"+got, "\n"+w) {
					t.Errorf("no line %q in\n%s", w, got)
				}
			}
		})
	}
}

// neighbourState is what changes by itself.
var neighbourState = regexp.MustCompile(`, [A-Z]+\n`)

func TestNetnsExplain(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 4500})
	netns.IP(t, pair.A.NS,
		"route add 198.51.100.0/24 via 192.0.2.2 table 1000", "rule add from 192.0.2.1 tos 0x10 to 198.51.100.0/24 lookup 1000",
		"route add 198.51.101.0/24 via 192.0.2.2 mtu 300",
	)
	mac := pair.B.MAC.String()
	for _, tt := range []struct {
		name string
		o    explain.Options
		is   error
		want []string // lines
	}{
		{"direct", explain.Options{Peer: "192.0.2.2"}, nil, []string{
			"destination  192.0.2.2", "device       eth0", "source       192.0.2.1, GID ::ffff:192.0.2.1, index 1", "route        direct, table main",
			"next hop     192.0.2.2 at " + mac + ", ", "path MTU     4500 bytes, RDMA MTU 4096", "hop limit    64", "source port  55410 for the connection manager",
		}},
		{"own", explain.Options{Peer: "2001:db8::1"}, nil, []string{
			"source       2001:db8::1, GID 2001:db8::1, index 2", "route        none: it is this host's own address",
		}},
		{"loopback", explain.Options{Peer: "127.0.0.1"}, nil, []string{"device       lo"}},
		{"by a policy rule", explain.Options{Peer: "198.51.100.5", Source: "192.0.2.1", TOS: 0x10}, nil, []string{
			"route        via 192.0.2.2, table 1000", "next hop     192.0.2.2 at " + mac,
		}},
		{"which does not hold for other traffic", explain.Options{Peer: "198.51.100.5", Source: "192.0.2.1"}, resolve.ErrNoRoute, []string{"destination  198.51.100.5"}},
		{"a path that is too narrow", explain.Options{Peer: "198.51.101.5"}, nil, []string{"path MTU     300 bytes, too little for RDMA"}},
		{"silent", explain.Options{Peer: "192.0.2.99", Timeout: 300 * time.Millisecond}, resolve.ErrNoNeighbour, []string{
			"source       192.0.2.1, GID ::ffff:192.0.2.1, index 1", "next hop     192.0.2.99, which does not answer",
		}},
		{"no interface", explain.Options{Peer: "192.0.2.2", Interface: "eth9"}, resolve.ErrNoDevice, []string{"destination  192.0.2.2"}},
		{"bad source", explain.Options{Peer: "192.0.2.2", Source: "x"}, explain.ErrOptions, nil},
		{"families", explain.Options{Peer: "192.0.2.2", Source: "::1"}, explain.ErrOptions, nil},
		{"bad type of service", explain.Options{Peer: "192.0.2.2", TOS: 256}, explain.ErrOptions, nil},
		{"bad timeout", explain.Options{Peer: "192.0.2.2", Timeout: -1}, explain.ErrOptions, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := in(pair.A.NS, tt.o)
			if !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %v", err, tt.is)
			}
			for _, w := range tt.want {
				if !strings.Contains("\n"+got, "\n"+w) {
					t.Errorf("no line %q in\n%s", w, got)
				}
			}
			if len(tt.want) == 0 && got != "" {
				t.Errorf("printed %q", got)
			}
		})
	}
	t.Run("JSON", func(t *testing.T) {
		for peer, want := range map[string]map[string]any{
			"192.0.2.2":  {"device": "eth0", "source": "192.0.2.1", "gid": "::ffff:192.0.2.1", "gid_index": 1.0, "mac": mac, "rdma_mtu": 4096.0, "local": false},
			"192.0.2.99": {"next_hop": "192.0.2.99", "mac": nil, "gid_index": 1.0},
		} {
			out, err := in(pair.A.NS, explain.Options{Peer: peer, JSON: true, Timeout: 300 * time.Millisecond})
			got := map[string]any{}
			if e := json.Unmarshal([]byte(out), &got); e != nil {
				t.Fatalf("%v in %s", e, out)
			}
			if says, _ := got["error"].(string); (says != "") != (err != nil) {
				t.Errorf("error %q for %v", says, err)
			}
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s: %s is %v, want %v", peer, k, got[k], v)
				}
			}
		}
	})
}
