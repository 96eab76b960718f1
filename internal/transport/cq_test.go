package transport

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// cqRig is a completion queue with its consumer, and two workers that complete to
// it.
type cqRig struct {
	tb   rapid.TB
	cq   *CQ
	cons *queue.Consumer
	envs [2]*Env
	now  mono.Time
	next uint64 // work request of the next completion
}

func newCQRig(tb rapid.TB, entries int) *cqRig {
	ring := respRing(entries, queue.CQESize)
	return &cqRig{tb: tb, cq: NewCQ(ring), cons: queue.NewConsumer(ring), envs: [2]*Env{NewEnv(nil), NewEnv(nil)}, now: 1000}
}

func (r *cqRig) push(env int, status ibv.WCStatus, solicited bool) bool {
	ok := r.cq.push(r.envs[env], &queue.CQE{WRID: r.next, Status: status, Timestamp: int64(r.now)}, solicited)
	if ok {
		r.next++
	}
	return ok
}

func (r *cqRig) ring() *queue.Ring { return r.cons.Ring() }

// take polls at most n completions.
func (r *cqRig) take(n int) (ids []uint64) {
	avail, ok := r.cons.Avail()
	if !ok {
		r.tb.Fatal("the producer's index cannot be true")
	}
	for i := range min(n, avail) {
		var e queue.CQE
		queue.GetCQE(r.cons.Slot(i), &e)
		ids = append(ids, e.WRID)
	}
	r.cons.Release(len(ids))
	return ids
}

func (r *cqRig) resize(entries int) error {
	ring := respRing(entries, queue.CQESize)
	raise, err := ResizeCQ(r.cq, ring, entries)
	switch {
	case raise:
		r.tb.Fatal("an event that nobody asked for")
	case err == nil:
		r.cons = queue.NewConsumer(ring)
	}
	return err
}

// woken is how many events have been raised since the last call.
func (r *cqRig) woken() (n int) {
	for _, e := range r.envs {
		n += len(e.Woken)
		e.Woken = e.Woken[:0]
	}
	return n
}

func TestCQEvents(t *testing.T) {
	const bad = ibv.WCWRFlushErr
	for _, tt := range []struct {
		name      string
		arm       uint32
		status    ibv.WCStatus
		solicited bool
		want      int
	}{
		{"not armed", queue.ArmNone, ibv.WCSuccess, false, 0},
		{"not armed, solicited", queue.ArmNone, ibv.WCSuccess, true, 0},
		{"not armed, failed", queue.ArmNone, bad, false, 0},
		{"next", queue.ArmNext, ibv.WCSuccess, false, 1},
		{"next, solicited", queue.ArmNext, ibv.WCSuccess, true, 1},
		{"next, failed", queue.ArmNext, bad, false, 1},
		{"solicited only", queue.ArmSolicited, ibv.WCSuccess, false, 0},
		{"solicited only, solicited", queue.ArmSolicited, ibv.WCSuccess, true, 1},
		{"solicited only, failed", queue.ArmSolicited, bad, false, 1},
		{"unknown word", 77, bad, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newCQRig(t, 8)
			r.ring().Arm().Store(tt.arm)
			for range 3 { // one request, one event
				r.push(0, tt.status, tt.solicited)
			}
			if got := r.woken(); got != tt.want {
				t.Errorf("%d events, want %d", got, tt.want)
			}
			if armed := r.ring().Arm().Load() != queue.ArmNone; armed != (tt.want == 0 && tt.arm != queue.ArmNone) {
				t.Errorf("still armed: %v", armed)
			}
		})
	}
}

func TestCQOverflow(t *testing.T) {
	conformance.Rule(t, "14-9")
	r := newCQRig(t, 2)
	for i, want := range []bool{true, true, false, false} {
		if r.push(i%2, ibv.WCSuccess, false) != want {
			t.Fatalf("completion %d accepted: %v", i, !want)
		}
	}
	if diff := cmp.Diff([]uint64{0, 1}, r.take(9)); diff != "" {
		t.Error(diff)
	}
	if r.push(0, ibv.WCSuccess, false) {
		t.Error("a queue that has lost a completion takes another")
	}
	events := append(r.envs[0].Events, r.envs[1].Events...)
	if len(events) != 1 || events[0].Type != ibv.EventCQErr || events[0].CQ != r.cq || !r.cq.Overflowed() {
		t.Errorf("events %v, overflowed %v", events, r.cq.Overflowed())
	}
	if err := r.resize(16); !errors.Is(err, ErrResize) {
		t.Errorf("resize: %v", err)
	}
}

