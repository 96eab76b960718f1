package serve

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// objects are how many of each kind a device has.
type objectCount struct{ PDs, MRs, CQs, QPs, SRQs, Clients int }

func (w *twin) count(t testing.TB) (n [2]objectCount) {
	t.Helper()
	for i, d := range w.dev {
		r, err := d.Provider().(*datapath.Device).Resources()
		if err != nil {
			t.Fatal(err)
		}
		n[i] = objectCount{len(r.PDs), len(r.MRs), len(r.CQs), len(r.QPs), len(r.SRQs), len(r.Clients)}
	}
	return n
}

// kill ends the connection of the program that came last to a side's daemon, without a
// word. The daemon sees what it sees when the program dies.
func (w *twin) kill(side int) {
	if all := w.srv[side].of(nil); len(all) > 1 {
		_ = all[len(all)-1].conn.Close()
	}
}

// TestKills has programs end at random moments while they send, connect, make and destroy
// things. Then nothing of them is left, and a pair that has nothing to do with them has lost
// nothing.
func TestKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	kills := 30
	if os.Getenv("ROCE_XDP_SOAK") != "" {
		kills = 1000
	}
	w := newTwin(t, Config{})
	honest := verbstest.RCPair(t, w.open(t, 0), w.open(t, 1), verbstest.Options{})
	exchange := func() {
		if err := honest.Send(10_000, true); err != nil {
			t.Fatalf("the honest pair: %v", err)
		}
	}
	w.victim(t, rnd) // whatever is made once, is made now
	exchange()
	w.settle(t)
	before, files, routines := w.count(t), openFiles(t), runtime.NumGoroutine()
	for range kills {
		w.victim(t, rnd)
		exchange()
	}
	w.settle(t)
	if d := cmp.Diff(before, w.count(t)); d != "" {
		t.Errorf("objects of the devices (-before +after):\n%s", d)
	}
	waitFor(t, "as many descriptors as before", func() bool { return openFiles(t) <= files })
	waitFor(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= routines })
}

// settle waits until the honest clients alone are left.
func (w *twin) settle(t testing.TB) {
	t.Helper()
	for _, s := range w.srv {
		waitFor(t, "the end of the others", func() bool { return len(s.Snapshot("")) == 1 })
	}
}

// victim is a pair of programs of which one, or both, are killed within milliseconds.
func (w *twin) victim(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	var devs [2]*verbs.Context
	for i := range devs {
		c, err := w.client(t, i)
		if err != nil {
			t.Fatal(err)
		}
		devs[i] = c
	}
	var busy sync.WaitGroup
	typ := typesOfPairs[rnd.IntN(len(typesOfPairs))]
	busy.Go(func() {
		for { // until what it has is gone
			p, err := verbstest.NewPair(typ, devs[0], devs[1], verbstest.Options{BufferSize: 1 << 16, Retry: 1, Timeout: 8})
			if err != nil {
				return
			}
			err = p.Send(1+int(typ)%2*500, false)
			if err == nil {
				err = p.Close()
			}
			if err != nil {
				return
			}
		}
	})
	time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
	first := rnd.IntN(2)
	w.kill(first)
	if rnd.IntN(2) == 0 {
		w.kill(1 - first)
	}
	busy.Wait()
	for _, d := range devs {
		_ = d.Close() // an error says that the daemon has gone, as it seems from here
	}
}
