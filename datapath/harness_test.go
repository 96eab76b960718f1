package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is two devices joined in memory: no kernel, no privileges.
type rig struct {
	t       testing.TB
	a, b    *Device
	ca, cb  *verbs.Context
	ports   [2][]*xsktest.Port
	steered [2]*fakeSteer
	routes  [2]*fakeRoutes
	joined  [2]*fakeJoins
}

// rigOptions configure a rig. The zero value has one queue, a link MTU of 9000
// and default options.
type rigOptions struct {
	opts    Options
	queues  int
	mtu     int
	crossed bool // what one end sends on a queue arrives on another of the peer
	hook    xsktest.Hook
	budget  int // descriptors that a kick transmits
	// sleepDeep has background goroutines sleep until something wakes them, so
	// that no timer makes up for a wake-up that was lost.
	sleepDeep bool
}

var (
	addrA = netip.MustParseAddr("192.0.2.1")
	addrB = netip.MustParseAddr("192.0.2.2")
	macA  = [6]byte{2, 0, 0, 0, 0, 0xa}
	macB  = [6]byte{2, 0, 0, 0, 0, 0xb}
)

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.queues == 0 {
		o.queues = 1
	}
	if o.mtu == 0 {
		o.mtu = 9000
	}
	if o.opts.RingSize == 0 {
		o.opts.RingSize = 256
	}
	opts, err := o.opts.complete(o.queues, 2)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	s := newShare(&opts)
	umems := [2]*xsk.UMEM{goUMEM(t, &s, o.queues), goUMEM(t, &s, o.queues)}
	for i := range o.queues {
		j := i
		if o.crossed {
			j = (i + 1) % o.queues
		}
		a, b := xsktest.Pair(xsktest.Config{
			UMEM: umems, FillSize: opts.RingSize, RxSize: opts.RingSize, TxSize: opts.RingSize, CompSize: opts.RingSize,
			MultiBuffer: true, Hook: o.hook, TxBudget: o.budget,
		})
		if i == 0 {
			r.ports[0], r.ports[1] = make([]*xsktest.Port, o.queues), make([]*xsktest.Port, o.queues)
		}
		r.ports[0][i], r.ports[1][j] = a, b
	}
	r.a = r.device(0, opts, umems[0], macA, addrA, o.mtu)
	r.b = r.device(1, opts, umems[1], macB, addrB, o.mtu)
	r.routes[0].set(addrB, macB)
	r.routes[1].set(addrA, macA)
	r.ca, r.cb = verbs.NewContext(r.a), verbs.NewContext(r.b)
	for _, d := range []*Device{r.a, r.b} {
		if o.sleepDeep {
			d.linger = 0
		}
		d.start()
	}
	t.Cleanup(r.close)
	return r
}

func (r *rig) device(side int, opts Options, u *xsk.UMEM, mac [6]byte, addr netip.Addr, mtu int) *Device {
	r.steered[side], r.routes[side] = &fakeSteer{qpns: map[uint32]bool{}, addrs: map[netip.Addr]bool{}}, &fakeRoutes{macs: map[netip.Addr][6]byte{}, hops: map[netip.Addr]netip.Addr{}, silent: make(chan struct{}, 64)}
	r.joined[side] = &fakeJoins{groups: map[netip.Addr]bool{}}
	c := config{
		opts: opts, umem: u, steer: r.steered[side], routes: r.routes[side], joins: r.joined[side], mode: "memory",
		link: linkInfo{name: fmt.Sprintf("mem%d", side), index: side + 1, mac: mac, mtu: mtu, running: true},
	}
	for _, p := range r.ports[side] {
		c.ports = append(c.ports, p)
		c.waiters = append(c.waiters, xsktest.NewWaiter(p))
	}
	d := newDevice(c)
	if err := d.setAddresses([]netip.Addr{addr}); err != nil {
		r.t.Fatal(err)
	}
	d.root.events.drain()
	return d
}

func (r *rig) close() {
	for _, c := range []*verbs.Context{r.ca, r.cb} {
		if err := c.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
	}
}

