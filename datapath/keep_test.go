package datapath

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestKeepTable(t *testing.T) {
	k, l := newKeepTable(4, make([]homeKept, 1)), keepers(1)[0]
	ref := k.next()
	if ref != k.next() {
		t.Error("next is not stable")
	}
	k.hold(l, 0, []xsk.Desc{{Addr: 100}, {Addr: 200}})
	check := func(frames, buffers int) {
		t.Helper()
		if n := int64(buffers); k.kept() != frames || k.buffers != buffers || l.kept != buffers || k.of[0].n.Load() != n || l.keptOf[0].Load() != n {
			t.Errorf("%d kept in %d buffers, %d for the lane, %d of their home, %d for the client, want %d in %d",
				k.kept(), k.buffers, l.kept, k.of[0].n.Load(), l.keptOf[0].Load(), frames, buffers)
		}
	}
	if check(1, 2); k.next() == ref {
		t.Error("the reference of a kept frame is given again")
	}
	if got := k.take(ref); !slices.Equal(got, []uint64{100, 200}) {
		t.Errorf("took %v", got)
	}
	for _, bad := range []uint64{ref, 3, 4, 1 << 40} {
		if got := k.take(bad); got != nil {
			t.Errorf("took %v for %d", got, bad)
		}
	}
	check(0, 0)
}

// keepers are the lanes of a client of a device with so many workers.
func keepers(workers int) []*lane {
	list, keptOf := make([]*lane, workers), make([]atomic.Int64, workers)
	for i := range list {
		list[i] = newLane()
		list[i].keptOf = keptOf
	}
	return list
}

