package datapath_test

import (
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// openIn opens a device in a namespace and closes it with the test.
func openIn(t *testing.T, e *netns.End, o *datapath.Options) *verbs.Context {
	t.Helper()
	var dev *verbs.Context
	err := e.NS.Do(func() (err error) {
		dev, err = datapath.Open(e.Ifname, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
}

// everyOperation moves data both ways by each operation at sizes around the
// edges of packets, and compares memory.
func everyOperation(t *testing.T, p *verbstest.Pair, sizes []int) {
	t.Helper()
	for _, dir := range []*verbstest.Pair{p, {A: p.B, B: p.A, MTU: p.MTU}} {
		for _, n := range sizes {
			for name, err := range map[string]error{
				"SEND": dir.Send(n, false), "SEND_IMM": dir.Send(n, true),
				"WRITE": dir.Write(n, false), "WRITE_IMM": dir.Write(n, true),
				"READ": dir.Read(n),
			} {
				if err != nil {
					t.Errorf("%s of %d bytes: %v", name, n, err)
				}
			}
		}
		if err := dir.Atomics(); err != nil {
			t.Errorf("atomics: %v", err)
		}
	}
}

func TestNetnsEveryOperation(t *testing.T) {
	for _, tt := range []struct {
		name string
		pair netns.PairOptions
		mtu  verbs.MTU
		gid  string
	}{
		{"1500 bytes", netns.PairOptions{MTU: 1500}, verbs.MTU1024, "v4"},
		{"9000 bytes", netns.PairOptions{MTU: 9000}, verbs.MTU4096, "v4"},
		{"IPv6", netns.PairOptions{MTU: 9000, NoIPv4: true}, verbs.MTU4096, "v6"},
		{"smallest", netns.PairOptions{MTU: 336, NoIPv6: true}, verbs.MTU256, "v4"},
		{"four queues", netns.PairOptions{MTU: 1500, Queues: 4}, verbs.MTU1024, "v4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, tt.pair)
			a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
			p := verbstest.RCPair(t, a, b, verbstest.Options{})
			if p.MTU != tt.mtu {
				t.Errorf("path MTU %v, want %v", p.MTU, tt.mtu)
			}
			m := tt.mtu.Bytes()
			everyOperation(t, p, []int{0, 1, 3, 4, 63, 64, m - 1, m, m + 1, 3*m + 5, 200_001})
			report(t, a)
		})
	}
}

// report logs the counters that are not zero.
func report(t *testing.T, dev *verbs.Context) {
	t.Helper()
	list, err := dev.Counters()
	if err != nil {
		t.Fatal(err)
	}
	s := ""
	for _, c := range list {
		if c.Value != 0 {
			s += fmt.Sprintf(" %s=%d", c.Name, c.Value)
		}
	}
	t.Log(s)
}
