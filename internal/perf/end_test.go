package perf

import (
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// The timeout that was asked for is that of both ends' queue pairs.
func TestTimeoutOfQueuePairs(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	for timeout, want := range map[uint8]uint8{0: 14, 19: 19} {
		p := config(t, "send-bw", Params{QPs: 2, Timeout: timeout}).Params
		var ends []*End
		for _, dev := range []*verbs.Context{a, b} {
			gid, err := connect.GID(dev, -1, netip.Addr{})
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEnd(dev, gid, connect.Path{MTU: verbs.MTU1024}, p)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, e)
		}
		for i, e := range ends {
			if err := e.Connect(t.Context(), ends[1-i].Endpoints()); err != nil {
				t.Fatal(err)
			}
			for _, qp := range e.qps {
				if attr, err := qp.Query(); err != nil || attr.Timeout != want {
					t.Errorf("-u %d: the queue pair has timeout %d, want %d: %v", timeout, attr.Timeout, want, err)
				}
			}
		}
		for _, e := range ends {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