func TestCQResizeRefuses(t *testing.T) {
	r := newCQRig(t, 8)
	for range 5 {
		r.push(0, ibv.WCSuccess, false)
	}
	for _, tt := range []struct {
		name    string
		ring    *queue.Ring
		entries int
	}{
		{"too small", respRing(4, queue.CQESize), 4},
		{"room, but less was promised", respRing(8, queue.CQESize), 4},
		{"other elements", respRing(8, 128), 8},
	} {
		if _, err := ResizeCQ(r.cq, tt.ring, tt.entries); !errors.Is(err, ErrResize) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if diff := cmp.Diff([]uint64{0, 1, 2, 3, 4}, r.take(9)); diff != "" {
		t.Error(diff)
	}
	r.cons.Release(77) // what no consumer can have read
	if err := r.resize(16); !errors.Is(err, ErrResize) {
		t.Errorf("with corrupt indices: %v", err)
	}
}

// Completions come once, in order, and a request for an event is served once,
// however often the queue gets another size.
func TestCQResizeModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newCQRig(rt, rapid.IntRange(1, 9).Draw(rt, "entries"))
		taken, armed := uint64(0), false
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			queued := int(r.next - taken)
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				if room := queued < r.ring().Entries(); !room {
					break // an overflow would end the run
				}
				if !r.push(rapid.IntRange(0, 1).Draw(rt, "worker"), ibv.WCSuccess, false) {
					rt.Fatal("overflow with room")
				}
				if got := r.woken() == 1; got != armed {
					rt.Fatalf("event: %v, armed %v", got, armed)
				}
				armed = false
			case 1:
				for _, id := range r.take(rapid.IntRange(1, 4).Draw(rt, "poll")) {
					if id != taken {
						rt.Fatalf("completion %d, want %d", id, taken)
					}
					taken++
				}
			case 2:
				n := rapid.IntRange(1, 20).Draw(rt, "size")
				if err := r.resize(n); (err == nil) != (queued <= n) {
					rt.Fatalf("%d queued, resize to %d: %v", queued, n, err)
				}
			case 3:
				r.ring().Arm().Store(queue.ArmNext)
				armed = true
			}
		}
		if left := r.take(1 << 10); len(left) != int(r.next-taken) {
			rt.Fatalf("%d completions are left, want %d", len(left), r.next-taken)
		}
	})
}

