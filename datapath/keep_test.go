package datapath

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestKeepTable(t *testing.T) {
	k, l := newKeepTable(4), newLane()
	ref := k.next()
	if ref != k.next() {
		t.Error("next is not stable")
	}
	k.hold(l, []xsk.Desc{{Addr: 100}, {Addr: 200}})
	if k.kept() != 1 || l.kept != 1 || k.next() == ref {
		t.Errorf("%d kept, %d for the lane, next %d", k.kept(), l.kept, k.next())
	}
	if got := k.take(ref); !slices.Equal(got, []uint64{100, 200}) {
		t.Errorf("took %v", got)
	}
	for _, bad := range []uint64{ref, 3, 4, 1 << 40} {
		if got := k.take(bad); got != nil {
			t.Errorf("took %v for %d", got, bad)
		}
	}
	if k.kept() != 0 || l.kept != 0 {
		t.Errorf("%d kept, %d for the lane", k.kept(), l.kept)
	}
}

// keepAll has a lane keep as many frames as it may, and returns how many these are.
func keepAll(k *keepTable, l *lane) (n int) {
	for ; k.takes(l); n++ {
		k.hold(l, []xsk.Desc{{Addr: uint64(n)}})
	}
	return n
}

// TestKeepShares: whatever one keeps, others find their part.
func TestKeepShares(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
		want  []int // of clients that take all they can get, one after the other
	}{
		{"as by default", 1024, []int{1024, 342, 114, 38, 16, 16}},
		{"few", 32, []int{32, 16, 16}},
		{"fewer than the least", 8, []int{8, 8}},
		{"one", 1, []int{1, 1}},
		{"none", 0, []int{0, 0}},
	} {
		k := newKeepTable(max(4*tt.limit, 4))
		k.limit = tt.limit
		var got []int
		for range tt.want {
			got = append(got, keepAll(&k, newLane()))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	// Those who take turns come to the same.
	k := newKeepTable(4096)
	k.limit = 1024
	two := []*lane{newLane(), newLane()}
	for more := true; more; {
		more = false
		for _, l := range two {
			if k.takes(l) {
				k.hold(l, []xsk.Desc{{}})
				more = true
			}
		}
	}
	if two[0].kept < 600 || two[0].kept-two[1].kept > 1 {
		t.Errorf("%d and %d of 1024", two[0].kept, two[1].kept)
	}
}

// TestKeepAccounts: in every order of keeping, giving back and other limits the counts
// are what is there, one alone has the limit, everyone the least that there is, and
// what they have together leaves half of the frames.
func TestKeepAccounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		frames := rapid.SampledFrom([]int{64, 256}).Draw(rt, "frames")
		k := newKeepTable(frames)
		k.limit = frames / 4
		lanes := make([]*lane, rapid.IntRange(1, 5).Draw(rt, "lanes"))
		for i := range lanes {
			lanes[i] = newLane()
		}
		refs := map[uint64]*lane{}
		rt.Repeat(map[string]func(*rapid.T){
			"keep": func(rt *rapid.T) {
				l := rapid.SampledFrom(lanes).Draw(rt, "lane")
				for range rapid.IntRange(1, 40).Draw(rt, "frames") {
					others := k.kept() - l.kept
					may := k.takes(l)
					switch least := min(minKept, k.limit); {
					case others == 0 && may != (l.kept < k.limit):
						rt.Fatalf("alone with %d of %d kept, one more: %v", l.kept, k.limit, may)
					case l.kept < least && k.kept() < 2*k.limit && !may:
						rt.Fatalf("no more than %d kept, of %d that everyone may", l.kept, least)
					case may && k.kept() >= 2*k.limit:
						rt.Fatalf("%d of %d frames are kept, and one more", k.kept(), frames)
					}
					if !may {
						return
					}
					refs[k.next()] = l
					k.hold(l, []xsk.Desc{{Addr: 1}})
				}
			},
			"give back": func(rt *rapid.T) {
				l := rapid.SampledFrom(lanes).Draw(rt, "lane")
				for ref, keeper := range refs {
					if keeper == l {
						k.take(ref)
						k.take(ref) // twice is nothing
						delete(refs, ref)
					}
				}
			},
			"limit": func(rt *rapid.T) { k.limit = frames / 4 / rapid.SampledFrom([]int{1, 2}).Draw(rt, "buffers") },
			"": func(rt *rapid.T) {
				sum := 0
				for _, l := range lanes {
					sum += l.kept
				}
				if sum != len(refs) || k.kept() != len(refs) {
					rt.Fatalf("%d are kept for lanes, %d in all, want %d", sum, k.kept(), len(refs))
				}
			},
		})
		for ref := range refs {
			k.take(ref)
		}
		for _, l := range lanes {
			if l.kept != 0 {
				rt.Fatalf("%d are left for a lane", l.kept)
			}
		}
	})
}

