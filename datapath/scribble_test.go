//go:build !race

// What the client does here is a race by intent: the race detector has no part in it.

package datapath

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestScribble: a client writes whatever it likes to all that it shares, all the time,
// and rings. Others go on as if nothing was, and their memory stays theirs.
func TestScribble(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := newRig(t, rigOptions{queues: 2, crossed: true})
	_, other := newRemote(t, r.a, ClientConfig{Name: "honest"})
	good, err := verbstest.NewPair(verbs.RC, other, r.cb, verbstest.Options{BufferSize: 1 << 16})
	must(t, err)
	guard := make([]byte, 1<<12)
	verbstest.Fill(guard, seed)
	untouched := string(guard)
	pd, err := r.a.AllocPD()
	must(t, err)
	_, err = r.a.RegisterMemory(pd, guard, ibv.AccessLocalWrite|ibv.AccessRemoteWrite|ibv.AccessRemoteRead)
	must(t, err)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for i := range rounds {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		hostile, ctx := newRemote(t, r.a, ClientConfig{Name: "hostile"})
		var pairs []*verbstest.Pair
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
			p, err := verbstest.NewPair(typ, ctx, r.cb, verbstest.Options{})
			must(t, err)
			for range 10 {
				must(t, p.A.Recv(1, 0, 100))
			}
			pairs = append(pairs, p)
		}
		var wcs [16]verbs.WC
		for range 200 {
			hostile.scribble(rnd)
			for _, p := range pairs {
				_ = p.B.Post(p.Reverse().Datagram(8)) // its receives are looked at for what comes as well
				p.B.CQ.Poll(wcs[:])
			}
			if rnd.IntN(50) == 0 {
				must(t, good.Write(1+rnd.IntN(20_000), false))
			}
		}
		must(t, good.Every(1, 3000))
		must(t, ctx.Close())
		for _, p := range pairs {
			must(t, p.B.QP.Destroy())
		}
	}
	if string(guard) != untouched {
		t.Error("memory of another was written to")
	}
}

// scribble writes to a few places of what is shared and rings every doorbell.
func (r *remote) scribble(rnd *rand.Rand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range 20 {
		v := r.views[rnd.IntN(len(r.views))]
		switch at := rnd.IntN(len(v)); rnd.IntN(4) {
		case 0:
			v[at] = byte(rnd.Uint32())
		case 1: // indices that are nearly right get further
			if len(v) > consumerAt {
				v[[]int{producerAt, consumerAt}[rnd.IntN(2)]] += byte(rnd.IntN(5))
			}
		case 2:
			verbstest.Fill(v[at:min(at+200, len(v))], rnd.Uint64())
		case 3:
			if len(v) > consumerAt {
				v[producerAt+rnd.IntN(4)] = byte(rnd.Uint32())
			}
		}
	}
	for w, b := range r.bells {
		for s := range 8 {
			b.Ring(s)
		}
		_, _ = unix.Write(r.wakes[w], []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it may be full
	}
}
