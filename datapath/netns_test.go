package datapath_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
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
		opts *datapath.Options
		mtu  verbs.MTU
	}{
		{"1500 bytes", netns.PairOptions{MTU: 1500}, nil, verbs.MTU1024},
		{"9000 bytes", netns.PairOptions{MTU: 9000}, nil, verbs.MTU4096},
		{"IPv6", netns.PairOptions{MTU: 9000, NoIPv4: true}, nil, verbs.MTU4096},
		{"smallest", netns.PairOptions{MTU: 336, NoIPv6: true}, nil, verbs.MTU256},
		{"four queues", netns.PairOptions{MTU: 1500, Queues: 4}, nil, verbs.MTU1024},
		{"generic XDP", netns.PairOptions{MTU: 1500}, &datapath.Options{Mode: bpf.ModeGeneric}, verbs.MTU1024},
		{"generic XDP, 9000 bytes", netns.PairOptions{MTU: 9000}, &datapath.Options{Mode: bpf.ModeGeneric}, verbs.MTU4096},
		{"frames of 2048 bytes", netns.PairOptions{MTU: 9000}, &datapath.Options{FrameSize: 2048}, verbs.MTU4096},
		{"no spinning", netns.PairOptions{MTU: 1500}, &datapath.Options{Poll: datapath.PollInterrupt}, verbs.MTU1024},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, tt.pair)
			a, b := openIn(t, hosts.A, tt.opts), openIn(t, hosts.B, tt.opts)
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

// TestNetnsBothWait has both programs sleep between requests, with time-outs that
// are never due: a wake-up that is lost is a stall.
func TestNetnsBothWait(t *testing.T) {
	const slow, rounds, stall = 22, 500, 5 * time.Second
	for _, queues := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			hosts := netns.PairForTest(t, netns.PairOptions{Queues: queues})
			a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
			p := verbstest.RCPair(t, a, b, verbstest.Options{Timeout: slow})
			q := verbstest.RCPair(t, b, a, verbstest.Options{Timeout: slow})
			for i := range rounds {
				begin := time.Now()
				if err := errors.Join(p.Send(1+i, false), q.Write(1+i, true)); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(begin); d > stall {
					t.Fatalf("round %d took %v: a wake-up was lost", i, d)
				}
			}
		})
	}
}

// TestNetnsIdle: devices with connections but without traffic do nothing.
func TestNetnsIdle(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.RCPair(t, a, b, verbstest.Options{})
	if err := p.Write(1000, true); err != nil {
		t.Fatal(err)
	}
	activity := func() (n uint64) {
		for _, dev := range []*verbs.Context{a, b} {
			for _, name := range []string{"background_rounds", "background_sleeps"} {
				n += counterOf(t, dev, name)
			}
		}
		return n
	}
	waitFor(t, "the devices to fall asleep", func() bool {
		before := activity()
		time.Sleep(150 * time.Millisecond)
		return activity() == before
	})
	before := activity()
	time.Sleep(300 * time.Millisecond)
	if after := activity(); after != before {
		t.Errorf("%d rounds and sleeps in 300 ms without traffic", after-before)
	}
}