// TestGreedyClient: a client whose peers let all its gaps open has its part of what is
// kept, and another repairs its losses one by one all the same.
func TestGreedyClient(t *testing.T) {
	const limit, offBTH = 32, 42
	var mu sync.Mutex
	lose := map[uint32]uint32{} // by queue pair: the packet that never arrives, noPSN: the first
	count, once := 0, uint32(0)
	const noPSN = 1 << 24
	r := newRig(t, rigOptions{mtu: 1500, hook: func(frame []byte) xsktest.Action {
		mu.Lock()
		defer mu.Unlock()
		word := func(at int) uint32 {
			return uint32(frame[at])<<16 | uint32(frame[at+1])<<8 | uint32(frame[at+2])
		}
		dest, psn := word(offBTH+5), word(offBTH+9)
		switch first, greedy := lose[dest]; {
		case greedy && first == noPSN:
			lose[dest] = psn
			return xsktest.Drop
		case greedy && first == psn:
			return xsktest.Drop
		case once != 0 && dest == once:
			if count++; count == 2 {
				return xsktest.Drop
			}
		}
		return xsktest.Deliver
	}})
	greedy, greedyCtx := client(t, r.b, &ClientConfig{Name: "greedy"})
	honest, honestCtx := client(t, r.b, &ClientConfig{Name: "honest"})
	w := r.b.workers[0]
	kept := func() (g, h, all int) {
		t.Helper()
		must(t, w.acquire())
		defer w.release(controller)
		return greedy.lanes[0].kept, honest.lanes[0].kept, w.kept.kept()
	}
	connect := func(ctx *verbs.Context) *verbstest.Pair {
		p, err := verbstest.NewPair(verbs.RC, r.ca, ctx, verbstest.Options{BufferSize: 1 << 17, Timeout: slow})
		must(t, err)
		return p
	}
	bad, good := connect(greedyCtx), connect(honestCtx)
	must(t, w.control(func() { w.kept.limit = limit }))
	mu.Lock()
	lose[bad.B.QP.Num()], once = noPSN, good.B.QP.Num()
	mu.Unlock()
	must(t, request(verbs.OpRDMAWrite)(bad, bad.A.MR.SGE(0, 100<<10), bad.B.MR.Addr(), bad.B.MR.RKey()))
	waitFor(t, "the greedy one has all that it may", func() bool { g, _, _ := kept(); return g == limit })
	must(t, good.Write(14<<10, false))
	if n := counterOf(t, r.b, "out_of_order_used"); n != 12 {
		t.Errorf("%d packets after the one that was lost were of use, want 12", n)
	}
	if g, h, all := kept(); g != limit || h != 0 || all != limit {
		t.Errorf("%d, %d and %d in all are kept", g, h, all)
	}
	must(t, greedyCtx.Close())
	if g, _, all := kept(); g != 0 || all != 0 {
		t.Errorf("%d of %d that are kept are a client's that is gone", g, all)
	}
	must(t, good.Write(14<<10, false))
	r.checkMemory()
}

// TestReceives: what may be kept is in frames to receive into, of whichever worker.
func TestReceives(t *testing.T) {
	s := newShare(&Options{FrameSize: 4096, Frames: 128, RingSize: 64})
	for id := range 3 {
		for of := range uint64(3) {
			base := of * s.perWorker
			for _, tt := range []struct {
				addr uint64
				want bool
			}{{base, true}, {base + s.rxBytes - 1, true}, {base + s.rxBytes, false}, {base + s.perWorker - 1, false}} {
				if got := s.receives(id, tt.addr); got != tt.want {
					t.Errorf("worker %d, %d bytes into the memory of %d: %v", id, tt.addr-base, of, got)
				}
			}
		}
	}
}
