package datapath

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// holdings is what a device and this process hold.
func holdings(t *testing.T, d *Device) map[string]int {
	t.Helper()
	all := objects(d)
	for _, w := range d.workers {
		for end := time.Now().Add(verbstest.Patience); ; {
			must(t, w.acquire())
			w.reap()
			busy, kept, flight, lanes, turns := w.tx.busy(), w.kept.kept(), 0, len(w.lanes), w.active.n
			for _, l := range w.lanes {
				flight += l.flight.InFlight()
			}
			w.release(controller)
			if busy+kept+flight+turns == 0 || time.Now().After(end) {
				all["slot"] += busy
				all["kept"] += kept
				all["flight"] += flight
				all["lane"] += lanes
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	all["descriptor"] = len(list)
	return all
}

// kill is one client that sends and receives on a few queue pairs, has some of
// everything else, and is gone at any moment.
func kill(t *testing.T, r *rig, rnd *rand.Rand) {
	c, ctx := newRemote(t, r.a, ClientConfig{Name: "short-lived", Owner: "7"})
	var ends []*verbstest.End
	var wg sync.WaitGroup
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UD} {
		p, err := verbstest.NewPair(typ, ctx, r.cb, verbstest.Options{BufferSize: 1 << 14, Depth: 16, Timeout: 8, Retry: 1})
		must(t, err)
		ends = append(ends, p.B)
		n := rnd.IntN(3000) + 1
		for range 8 {
			must(t, p.A.Recv(1, 0, 4096))
			must(t, p.B.Recv(1, 0, 4096))
			must(t, p.A.Post(p.Datagram(n)))
			must(t, p.B.Post(p.Reverse().Datagram(n)))
			if typ == verbs.RC {
				must(t, p.A.Post(verbs.SendWR{Opcode: verbs.OpRDMARead, SGList: []verbs.SGE{p.A.MR.SGE(0, n)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
			}
		}
	}
	pd := c.anyPD()
	_, err := c.AllocMW(pd, ibv.MWType2)
	must(t, err)
	xrcd, err := c.OpenXRCD(&verbs.XRCDInitAttr{Name: "kill", Create: true})
	must(t, err)
	_, err = c.Client.CreateQP(&verbs.ProviderQPInit{Type: ibv.QPTypeXRCRecv, XRCD: xrcd})
	must(t, err)
	_, err = c.Client.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	must(t, err)
	wg.Go(func() { // a call that is under way; whether it still works is left to chance
		if q, err := c.Client.CreateCQ(4); err == nil {
			_ = q.Destroy()
		}
		_, _ = c.AllocPD()
	})
	time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
	must(t, c.Client.Close())
	wg.Wait()
	c.end()
	for _, e := range ends {
		must(t, e.QP.Destroy())
		must(t, e.MR.Deregister())
		must(t, e.CQ.Destroy())
		must(t, e.Dev.FreeBuffer(e.Buf))
		if e.AH != nil {
			must(t, e.AH.Destroy())
		}
		must(t, e.PD.Dealloc())
	}
}

// TestKill: clients that end in the middle of whatever they do leave nothing behind
// and hold nobody up.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, rigOptions{queues: 2, crossed: true})
	good := r.pair(verbstest.Options{})
	must(t, good.Every(10))
	kill(t, r, rnd) // descriptors that the process opens once are there after it
	before := [2]map[string]int{holdings(t, r.a), holdings(t, r.b)}
	rounds := 1000
	if testing.Short() || raceEnabled {
		rounds = 100
	}
	for i := range rounds {
		kill(t, r, rnd)
		if i%50 == 0 {
			must(t, good.Every(100, 5000))
		}
	}
	for i, d := range []*Device{r.a, r.b} {
		if d := cmp.Diff(before[i], holdings(t, d)); d != "" {
			t.Errorf("device %d holds (-before +after):\n%s", i, d)
		}
	}
	must(t, good.Every(100, 5000))
}
