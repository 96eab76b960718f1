package integration_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// throughDaemons is a rig whose devices belong to daemons, one at each host.
func throughDaemons(t *testing.T, link netns.PairOptions) *rig {
	t.Helper()
	r := newRig(t, link, nil)
	all := serve.Config{Name: "test", Policy: func(serve.Cred) (serve.Limits, error) { return serve.Limits{Privileged: true}, nil }}
	return &rig{hosts: r.hosts, a: daemontest.Start(t, r.a, all).Open(t), b: daemontest.Start(t, r.b, all).Open(t)}
}

// TestMatrixThroughDaemons is the matrix with programs at both ends that reach their
// device through a daemon: every operation, also of the other transport services, with
// memory that they share.
func TestMatrixThroughDaemons(t *testing.T) {
	r := throughDaemons(t, netns.PairOptions{MTU: 9000})
	t.Run("IPv4", func(t *testing.T) { matrix(t, r.pair(t, verbstest.Options{BufferSize: large + 4096})) })
	t.Run("IPv6", func(t *testing.T) { matrix(t, r.pair6(t, verbstest.Options{BufferSize: large + 4096})) })
	for _, other := range []struct {
		name string
		make func(testing.TB, *verbs.Context, *verbs.Context, verbstest.Options) *verbstest.Pair
	}{{"UC", verbstest.UCPair}, {"UD", verbstest.UDPair}, {"XRC", verbstest.XRCPair}, {"GSI", verbstest.GSIPair}} {
		t.Run(other.name, func(t *testing.T) {
			p := other.make(t, r.a, r.b, verbstest.Options{})
			for _, dir := range []*verbstest.Pair{p, p.Reverse()} {
				if err := dir.Every(0, 1, 63, 64, 256); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("keys", func(t *testing.T) {
		if err := r.pair(t, verbstest.Options{}).Keys(10_000); err != nil {
			t.Error(err)
		}
	})
}
