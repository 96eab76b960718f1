package transport

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// broken says which rule of a list does not hold, if one does not.
func (k *keptList) broken() string {
	switch n := len(k.refs); {
	case k.count == 0 && n != 0:
		return fmt.Sprintf("an empty list has a circle of %d", n)
	case k.count > n || n > minKeptRefs && 4*k.count <= n:
		return fmt.Sprintf("%d packets in a circle of %d", k.count, n)
	}
	for i := range k.count {
		switch r := k.ref(i); {
		case r.pkt == nil || psnOf(r.pkt) != r.psn:
			return fmt.Sprintf("packet %d is not that with PSN %d", i, r.psn)
		case i > 0 && !k.ref(i-1).psn.Less(r.psn):
			return fmt.Sprintf("packet %d with PSN %d comes after PSN %d", i, r.psn, k.ref(i-1).psn)
		}
	}
	return ""
}

// keptPacket is a packet with PSN p in frame p.
func keptPacket(p psn.PSN) *wire.Packet {
	b := make([]byte, wire.BTHLen)
	wire.BTHAt(b).SetPSN(p)
	return &wire.Packet{BTH: b, Ref: uint64(p)}
}

// keptRig is queue pairs that keep packets and do nothing else.
type keptRig struct {
	env *Env
	qps []QP
}

func newKeptRig(qps, budget int) *keptRig {
	r := &keptRig{env: NewEnv(nil), qps: make([]QP, qps)}
	r.env.KeepBudget = budget
	for i := range r.qps {
		r.qps[i].env = r.env
	}
	return r
}

// keep has queue pair i keep the packet with PSN p behind a gap at PSN 0.
func (r *keptRig) keep(t *testing.T, i int, p psn.PSN) {
	t.Helper()
	if q := &r.qps[i]; !q.keep(&q.resp.kept, 0, p, keptPacket(p)) {
		t.Fatalf("queue pair %d does not keep PSN %d", i, p)
	}
}

// bytes is all memory that was taken for kept packets.
func (r *keptRig) bytes() (n int) {
	refs, packets := 0, len(r.env.keeps.packets)
	for _, list := range r.env.keeps.refs.free {
		for _, s := range list {
			refs += cap(s)
		}
	}
	for i := range r.qps {
		for _, k := range []*keptList{&r.qps[i].resp.kept, &r.qps[i].req.kept} {
			refs += cap(k.refs)
			packets += k.count
		}
	}
	return refs*int(reflect.TypeFor[keptRef]().Size()) + packets*int(reflect.TypeFor[wire.Packet]().Size())
}

// TestKeptModel: in every order of keeping and letting go a list has what a set of PSNs
// has, and what it has let go of is reported.
func TestKeptModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		budget := rapid.SampledFrom([]int{1, 5, 64, 100}).Draw(rt, "budget")
		r := newKeptRig(1, budget)
		q := &r.qps[0]
		k := &q.resp.kept
		base := psn.PSN(rapid.SampledFrom([]int{0, psn.Mask - 20, 1 << 20}).Draw(rt, "base"))
		size := 1
		for size < budget {
			size *= 2
		}
		var kept []int // distances from base, in order
		var released []uint64
		distance := rapid.IntRange(1, size+1)
		let := func(i int) {
			released = append(released, uint64(base.Add(kept[i])))
			kept = slices.Delete(kept, i, i+1)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"keep": func(rt *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(rt, "packets") {
					d := distance.Draw(rt, "distance")
					i, there := slices.BinarySearch(kept, d)
					want := !there && len(kept) < budget && d <= size
					if got := q.keep(k, base, base.Add(d), keptPacket(base.Add(d))); got != want {
						rt.Fatalf("keeps +%d besides %v: %v, want %v", d, kept, got, want)
					}
					if want {
						kept = slices.Insert(kept, i, d)
					}
				}
			},
			"take": func(rt *rapid.T) {
				d := distance.Draw(rt, "distance")
				if len(kept) != 0 && rapid.Bool().Draw(rt, "the oldest") {
					d = kept[0]
				}
				i, there := slices.BinarySearch(kept, d)
				switch pkt := q.takeKept(k, base.Add(d)); {
				case (pkt != nil) != there:
					rt.Fatalf("takes +%d: %v", d, pkt)
				case there && psnOf(pkt) != base.Add(d):
					rt.Fatalf("takes PSN %d, want %d", psnOf(pkt), base.Add(d))
				case there:
					let(i)
				}
			},
			"leave some": func(rt *rapid.T) {
				every := rapid.IntRange(1, 10).Draw(rt, "every")
				q.leaveKept(k, func(p psn.PSN) bool { return p.Sub(base)%every != 0 })
				for i := 0; i < len(kept); {
					if kept[i]%every == 0 {
						let(i)
					} else {
						i++
					}
				}
			},
			"leave all": func(rt *rapid.T) {
				q.releaseAllKept(k)
				for len(kept) > 0 {
					let(0)
				}
			},
			"": func(rt *rapid.T) {
				if bad := k.broken(); bad != "" {
					rt.Fatal(bad)
				}
				got := []int{}
				for i := range k.count {
					got = append(got, k.ref(i).psn.Sub(base))
				}
				if !slices.Equal(got, kept) {
					rt.Fatalf("%v are kept, want %v", got, kept)
				}
				d := distance.Draw(rt, "asked for")
				i, there := slices.BinarySearch(kept, d)
				wanting := 10
				if i < len(kept) {
					wanting = min(wanting, kept[i]-d)
				}
				if p := base.Add(d); k.has(p) != there || k.wanting(p, 10) != wanting {
					rt.Fatalf("+%d of %v: %v, then %d are wanting", d, kept, k.has(p), k.wanting(p, 10))
				}
				if d := cmp.Diff(released, slices.Clone(r.env.Released)); len(released) != 0 && d != "" {
					rt.Fatalf("released (-want +got):\n%s", d)
				}
				released, r.env.Released = released[:0], r.env.Released[:0]
			},
		})
	})
}

