package datapathtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPair moves data between the devices of a pair.
func TestPair(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	p := verbstest.RCPair(t, a, b, verbstest.Options{})
	for _, n := range []int{0, 1, 4096, 100_000} {
		if err := p.Send(n, false); err != nil {
			t.Errorf("SEND of %d bytes: %v", n, err)
		}
	}
	gids, err := a.GIDs()
	if err != nil || len(gids) != 2 || gids[0].GID.Addr() != datapathtest.IPv4[0] || gids[1].GID.Addr() != datapathtest.IPv6[0] {
		t.Errorf("GIDs %v, %v", gids, err)
	}
}
