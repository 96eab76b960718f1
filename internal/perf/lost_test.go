package perf

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// losable is a device that can be lost as one of a daemon is: it completes nothing any
// more, and says so only to who asks.
type losable struct {
	verbs.Provider
	lost atomic.Bool
}

func (l *losable) Lost() *atomic.Bool { return &l.lost }

// A test whose daemon has ended ends at once: nobody waits for ErrStalled.
func TestDeviceIsLost(t *testing.T) {
	for _, name := range []string{"write-bw", "send-lat"} {
		t.Run(name, func(t *testing.T) {
			a, _ := datapathtest.Pair(t, datapathtest.Options{})
			l := &losable{Provider: a.Provider()}
			dev := verbs.NewContext(l)
			gid, err := connect.GID(dev, -1, netip.Addr{})
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEnd(dev, gid, connect.Path{MTU: verbs.MTU1024}, config(t, name, Params{}).Params)
			if err != nil {
				t.Fatal(err)
			}
			for round := range 2 * patient {
				if err := e.poll(t.Context()); err != nil {
					t.Fatalf("round %d of a device that is there: %v", round, err)
				}
			}
			l.lost.Store(true)
			for round := 0; err == nil && round < patient; round++ {
				err = e.poll(t.Context())
			}
			if !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("after %d rounds of a lost device: %v, want ErrClosed", patient, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
