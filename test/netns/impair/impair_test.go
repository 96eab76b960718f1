package impair_test

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/test/netns/impair"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flow is datagrams from a socket of one host to one of the other.
type flow struct {
	t        *testing.T
	from, to net.PacketConn
	dst      net.Addr
}

const size = 200

func newFlow(t *testing.T, from, to *netns.End, family func(*netns.End) netip.Addr, port int) *flow {
	t.Helper()
	f := &flow{t: t}
	listen := func(e *netns.End, port int) net.PacketConn {
		var c net.PacketConn
		err := e.NS.Do(func() (err error) {
			c, err = net.ListenPacket("udp", netip.AddrPortFrom(family(e), uint16(port)).String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	f.from, f.to = listen(from, 0), listen(to, port)
	f.dst = net.UDPAddrFromAddrPort(netip.AddrPortFrom(family(to), uint16(port)))
	return f
}

// payload is what the i-th datagram carries.
func payload(i int) []byte {
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(i>>(8*(k%3))) ^ byte(k)
	}
	return b
}

// send sends n datagrams, and reports how many have arrived as they were, how
// many changed, and how many bits of those.
func (f *flow) send(n int) (whole, changed, flipped int) {
	f.t.Helper()
	b, sent := make([]byte, 2*size), make(map[string]bool, n)
	for i := range n {
		sent[string(payload(i))] = true
	}
	receive := func(wait time.Duration) bool {
		_ = f.to.SetReadDeadline(time.Now().Add(wait))
		k, _, err := f.to.ReadFrom(b)
		if err != nil {
			return false
		}
		if k != size { // a bit of its length was flipped
			return true
		}
		if sent[string(b[:k])] {
			whole++
			return true
		}
		best := math.MaxInt
		for i := range n {
			diff := 0
			for j, v := range payload(i) {
				diff += bits.OnesCount8(v ^ b[j])
			}
			best = min(best, diff)
		}
		changed++
		flipped += best
		return true
	}
	for i := range n {
		if _, err := f.from.WriteTo(payload(i), f.dst); err != nil {
			f.t.Fatal(err)
		}
		for i%16 == 15 && receive(time.Millisecond) {
		}
	}
	for receive(50 * time.Millisecond) {
	}
	return whole, changed, flipped
}

func v4(e *netns.End) netip.Addr { return e.IPv4 }
func v6(e *netns.End) netip.Addr { return e.IPv6 }

const roce = 4791

// near reports whether got may be n chances of the given rate.
func near(got uint64, n int, rate float64) bool {
	mean := float64(n) * rate
	return math.Abs(float64(got)-mean) <= 5*math.Sqrt(mean*(1-rate))+0.5
}

// TestImpair: what arrives is what the counts say, and they are what the rates
// say.
func TestImpair(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rates impair.Rates
	}{
		{"nothing", impair.Rates{}},
		{"drop", impair.Rates{Drop: 0.2}},
		{"drop all", impair.Rates{Drop: 1}},
		{"duplicate", impair.Rates{Duplicate: 0.3}},
		{"duplicate all", impair.Rates{Duplicate: 1}},
		{"everything", impair.Rates{Drop: 0.1, Duplicate: 0.2}},
	} {
		for _, family := range []func(*netns.End) netip.Addr{v4, v6} {
			hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, StaticNeighbors: true})
			t.Run(fmt.Sprintf("%s, %v", tt.name, family(hosts.A)), func(t *testing.T) {
				link := impair.ForTest(t, hosts, 7)
				f, back := newFlow(t, hosts.A, hosts.B, family, roce), newFlow(t, hosts.B, hosts.A, family, roce)
				if err := link.Set(impair.FromA, tt.rates); err != nil {
					t.Fatal(err)
				}
				const n = 1000
				whole, changed, _ := f.send(n)
				c := counts(t, link, impair.FromA)
				if c.Frames != n || uint64(whole) != n-c.Dropped+c.Duplicated || changed != 0 {
					t.Errorf("%d arrived, %d changed; %+v", whole, changed, c)
				}
				if r := tt.rates; !near(c.Dropped, n, r.Drop) || !near(c.Duplicated, n-int(c.Dropped), r.Duplicate) {
					t.Errorf("%+v of %d frames with %+v", c, n, r)
				}
				if whole, changed, _ := back.send(100); whole != 100 || changed != 0 {
					t.Errorf("the other way: %d arrived, %d changed", whole, changed)
				}
			})
		}
	}
}

