package integration_test

import (
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// large is the largest message of the matrix.
const large = 64 << 20

// TestMatrix moves data by every operation, at the sizes where packets begin and
// end, over both address families, both common path MTUs and both kinds of XDP.
// Memory is compared after each operation, with the bytes around the target.
func TestMatrix(t *testing.T) {
	for _, link := range []struct {
		mtu  int
		path verbs.MTU
	}{{1500, verbs.MTU1024}, {9000, verbs.MTU4096}} {
		for _, mode := range []bpf.Mode{bpf.ModeNative, bpf.ModeGeneric} {
			t.Run(fmt.Sprintf("link %d/%v", link.mtu, mode), func(t *testing.T) {
				r := newRig(t, netns.PairOptions{MTU: link.mtu}, &datapath.Options{Mode: mode})
				checkMode(t, r, mode)
				for _, family := range []struct {
					name string
					pair func(*testing.T, verbstest.Options) *verbstest.Pair
				}{{"IPv4", r.pair}, {"IPv6", r.pair6}} {
					t.Run(family.name, func(t *testing.T) {
						p := family.pair(t, verbstest.Options{BufferSize: large + 4096})
						if p.MTU != link.path {
							t.Fatalf("path MTU %d bytes, want %d", p.MTU.Bytes(), link.path.Bytes())
						}
						matrix(t, p)
					})
				}
			})
		}
	}
}

// matrix runs every operation at the edges of packets both ways, and with a
// large message one way.
func matrix(t *testing.T, p *verbstest.Pair) {
	t.Helper()
	m := p.MTU.Bytes()
	for name, dir := range map[string]*verbstest.Pair{"A to B": p, "B to A": p.Reverse()} {
		if err := dir.Every(0, 1, 3, 4, 63, 64, m-1, m, m+1, 1<<20-1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := p.Every(large); err != nil {
		t.Fatal(err)
	}
}

func checkMode(t *testing.T, r *rig, want bpf.Mode) {
	t.Helper()
	for _, dev := range []*verbs.Context{r.a, r.b} {
		attr, err := dev.QueryDevice()
		if err != nil {
			t.Fatal(err)
		}
		if attr.XDPMode != want.String() || attr.NumWorkers != 1 {
			t.Errorf("XDP mode %s with %d workers, want %s with 1", attr.XDPMode, attr.NumWorkers, want)
		}
	}
}
