package transport

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// TestCQMoveModel: completions come once, in order, and a request for an event is
// served once, whatever comes between the steps of a move.
func TestCQMoveModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newCQRig(rt, rapid.IntRange(1, 9).Draw(rt, "entries"))
		taken, armed := uint64(0), false
		complete := func(what string, room int) {
			for range rapid.IntRange(0, room).Draw(rt, what) {
				if !r.push(rapid.IntRange(0, 1).Draw(rt, "worker"), ibv.WCSuccess, false) {
					rt.Fatal("overflow with room")
				}
				if got := r.woken() == 1; got != armed {
					rt.Fatalf("event: %v, armed %v", got, armed)
				}
				armed = false
			}
		}
		for range rapid.IntRange(1, 20).Draw(rt, "moves") {
			complete("before", r.ring().Entries()-int(r.next-taken))
			for _, id := range r.take(rapid.IntRange(0, 9).Draw(rt, "poll")) {
				if id != taken {
					rt.Fatalf("completion %d, want %d", id, taken)
				}
				taken++
			}
			if rapid.Bool().Draw(rt, "arm") {
				r.ring().Arm().Store(queue.ArmNext)
				armed = true
			}
			n := rapid.IntRange(1, 20).Draw(rt, "size")
			ring, queued := respRing(n, queue.CQESize), int(r.next-taken)
			m, err := r.cq.StartMove(ring, n)
			if (err == nil) != (queued <= n) {
				rt.Fatalf("%d queued, move to %d: %v", queued, n, err)
			}
			if err != nil {
				continue // and the next round finds all as it was
			}
			complete("while it starts", ring.Entries()-int(r.next-taken))
			m.Copy()
			complete("while it ends", ring.Entries()-int(r.next-taken))
			if m.Finish() {
				rt.Fatal("an event that nobody asked for")
			}
			r.cons = queue.NewConsumer(ring)
		}
		for _, id := range r.take(1 << 10) {
			if id != taken {
				rt.Fatalf("completion %d, want %d", id, taken)
			}
			taken++
		}
		if taken != r.next {
			rt.Fatalf("%d completions came, want %d", taken, r.next)
		}
	})
}

// TestCQMoveUnderWorkers: workers complete without a pause while a large queue moves
// again and again; what each has completed comes once and in order.
func TestCQMoveUnderWorkers(t *testing.T) {
	const each, most = 20000, 1 << 16
	r := newCQRig(t, most)
	var workers sync.WaitGroup
	for i, e := range r.envs {
		workers.Go(func() {
			for id := range uint64(each) {
				if !r.cq.push(e, &queue.CQE{WRID: id, QPN: uint32(i)}, false) {
					t.Error("overflow with room")
					return
				}
			}
		})
	}
	var next [2]uint64
	moves := 0
	for ended := false; !ended; moves++ {
		if moves > 10 { // so that those after the last completion are tried, too
			workers.Wait()
			ended = true
		}
		if err := r.resize(most + moves); err != nil {
			t.Fatal(err)
		}
		n := 300 // less than there come, so that there is something to move
		if ended {
			n = most
		}
		avail, _ := r.cons.Avail()
		for i := range min(n, avail) {
			var c queue.CQE
			queue.GetCQE(r.cons.Slot(i), &c)
			if c.WRID != next[c.QPN] {
				t.Fatalf("completion %d of worker %d, want %d", c.WRID, c.QPN, next[c.QPN])
			}
			next[c.QPN]++
		}
		r.cons.Release(min(n, avail))
	}
	if next != [2]uint64{each, each} {
		t.Errorf("completions that came: %d, want %d each", next, each)
	}
}

// TestCQMoveLateRequest: a consumer that asks for an event while the queue moves gets
// it, at once if what it waits for may have come.
func TestCQMoveLateRequest(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile int // completions
		want      bool
	}{
		{"nothing has come", 0, false},
		{"something has", 1, true},
	} {
		r := newCQRig(t, 8)
		r.push(0, ibv.WCSuccess, false)
		ring := respRing(16, queue.CQESize)
		m, err := r.cq.StartMove(ring, 16)
		if err != nil {
			t.Fatal(err)
		}
		r.ring().Arm().Store(queue.ArmSolicited)
		for range tt.meanwhile {
			r.push(1, ibv.WCSuccess, true)
		}
		m.Copy()
		if raise := m.Finish(); raise != tt.want {
			t.Errorf("%s: event %v", tt.name, raise)
		}
		r.push(0, ibv.WCSuccess, true)
		if later := r.woken() == 1; later == tt.want {
			t.Errorf("%s: an event with the next completion: %v", tt.name, later)
		}
	}
}

// TestCQMoveHostile: a consumer that does not stand still, and writes into both rings,
// gets nonsense, and does nothing to others.
func TestCQMoveHostile(t *testing.T) {
	r := newCQRig(t, 8)
	for range 5 {
		r.push(0, ibv.WCSuccess, false)
	}
	ring := respRing(8, queue.CQESize)
	m, err := r.cq.StartMove(ring, 8)
	if err != nil {
		t.Fatal(err)
	}
	r.cons.Release(77)                       // what cannot have been read of the old one,
	queue.NewConsumer(ring).Release(1 << 20) // and of the new one
	m.Copy()
	m.Finish()
	for range ring.Entries() {
		r.push(0, ibv.WCSuccess, false)
	}
	if !r.cq.Overflowed() {
		t.Error("the queue goes on with indices that cannot be")
	}
	if _, err := r.cq.StartMove(respRing(8, queue.CQESize), 8); !errors.Is(err, ErrResize) {
		t.Errorf("another move: %v", err)
	}
}
