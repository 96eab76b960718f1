package resolve_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// TestNetnsNamespace: each namespace has a number of its own, and keeps it.
func TestNetnsNamespace(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	seen := map[uint64]string{}
	look := func(name string) uint64 {
		n, err := resolve.Namespace()
		if err != nil || n == 0 {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		if other, there := seen[n]; there && other != name {
			t.Errorf("%s and %s are both %d", name, other, n)
		}
		seen[n] = name
		return n
	}
	here := look("here")
	for name, ns := range map[string]*netns.NS{"A": pair.A.NS, "B": pair.B.NS} {
		err := ns.Do(func() error {
			if first := look(name); look(name) != first {
				t.Errorf("%s changes its number", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if look("here") != here || len(seen) != 3 {
		t.Errorf("numbers %v", seen)
	}
}