// keepAll has a lane keep as many frames of worker 0 as it may, each of so many buffers,
// and returns how many buffers these are.
func keepAll(k *keepTable, l *lane, buffers int) (n int) {
	for ; k.takes(l, 0, buffers); n += buffers {
		k.hold(l, 0, make([]xsk.Desc, buffers))
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
		{"as by default", 1024, []int{1024, 342, 114, 38, 32, 32}},
		{"few", 32, []int{32, 16, 16}},
		{"fewer than the least", 8, []int{8, 4, 4}},
		{"one", 1, []int{1, 1}},
		{"none", 0, []int{0, 0}},
	} {
		k := newKeepTable(max(4*tt.limit, 4), make([]homeKept, 1))
		k.limit = tt.limit
		var got []int
		for range tt.want {
			got = append(got, keepAll(&k, keepers(1)[0], 1))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	// Those who take turns come to the same.
	k := newKeepTable(4096, make([]homeKept, 1))
	k.limit = 1024
	two := []*lane{keepers(1)[0], keepers(1)[0]}
	for more := true; more; {
		more = false
		for _, l := range two {
			if k.takes(l, 0, 1) {
				k.hold(l, 0, []xsk.Desc{{}})
				more = true
			}
		}
	}
	if two[0].kept < 600 || two[0].kept-two[1].kept > 1 {
		t.Errorf("%d and %d of 1024", two[0].kept, two[1].kept)
	}
}

// TestKeepSharesOfHome: clients keep, in all workers together, of what a single one of
// these receives as much as if they had that one alone.
func TestKeepSharesOfHome(t *testing.T) {
	want := []int{1024, 342, 114, 38, 32, 32}
	for _, workers := range []int{1, 2, 4, 64} {
		of := make([]homeKept, workers)
		tables := make([]keepTable, workers)
		for i := range tables {
			tables[i] = newKeepTable(4096, of)
		}
		var got []int
		for range want {
			sum := 0
			for i, l := range keepers(workers) {
				sum += keepAll(&tables[i], l, 1)
			}
			got = append(got, sum)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d workers: %d, want %d", workers, got, want)
		}
	}
}

// keepModel is workers that keep frames of each other for clients, and what they ought
// to hold.
type keepModel struct {
	tables []keepTable
	of     []homeKept
	lanes  [][]*lane // by client and worker
	held   map[keptRef]keptFrame
}

type keptRef struct {
	worker int
	ref    uint64
}

type keptFrame struct{ client, home, n int }

// keep has a client keep a frame of home if it may.
func (m *keepModel) keep(rt *rapid.T, worker int, f keptFrame) (may bool) {
	k, l := &m.tables[worker], m.lanes[f.client][worker]
	may = k.takes(l, f.home, f.n)
	own, ofHome := int(l.keptOf[f.home].Load()), int(m.of[f.home].n.Load())
	most, least := 2*k.limit, min(minKept, (k.limit+1)/2)
	fits := k.buffers+f.n <= most && ofHome+f.n <= most
	alone := k.buffers == l.kept && ofHome == own
	switch {
	case may && !fits:
		rt.Fatalf("%d buffers more, where the worker keeps %d and %d of the home are kept", f.n, k.buffers, ofHome)
	case fits && max(l.kept, own)+f.n <= least && !may:
		rt.Fatalf("no %d more than %d and %d kept, of %d that everyone may", f.n, l.kept, own, least)
	case f.n == 1 && alone && may != (max(l.kept, own) < k.limit):
		rt.Fatalf("alone with %d and %d of %d kept, one more: %v", l.kept, own, k.limit, may)
	case may:
		m.held[keptRef{worker, k.next()}] = f
		k.hold(l, f.home, make([]xsk.Desc, f.n))
	}
	return may
}

// check compares the counts with what is held.
func (m *keepModel) check(rt *rapid.T) {
	type counts struct{ Frames, Buffers, OfHome int }
	workers := len(m.tables)
	want, got := make([]counts, workers), make([]counts, workers)
	type laneCounts struct{ Kept, OfHome int }
	wantLane, gotLane := make([]laneCounts, workers*len(m.lanes)), make([]laneCounts, workers*len(m.lanes))
	for ref, f := range m.held {
		want[ref.worker].Frames++
		want[ref.worker].Buffers += f.n
		want[f.home].OfHome += f.n
		wantLane[f.client*workers+ref.worker].Kept += f.n
		wantLane[f.client*workers+f.home].OfHome += f.n
	}
	for i := range m.tables {
		got[i] = counts{m.tables[i].kept(), m.tables[i].buffers, int(m.of[i].n.Load())}
		for c := range m.lanes {
			l := m.lanes[c][i]
			gotLane[c*workers+i] = laneCounts{l.kept, int(l.keptOf[i].Load())}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		rt.Fatalf("of workers (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantLane, gotLane); d != "" {
		rt.Fatalf("of clients (-want +got):\n%s", d)
	}
}

// TestKeepAccounts: in every order of keeping and giving back the counts are what is
// there, one alone has the limit, everyone the least that there is, and half of the
// frames of each worker are left.
func TestKeepAccounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		frames := rapid.SampledFrom([]int{128, 256}).Draw(rt, "frames")
		workers, clients := rapid.IntRange(1, 4).Draw(rt, "workers"), rapid.IntRange(1, 4).Draw(rt, "clients")
		m := &keepModel{of: make([]homeKept, workers), held: map[keptRef]keptFrame{}}
		for range workers {
			m.tables = append(m.tables, newKeepTable(frames, m.of))
		}
		for range clients {
			m.lanes = append(m.lanes, keepers(workers))
		}
		anyOf := func(rt *rapid.T, n int, what string) int { return rapid.IntRange(0, n-1).Draw(rt, what) }
		rt.Repeat(map[string]func(*rapid.T){
			"keep": func(rt *rapid.T) {
				worker := anyOf(rt, workers, "worker")
				f := keptFrame{client: anyOf(rt, clients, "client"), home: anyOf(rt, workers, "home"), n: rapid.IntRange(1, 8).Draw(rt, "buffers")}
				for range rapid.IntRange(1, 40).Draw(rt, "frames") {
					if !m.keep(rt, worker, f) {
						break
					}
				}
			},
			"give back": func(rt *rapid.T) {
				client := anyOf(rt, clients, "client")
				for ref, f := range m.held {
					if f.client == client {
						k := &m.tables[ref.worker]
						if got := len(k.take(ref.ref)); got != f.n {
							rt.Fatalf("%d buffers come back, want %d", got, f.n)
						}
						k.take(ref.ref) // twice is nothing
						delete(m.held, ref)
					}
				}
			},
			"": m.check,
		})
		for ref := range m.held {
			m.tables[ref.worker].take(ref.ref)
		}
		clear(m.held)
		m.check(rt)
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

// TestHome: what may be kept is in frames to receive into, of whichever worker.
func TestHome(t *testing.T) {
	s := newShare(&Options{FrameSize: 4096, Frames: 128, RingSize: 64})
	for id := range 3 {
		for of := range uint64(3) {
			base := of * s.perWorker
			for _, tt := range []struct {
				addr uint64
				want bool
			}{{base, true}, {base + s.rxBytes - 1, true}, {base + s.rxBytes, false}, {base + s.perWorker - 1, false}} {
				if home, got := s.home(id, tt.addr); got != tt.want || got && home != int(of) {
					t.Errorf("worker %d, %d bytes into the memory of %d: %v, of %d", id, tt.addr-base, of, got, home)
				}
			}
		}
	}
}