// TestCorrupt: one bit is flipped, anywhere behind the Ethernet header. Of IPv4
// frames without a UDP checksum the kernel lets through what is hit in the payload.
func TestCorrupt(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, StaticNeighbors: true})
	link := impair.ForTest(t, hosts, 7)
	f := newFlow(t, hosts.A, hosts.B, v4, roce)
	noChecksum(t, f.from)
	if err := link.Set(impair.FromA, impair.Rates{Corrupt: 1}); err != nil {
		t.Fatal(err)
	}
	const n = 600
	whole, changed, flipped := f.send(n)
	c := counts(t, link, impair.FromA)
	if c.Frames != n || c.Corrupted != n {
		t.Errorf("%+v of %d frames", c, n)
	}
	// 200 of 228 bytes are payload, and a few bits of the headers do not matter.
	if payloads := n * size / (size + 28); changed < payloads*8/10 || changed > payloads*12/10 || flipped != changed {
		t.Errorf("%d datagrams changed in %d bits; about %d of them in one bit are to be expected", changed, flipped, payloads)
	}
	if whole > n/10 {
		t.Errorf("%d datagrams arrived as they were", whole)
	}
}

// TestOthersPass: what is not RoCE arrives.
func TestOthersPass(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true})
	link := impair.ForTest(t, hosts, 7)
	if err := link.SetBoth(impair.Rates{Drop: 1}); err != nil {
		t.Fatal(err)
	}
	for _, family := range []func(*netns.End) netip.Addr{v4, v6} {
		if whole, _, _ := newFlow(t, hosts.A, hosts.B, family, roce+1).send(100); whole != 100 {
			t.Errorf("%v: %d of 100 arrived", family(hosts.B), whole)
		}
	}
	if c := counts(t, link, impair.FromA); c != (impair.Counts{}) {
		t.Errorf("%+v", c)
	}
}

// TestSeed: the same seed does the same to the same frames, another does not,
// and the directions have nothing in common.
func TestSeed(t *testing.T) {
	run := func(seed uint64, dir impair.Direction) (arrived [300]bool) {
		hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, StaticNeighbors: true})
		link := impair.ForTest(t, hosts, seed)
		if err := link.SetBoth(impair.Rates{Drop: 0.5}); err != nil {
			t.Fatal(err)
		}
		from, to := hosts.A, hosts.B
		if dir == impair.FromB {
			from, to = to, from
		}
		f := newFlow(t, from, to, v4, roce)
		for i := range arrived {
			before := counts(t, link, dir).Dropped
			if _, err := f.from.WriteTo(payload(i), f.dst); err != nil {
				t.Fatal(err)
			}
			for counts(t, link, dir).Frames != uint64(i+1) {
				time.Sleep(50 * time.Microsecond)
			}
			arrived[i] = counts(t, link, dir).Dropped == before
		}
		return arrived
	}
	first := run(1, impair.FromA)
	if again := run(1, impair.FromA); again != first {
		t.Error("the same seed did something else")
	}
	if run(2, impair.FromA) == first || run(1, impair.FromB) == first {
		t.Error("another seed or direction did the same")
	}
}

func TestRefused(t *testing.T) {
	direct := netns.PairForTest(t, netns.PairOptions{})
	if _, err := impair.New(direct, 1); err == nil {
		t.Error("hosts without a bridge were taken")
	}
	link := impair.ForTest(t, netns.PairForTest(t, netns.PairOptions{Bridge: true}), 1)
	for _, r := range []impair.Rates{{Drop: -0.1}, {Duplicate: 1.1}, {Corrupt: math.NaN()}} {
		if err := link.Set(impair.FromA, r); !errors.Is(err, impair.ErrRate) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func counts(t *testing.T, l *impair.Link, dir impair.Direction) impair.Counts {
	t.Helper()
	c, err := l.Counts(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func noChecksum(t *testing.T, c net.PacketConn) {
	t.Helper()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		t.Fatal(err)
	}
}