func TestModeration(t *testing.T) {
	const us = time.Microsecond
	for _, tt := range []struct {
		name   string
		count  int
		period time.Duration
		at     []time.Duration // completions
		want   string          // events: the time, and how many completions there were
	}{
		{"none", 0, 0, []time.Duration{0, us}, "[0s:1 1µs:2]"},
		{"count of one", 1, 99 * us, []time.Duration{0, us}, "[0s:1 1µs:2]"},
		{"count", 3, 0, []time.Duration{0, us, 2 * us, 3 * us}, "[2µs:3]"},
		{"count first", 2, 10 * us, []time.Duration{0, 9 * us, 12 * us}, "[9µs:2 22µs:3]"},
		{"period first", 9, 10 * us, []time.Duration{0, 9 * us, 12 * us}, "[10µs:2 22µs:3]"},
		{"period alone", 0, 5 * us, []time.Duration{0, 1, 2, 3, 4, 6 * us}, "[5µs:5 11µs:6]"},
		{"at the very end", 2, 5 * us, []time.Duration{0, 5 * us}, "[5µs:1 10µs:2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newCQRig(t, 64)
			start := r.now
			r.cq.SetModeration(tt.count, tt.period)
			got := []string{}
			look := func() {
				for range r.woken() {
					got = append(got, fmt.Sprint(r.now.Sub(start), ":", r.next))
					r.ring().Arm().Store(queue.ArmNext)
				}
			}
			r.ring().Arm().Store(queue.ArmNext)
			expire := func(until mono.Time) {
				for i, e := range r.envs {
					for e.NextEvent() <= until {
						r.now = e.NextEvent()
						r.envs[i].Expire(r.now)
						look()
					}
				}
			}
			for i, d := range tt.at {
				expire(start.Add(d))
				r.now = start.Add(d)
				r.push(i%2, ibv.WCSuccess, false)
				look()
			}
			expire(mono.Never - 1)
			if diff := cmp.Diff(tt.want, fmt.Sprint(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Completions that ask for no event do not count.
func TestModerationCountsWhatAsks(t *testing.T) {
	r := newCQRig(t, 64)
	r.cq.SetModeration(2, 0)
	r.push(0, ibv.WCSuccess, true) // not armed
	r.ring().Arm().Store(queue.ArmSolicited)
	for i, tt := range []struct {
		status    ibv.WCStatus
		solicited bool
		want      int
	}{
		{ibv.WCSuccess, false, 0}, {ibv.WCSuccess, true, 0}, {ibv.WCSuccess, false, 0}, {ibv.WCWRFlushErr, false, 1},
		{ibv.WCWRFlushErr, false, 0},
	} {
		r.push(i%2, tt.status, tt.solicited)
		if got := r.woken(); got != tt.want {
			t.Errorf("completion %d: %d events, want %d", i, got, tt.want)
		}
	}
}

// An event that is held back comes with another setting, and when the queue
// overflows, as nothing else would bring it then.
func TestModerationLetsGo(t *testing.T) {
	r := newCQRig(t, 2)
	r.cq.SetModeration(9, 0)
	r.ring().Arm().Store(queue.ArmNext)
	r.push(0, ibv.WCSuccess, false)
	if !r.cq.SetModeration(9, time.Second) || r.cq.SetModeration(8, 0) {
		t.Error("want one event with the first change, none with the second")
	}
	if n, d := r.cq.Moderation(); n != 8 || d != 0 {
		t.Errorf("moderation is %d, %v", n, d)
	}
	r.ring().Arm().Store(queue.ArmNext)
	r.push(1, ibv.WCSuccess, false)
	if got := r.woken(); got != 0 {
		t.Fatalf("%d events", got)
	}
	r.push(1, ibv.WCSuccess, false) // one too many
	if got := r.woken(); got != 1 {
		t.Errorf("%d events with the overflow, want 1", got)
	}
}

// No event that was asked for is later than count completions or period after the
// first, nor earlier than one of these; whichever worker completes, whatever the
// settings were before.
func TestModerationModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newCQRig(rt, 4096)
		count, period, held, armed := 0, time.Duration(0), 0, false
		var due mono.Time
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			step := r.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "time")))
			for r.now < step {
				r.now++
				for _, e := range r.envs {
					if e.NextEvent() <= r.now {
						e.Expire(r.now)
					}
				}
				want := 0
				if held > 0 && period > 0 && due == r.now {
					want, held, armed = 1, 0, false
				}
				if got := r.woken(); got != want {
					rt.Fatalf("at %d: %d events, want %d (%d held until %d)", r.now, got, want, held, due)
				}
			}
			want, got := 0, 0
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				count, period = rapid.IntRange(0, 4).Draw(rt, "count"), time.Duration(rapid.IntRange(0, 12).Draw(rt, "period"))
				if held > 0 {
					want, held, armed = 1, 0, false
				}
				if r.cq.SetModeration(count, period) {
					got = 1
				}
			case 1, 2:
				r.ring().Arm().Store(queue.ArmNext)
				armed = true
			default:
				r.push(rapid.IntRange(0, 1).Draw(rt, "worker"), ibv.WCSuccess, false)
				if !armed {
					break
				}
				if held++; held == 1 {
					due = r.now.Add(period)
				}
				if count == 0 && period == 0 || held == count {
					want, held, armed = 1, 0, false
				}
			}
			if got += r.woken(); got != want {
				rt.Fatalf("at %d: %d events, want %d", r.now, got, want)
			}
		}
	})
}

func TestModerationDoesNotAllocate(t *testing.T) {
	r := newCQRig(t, 64)
	r.cq.SetModeration(8, 10)
	n := testing.AllocsPerRun(1000, func() {
		r.ring().Arm().Store(queue.ArmNext)
		r.push(0, ibv.WCSuccess, false)
		r.now += 11
		r.envs[0].Expire(r.now)
		r.envs[0].Woken = r.envs[0].Woken[:0]
		r.cons.Avail()
		r.cons.Release(1)
	})
	if n != 0 {
		t.Errorf("%v allocations for each event", n)
	}
}