// pair connects two queue pairs across the rig.
func (r *rig) pair(o verbstest.Options) *verbstest.Pair {
	r.t.Helper()
	return verbstest.RCPair(r.t, r.ca, r.cb, o)
}

// counter is a device's counter by name.
func counterOf(t testing.TB, d *Device, name string) uint64 {
	t.Helper()
	list, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("no counter %q", name)
	return 0
}

// goUMEM is packet memory on the Go heap, which the race detector watches.
func goUMEM(t testing.TB, s *share, workers int) *xsk.UMEM {
	t.Helper()
	const page = 4096
	n := s.frames() * workers * s.frameSize
	mem := make([]byte, n+page)
	skip := int(-memory.AddressOf(mem) & (page - 1))
	u, err := xsk.NewUMEM(xsk.UMEMConfig{Frames: s.frames() * workers, FrameSize: s.frameSize, Memory: mem[skip : skip+n]})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// fakeSteer remembers what the XDP program was told.
type fakeSteer struct {
	mu    sync.Mutex
	qpns  map[uint32]bool
	addrs map[netip.Addr]bool
	err   error // what AddQPN and AddAddress answer
}

func (f *fakeSteer) AddQPN(n uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.qpns[n] = true
	}
	return f.err
}

func (f *fakeSteer) DelQPN(n uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.qpns, n)
	return nil
}

func (f *fakeSteer) AddAddress(a netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.addrs[a] = true
	}
	return f.err
}

func (f *fakeSteer) DelAddress(a netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.addrs, a)
	return nil
}

func (f *fakeSteer) Counters() ([]bpf.Counter, error) {
	return []bpf.Counter{{Name: "redirect", Value: 7}}, nil
}

// fakeRoutes knows next hops from a table.
type fakeRoutes struct {
	mu    sync.Mutex
	macs  map[netip.Addr][6]byte
	hops  map[netip.Addr]netip.Addr // of peers that are not next hops themselves
	asked int
	// during runs once, after the next question has been answered.
	during func()
	// silent has an element for each question about addrSilent, which never answers.
	silent chan struct{}
}

func (f *fakeRoutes) set(a netip.Addr, mac [6]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.macs[a] = mac
}

func (f *fakeRoutes) resolve(ctx context.Context, l leg) (nextHop, error) {
	if l.dst == addrSilent {
		f.silent <- struct{}{}
		<-ctx.Done()
		return nextHop{}, ctx.Err()
	}
	hop, err := f.answer(l.dst)
	if do := f.during; do != nil {
		f.during = nil
		do()
	}
	return hop, err
}

func (f *fakeRoutes) answer(dst netip.Addr) (nextHop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	hop, ok := f.hops[dst]
	if !ok {
		hop = dst
	}
	mac, ok := f.macs[hop]
	if !ok {
		return nextHop{}, fmt.Errorf("%w: %s", ErrNoNeighbour, hop)
	}
	return nextHop{addr: hop, mac: mac}, nil
}

func (f *fakeRoutes) hop(l leg) (netip.Addr, error) {
	dst := l.dst
	f.mu.Lock()
	defer f.mu.Unlock()
	if hop, ok := f.hops[dst]; ok {
		return hop, nil
	}
	if _, ok := f.macs[dst]; !ok {
		return netip.Addr{}, fmt.Errorf("%w: %s", ErrNoRoute, dst)
	}
	return dst, nil
}

// via makes hop the next hop to dst.
func (f *fakeRoutes) via(dst, hop netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hops[dst] = hop
}

// fakeJoins are the groups that the host was made to join.
type fakeJoins struct {
	mu     sync.Mutex
	groups map[netip.Addr]bool
	err    error // what join answers
}

func (f *fakeJoins) join(group netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.groups[group] = true
	}
	return f.err
}

func (f *fakeJoins) leave(group netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.groups, group)
	return nil
}

// mrByKey is the region of a key.
func (d *Device) mrByKey(key uint32) *memory.Region {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.mrs {
		if m.r != nil && m.r.LKey() == key {
			return m.r
		}
	}
	return nil
}

// memoryOf is the region that mr is a handle of.
func (c *Client) memoryOf(mr verbs.ProviderMR) *memory.Region {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.region(mr.Handle).r
}
