package cm_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestNetnsIDs has what ids do between two devices in memory done by two hosts, whose kernels
// resolve addresses and join groups. Their addresses are the same.
func TestNetnsIDs(t *testing.T) {
	hosts := func(t *testing.T) (a, b *verbs.Context) {
		pair := netns.PairForTest(t, netns.PairOptions{})
		return openIn(t, pair.A), openIn(t, pair.B)
	}
	for _, tt := range []struct {
		name string
		test func(*testing.T, link)
	}{
		{"life", life}, {"own queue pairs", ownQueuePairs}, {"listen everywhere", listenEverywhere},
		{"datagrams", datagrams}, {"groups", groups},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, hosts) })
	}
}
