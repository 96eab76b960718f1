package integration_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestKeys moves data through memory windows and fast-registered regions, which
// are bound, invalidated by either side and bound again, in both directions.
func TestKeys(t *testing.T) {
	r := newRig(t, netns.PairOptions{MTU: 9000, Queues: 2}, nil)
	for name, p := range map[string]*verbstest.Pair{"IPv4": r.pair(t, verbstest.Options{}), "IPv6": r.pair6(t, verbstest.Options{})} {
		for _, n := range []int{1, 4097, 60_000} {
			for _, dir := range []*verbstest.Pair{p, p.Reverse()} {
				if err := dir.Keys(n); err != nil {
					t.Fatalf("%s, %d bytes: %v", name, n, err)
				}
			}
		}
	}
}

// TestStaleKeys: what a peer does by a key that was taken away, or replaced, is a
// remote access error at its queue pair and touches no byte.
func TestStaleKeys(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	for _, kind := range verbstest.KeyKinds {
		for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
			for _, again := range []bool{false, true} {
				if err := r.pair(t, verbstest.Options{BufferSize: 8192}).StaleKey(kind, op, again); err != nil {
					t.Errorf("%s, %v, bound again %v: %v", kind.Name, op, again, err)
				}
			}
		}
	}
}
