package integration_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestLinkFlaps takes the link down and up again, at either end, under traffic in
// both directions and over both families. Every work request must complete, in
// order, with the right data.
func TestLinkFlaps(t *testing.T) {
	r := newRig(t, netns.PairOptions{MTU: 9000, StaticNeighbors: true}, nil)
	for _, e := range []*netns.End{r.hosts.A, r.hosts.B} {
		must(t, e.NS.Do(func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/all/keep_addr_on_down", []byte("1"), 0)
		}))
	}
	// A retry each 268 ms, seven of them, outlast every gap.
	o := verbstest.Options{BufferSize: 256 << 10, Timeout: 16}
	var ended atomic.Bool
	var rounds [4]atomic.Int64
	var wg sync.WaitGroup
	for i, p := range []*verbstest.Pair{r.pair(t, o), r.pair(t, o).Reverse(), r.pair6(t, o)} {
		wg.Go(func() {
			for ; !ended.Load(); rounds[i].Add(1) {
				if err := p.Every(1, 5000, 100_000); err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	full := r.pair(t, o)
	wg.Go(func() {
		for ; !ended.Load(); rounds[3].Add(1) {
			if err := fillQueue(full); err != nil {
				t.Errorf("full send queue: %v", err)
				return
			}
		}
	})
	for range soak(2, 20) {
		for _, e := range []*netns.End{r.hosts.A, r.hosts.B} {
			must(t, e.SetUp(false))
			time.Sleep(150 * time.Millisecond)
			must(t, e.SetUp(true))
			for i := range rounds {
				before := rounds[i].Load()
				// Two rounds more: one that began with the link up again.
				eventually(t, fmt.Sprintf("traffic of connection %d", i), func() bool { return rounds[i].Load() > before+1 || t.Failed() })
			}
		}
	}
	ended.Store(true)
	wg.Wait()
	for name, dev := range map[string]*verbs.Context{"A": r.a, "B": r.b} {
		if n := count(t, dev, "link_downed"); n == 0 {
			t.Errorf("%s has not noticed that the link was down", name)
		}
	}
}

// fillQueue posts as many WRITEs as the send queue takes and waits for their
// completions, in order.
func fillQueue(p *verbstest.Pair) error {
	n := p.A.QP.Cap().MaxSendWR
	for i := range n {
		wr := write(p, i*1000, 10_000)
		wr.WRID = uint64(i)
		if err := p.A.Post(wr); err != nil {
			return err
		}
	}
	for i := range n {
		if _, err := p.A.Done(uint64(i), verbs.WCRDMAWrite); err != nil {
			return err
		}
	}
	return nil
}

// TestPortFollowsLink changes the link and looks at what the device says of its
// port.
func TestPortFollowsLink(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	events := watchEvents(t, r.a)
	for _, step := range []struct {
		name  string
		do    func() error
		state verbs.PortState
		mtu   verbs.MTU
		event verbs.EventType
	}{
		{"as it was made", func() error { return nil }, verbs.PortActive, verbs.MTU1024, noEvent},
		{"set down", func() error { return r.hosts.A.SetUp(false) }, verbs.PortDown, verbs.MTU1024, verbs.EventPortErr},
		{"set up", func() error { return r.hosts.A.SetUp(true) }, verbs.PortActive, verbs.MTU1024, verbs.EventPortActive},
		{"peer down", func() error { return r.hosts.B.SetUp(false) }, verbs.PortDown, verbs.MTU1024, verbs.EventPortErr},
		{"peer up", func() error { return r.hosts.B.SetUp(true) }, verbs.PortActive, verbs.MTU1024, verbs.EventPortActive},
		{"MTU 9000", func() error { return r.hosts.A.SetMTU(9000) }, verbs.PortActive, verbs.MTU4096, noEvent},
		{"MTU 4175", func() error { return r.hosts.A.SetMTU(4175) }, verbs.PortActive, verbs.MTU2048, noEvent},
		{"MTU 4176", func() error { return r.hosts.A.SetMTU(4176) }, verbs.PortActive, verbs.MTU4096, noEvent},
		{"MTU 591", func() error { return r.hosts.A.SetMTU(591) }, verbs.PortActive, verbs.MTU256, noEvent},
	} {
		must(t, step.do())
		want := fmt.Sprint(step.state, step.mtu.Bytes())
		got := ""
		eventually(t, step.name+": port is "+want, func() bool {
			port, err := r.a.QueryPort()
			must(t, err)
			got = fmt.Sprint(port.State, port.ActiveMTU.Bytes())
			return got == want
		})
		if step.event != noEvent {
			eventually(t, fmt.Sprintf("%s: event %v", step.name, step.event), func() bool { return events.take(step.event) })
		}
	}
}

// TestGIDsFollowAddresses adds and removes addresses: an index keeps its address
// as long as that lives, what goes leaves a hole, which the next one fills.
func TestGIDsFollowAddresses(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	events := watchEvents(t, r.a)
	linkLocal := netip.MustParseAddr("fe80::1").String()
	table := func() []string {
		gids, err := r.a.GIDs()
		must(t, err)
		var list []string
		for _, g := range gids {
			addr := netip.AddrFrom16(g.GID).Unmap()
			if addr.IsLinkLocalUnicast() {
				addr = netip.MustParseAddr(linkLocal) // it is made of the MAC address
			}
			list = append(list, fmt.Sprint(g.Index, " ", addr))
		}
		return list
	}
	change := func(add bool, addr string) func() error {
		return func() error { return changeAddress(r.hosts.A, add, netip.MustParsePrefix(addr)) }
	}
	base := []string{"0 " + linkLocal, "1 192.0.2.1", "2 2001:db8::1"}
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"as it was made", func() error { return nil }, base},
		{"one more", change(true, "192.0.2.77/24"), append(base[:3:3], "3 192.0.2.77")},
		{"and another", change(true, "2001:db8::77/64"), append(base[:3:3], "3 192.0.2.77", "4 2001:db8::77")},
		{"the middle gone", change(false, "192.0.2.77/24"), append(base[:3:3], "4 2001:db8::77")},
		{"the hole filled", change(true, "198.51.100.7/24"), append(base[:3:3], "3 198.51.100.7", "4 2001:db8::77")},
		{"the first gone", change(false, "192.0.2.1/24"), []string{base[0], base[2], "3 198.51.100.7", "4 2001:db8::77"}},
	} {
		must(t, step.do())
		var got []string
		deadline := time.Now().Add(10 * time.Second)
		for got = table(); !cmp.Equal(got, step.want) && time.Now().Before(deadline); got = table() {
			time.Sleep(time.Millisecond)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Fatalf("%s: want (-), got (+):\n%s", step.name, diff)
		}
		if step.name != "as it was made" {
			eventually(t, step.name+": GID_CHANGE", func() bool { return events.take(verbs.EventGIDChange) })
		}
	}
	_, err := r.a.QueryGID(1)
	if err == nil {
		t.Fatal("the hole at index 1 is a GID")
	}
	checkText(t, err.Error(), []string{"no GID at index 1", "3: 198.51.100.7"})
	// An address that came later carries traffic like the others.
	index, err := r.b.GIDIndex(r.hosts.B.IPv6)
	must(t, err)
	p := verbstest.RCPair(t, r.a, r.b, verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{4, index}})
	must(t, p.Every(1, 10_000))
}

func changeAddress(e *netns.End, add bool, p netip.Prefix) error {
	return e.NS.Do(func() error {
		link, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return err
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if add {
			return netlink.AddrAdd(link, addr)
		}
		return netlink.AddrDel(link, addr)
	})
}

// eventLog collects a device's events.
type eventLog struct {
	mu   sync.Mutex
	seen []verbs.EventType
}

// watchEvents collects events until the test ends.
func watchEvents(t *testing.T, dev *verbs.Context) *eventLog {
	t.Helper()
	l := &eventLog{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			e, err := dev.NextEvent(ctx)
			if err != nil {
				return
			}
			l.mu.Lock()
			l.seen = append(l.seen, e.Type)
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return l
}

// take forgets the events up to the first of type want, and reports whether there
// is one.
func (l *eventLog) take(want verbs.EventType) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.seen {
		if e == want {
			l.seen = l.seen[i+1:]
			return true
		}
	}
	return false
}
