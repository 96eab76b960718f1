package datapath

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

func TestHopCache(t *testing.T) {
	peer := netip.MustParseAddr("192.0.2.9")
	routes := &fakeRoutes{macs: map[netip.Addr][6]byte{addrB: macB}}
	now := mono.Time(1000)
	c := newHopCache(routes)
	c.now = func() mono.Time { return now }
	check := func(when string, dst netip.Addr, mac [6]byte, asked int) {
		t.Helper()
		hop, err := c.resolve(t.Context(), leg{1, addrA, dst})
		if err != nil || hop.mac != mac || routes.asked != asked {
			t.Errorf("%s: %+v, %v after %d questions; want %x after %d", when, hop, err, routes.asked, mac, asked)
		}
	}
	check("first", addrB, macB, 1)
	check("again", addrB, macB, 1)
	if _, err := c.resolve(t.Context(), leg{1, addrA, peer}); !errors.Is(err, ErrNoNeighbour) {
		t.Errorf("a peer that is not there: %v", err)
	}
	routes.set(peer, macA)
	check("failures are not remembered", peer, macA, 3)
	check("the other is still known", addrB, macB, 3)
	if hop, err := c.resolve(t.Context(), leg{1, peer, addrB}); err != nil || hop.mac != macB || routes.asked != 4 {
		t.Errorf("another source: %+v, %v after %d questions", hop, err, routes.asked)
	}

	routes.set(addrB, macA)
	now = now.Add(hopLife - 1)
	check("just before the end", addrB, macB, 4)
	now++
	check("at the end", addrB, macA, 5)
	routes.set(addrB, macB)
	c.forget()
	check("forgotten", addrB, macB, 6)
	(*hopCache)(nil).forget()
}

// TestHopCacheChangesMeanwhile: an answer that was under way as something changed
// is used, for there is no better one, but not remembered.
func TestHopCacheChangesMeanwhile(t *testing.T) {
	routes := &fakeRoutes{macs: map[netip.Addr][6]byte{addrB: macB}}
	c := newHopCache(nil)
	c.from = resolverFunc(func(l leg) (nextHop, error) {
		c.forget()
		return routes.resolve(t.Context(), l)
	})
	for i := range 3 {
		if hop, err := c.resolve(t.Context(), leg{1, addrA, addrB}); err != nil || hop.mac != macB || routes.asked != i+1 {
			t.Errorf("%+v, %v after %d questions", hop, err, routes.asked)
		}
	}
}

func TestHopCacheIsBounded(t *testing.T) {
	c := newHopCache(resolverFunc(func(l leg) (nextHop, error) { return nextHop{addr: l.dst}, nil }))
	for i := range 3 * maxHops {
		dst := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		if hop, err := c.resolve(t.Context(), leg{1, addrA, dst}); err != nil || hop.addr != dst {
			t.Fatalf("%v: %+v, %v", dst, hop, err)
		}
	}
	if len(c.recent) > maxHops {
		t.Errorf("%d are remembered, at most %d may be", len(c.recent), maxHops)
	}
}

type resolverFunc func(l leg) (nextHop, error)

func (f resolverFunc) resolve(_ context.Context, l leg) (nextHop, error) { return f(l) }

func (f resolverFunc) hop(l leg) (netip.Addr, error) {
	hop, err := f(l)
	return hop.addr, err
}