// TestKeptMemory: what is kept takes memory by its number, wherever it lies, in however
// many queue pairs and whatever these had before.
func TestKeptMemory(t *testing.T) {
	const qps, budget = 1000, 256
	packet := int(reflect.TypeFor[wire.Packet]().Size())
	for _, tt := range []struct {
		name string
		play func(t *testing.T, r *keptRig)
		most int // that are kept together
	}{
		{"one far ahead in each", func(t *testing.T, r *keptRig) {
			for i := range qps {
				r.keep(t, i, budget)
			}
		}, qps},
		{"one is left in each of many", func(t *testing.T, r *keptRig) {
			for i := range qps {
				for p := range psn.PSN(budget) {
					r.keep(t, i, p+1)
				}
				for p := range psn.PSN(budget - 1) {
					r.qps[i].takeKept(&r.qps[i].resp.kept, p+1)
				}
			}
		}, qps + budget},
		{"one queue pair after the other has all", func(t *testing.T, r *keptRig) {
			for i := range qps {
				for p := psn.PSN(budget); p > 0; p-- {
					r.keep(t, i, p)
				}
				r.qps[i].releaseAllKept(&r.qps[i].resp.kept)
			}
		}, budget},
		{"as many in fewer and fewer queue pairs", func(t *testing.T, r *keptRig) {
			for n := 1; n <= budget; n *= 2 {
				for i := range qps / n {
					for p := range psn.PSN(n) {
						r.keep(t, i, p+1)
					}
				}
				for i := range qps / n {
					r.qps[i].releaseAllKept(&r.qps[i].resp.kept)
				}
			}
		}, qps},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newKeptRig(qps, budget)
			tt.play(t, r)
			for i := range r.qps {
				if bad := r.qps[i].resp.kept.broken(); bad != "" {
					t.Fatalf("queue pair %d: %s", i, bad)
				}
			}
			if n := r.bytes(); n < tt.most*packet || n > 2*tt.most*packet {
				t.Errorf("%d bytes for %d packets of %d each", n, tt.most, packet)
			}
			for i := range r.qps {
				r.qps[i].releaseAllKept(&r.qps[i].resp.kept)
			}
			before := r.bytes()
			tt.play(t, r)
			if after := r.bytes(); after != before {
				t.Errorf("%d bytes, and %d when the same is kept again", before, after)
			}
		})
	}
}

// TestKeptDoesNotAllocate: gaps as there were before take no memory of the heap.
func TestKeptDoesNotAllocate(t *testing.T) {
	const n = 100
	r := newKeptRig(2, 256)
	pkts := make([]*wire.Packet, n)
	for i := range pkts {
		pkts[i] = keptPacket(psn.PSN(i + 1))
	}
	kept := 0
	round := func() {
		for i := range r.qps {
			q := &r.qps[i]
			for j := range pkts {
				p := pkts[(j*37)%n] // all of them, in another order
				if q.keep(&q.resp.kept, 0, psnOf(p), p) {
					kept++
				}
			}
			for _, p := range pkts[:n/2] {
				q.takeKept(&q.resp.kept, psnOf(p))
			}
			q.leaveKept(&q.resp.kept, func(p psn.PSN) bool { return p&1 == 0 })
			q.releaseAllKept(&q.resp.kept)
		}
		r.env.Released = r.env.Released[:0]
	}
	if a := testing.AllocsPerRun(100, round); a != 0 {
		t.Errorf("%v allocations in a round", a)
	}
	if want := 101 * len(r.qps) * n; kept != want {
		t.Errorf("%d packets were kept, want %d", kept, want)
	}
}
