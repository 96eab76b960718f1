package datapath

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// modelLane is a lane as the model of a round sees it.
type modelLane struct {
	lane  *lane
	qps   []*qp // that want to transmit, in order
	until mono.Time
}

// TestRound: lanes take turns, in a lane its queue pairs do, one that rests has none
// until its time has come.
func TestRound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var r round
		now := mono.Time(1)
		lanes := make([]*modelLane, rapid.IntRange(1, 4).Draw(rt, "lanes"))
		var order []*modelLane // whose turn is when
		var qps []*qp
		for i := range lanes {
			lanes[i] = &modelLane{lane: newLane()}
			for range rapid.IntRange(1, 20).Draw(rt, "queue pairs") {
				qps = append(qps, &qp{num: uint32(len(qps)), slot: i, lane: lanes[i].lane})
			}
		}
		enter := func(m *modelLane) {
			if m.until == 0 && len(m.qps) != 0 && !slices.Contains(order, m) {
				order = append(order, m)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				q := rapid.SampledFrom(qps).Draw(rt, "q")
				m := lanes[q.slot]
				if !slices.Contains(m.qps, q) {
					m.qps = append(m.qps, q)
				}
				r.push(q)
				enter(m)
			},
			"pop": func(rt *rapid.T) {
				got := r.pop()
				if len(order) == 0 {
					if got != nil {
						rt.Fatalf("queue pair %d has a turn that nobody wanted", got.num)
					}
					return
				}
				m := order[0]
				order = order[1:]
				if got != m.qps[0] {
					rt.Fatalf("the turn is %v's, want %d's", got, m.qps[0].num)
				}
				m.qps = m.qps[1:]
				enter(m)
			},
			"rest": func(rt *rapid.T) {
				m := rapid.SampledFrom(lanes).Draw(rt, "lane")
				m.until = now + mono.Time(rapid.IntRange(1, 9).Draw(rt, "time"))
				r.rest(m.lane, m.until)
				order = slices.DeleteFunc(order, func(o *modelLane) bool { return o == m })
			},
			"rise": func(rt *rapid.T) {
				now += mono.Time(rapid.IntRange(0, 5).Draw(rt, "time"))
				var risen []*modelLane
				for l := r.resting; l != nil; l = l.next { // their order is nobody's business
					if i := slices.IndexFunc(lanes, func(m *modelLane) bool { return m.lane == l }); lanes[i].until <= now {
						risen = append(risen, lanes[i])
					}
				}
				r.rise(now)
				for _, m := range risen {
					m.until = 0
					enter(m)
				}
			},
			"": func(rt *rapid.T) {
				n, first := 0, mono.Never
				for _, m := range lanes {
					if m.until == 0 {
						n += len(m.qps)
					} else if len(m.qps) != 0 {
						first = mono.Min(first, m.until)
					}
				}
				if r.n != n || r.nextRise() != first {
					rt.Fatalf("%d have turns, the next rises at %d; want %d, %d", r.n, r.nextRise(), n, first)
				}
			},
		})
	})
}

// TestDoorbellsAreReused: a client has as many queue pairs as doorbells, whichever of
// them come and go.
func TestDoorbellsAreReused(t *testing.T) {
	b, err := queue.NewBells(3)
	must(t, err)
	d := doorbells{bells: b}
	qps := make([]*qp, 3)
	for i := range qps {
		qps[i] = &qp{slot: noSlot}
		if !d.hang(qps[i]) {
			t.Fatalf("no doorbell for queue pair %d of 3", i)
		}
	}
	late := &qp{slot: noSlot}
	if d.hang(late) {
		t.Fatalf("a fourth doorbell: %d", late.slot)
	}
	d.unhang(late) // which has none
	d.unhang(qps[1])
	if !d.hang(late) || late.slot != 1 || d.slots[1] != late || d.hang(&qp{}) {
		t.Errorf("doorbell %d, want 1, and no other", late.slot)
	}
}

func TestPace(t *testing.T) {
	if newPace(0, 0) != nil {
		t.Error("a pace without a bound")
	}
	const at = mono.Time(1e9)
	for _, tt := range []struct {
		name               string
		messages, bytes    uint64 // a second
		sent, size, number int    // packets of a message each, their bytes, and how many turns of these
		want               time.Duration
	}{
		{"bytes within the burst", 0, 1e6, 1, 10_000, 1, 0},
		{"bytes beyond", 0, 1e6, 1, 11_000, 1, time.Millisecond},
		{"messages within the burst", 1000, 0, 10, 8, 1, 0},
		{"messages beyond", 1000, 0, 1, 8, 15, 5 * time.Millisecond},
		{"both", 1000, 1e6, 1, 1000, 10, 10 * time.Millisecond},
		{"fast", 0, 125e9, 1, 4096, 3000, 0},
		{"faster than can be counted", 1 << 63, 1 << 63, 1, 4096, 3000, 0},
	} {
		p := newPace(tt.messages, tt.bytes)
		var until mono.Time
		for range tt.number {
			until = p.spend(at, tt.sent, tt.size*tt.sent)
		}
		got := time.Duration(0)
		if until != 0 {
			got = until.Sub(at)
		}
		if got/time.Millisecond != tt.want/time.Millisecond {
			t.Errorf("%s: nothing more for %v, want %v", tt.name, got, tt.want)
		}
		if p.spend(at+1e12, 0, 0) != 0 {
			t.Errorf("%s: the time is used up long after", tt.name)
		}
	}
}
