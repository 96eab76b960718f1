package transport

import (
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// TestSRQMove: messages take receives while these are copied to another ring; each is
// taken once, in order.
func TestSRQMove(t *testing.T) {
	r := respShare(t, 1)[0]
	next, psn := uint64(0), 1000
	take := func(n int) {
		t.Helper()
		for range n {
			r.arrive(respSend(respStart.Add(psn-1000), nil)...)
			r.expectCompletions(respRecv(next, 0))
			next, psn = next+1, psn+1
		}
	}
	for i := range 8 {
		r.post(uint64(i), 0, 8)
	}
	take(1)
	ring := respRing(8, queue.RecvElemSize(ibv.MaxSGE))
	m, err := r.srq().StartMove(ring)
	if err != nil {
		t.Fatal(err)
	}
	take(2)
	m.Copy()
	take(1)
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	r.rq = queue.ResumeProducer(ring)
	r.expectPosted(4)
	r.post(8, 0, 8)
	take(5)
	r.expectPosted(0)
}

// TestSRQMoveOfAll: all that was copied has been taken meanwhile.
func TestSRQMoveOfAll(t *testing.T) {
	r := respShare(t, 1)[0]
	r.post(1, 0, 8)
	ring := respRing(4, queue.RecvElemSize(ibv.MaxSGE))
	m, err := r.srq().StartMove(ring)
	if err != nil {
		t.Fatal(err)
	}
	r.arrive(respSend(1000, nil)...)
	r.expectCompletions(respRecv(1, 0))
	m.Copy()
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	r.rq = queue.ResumeProducer(ring)
	r.expectPosted(0)
	for i := range 4 { // all places are free
		r.post(uint64(2+i), 0, 8)
	}
	r.arrive(respSend(1001, nil)...)
	r.expectCompletions(respRecv(2, 0))
}

// TestSRQMoveRefused: a producer that posts meanwhile, or spoils its index, keeps the
// ring that it has.
func TestSRQMoveRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		while func(*respRig)
	}{
		{"one more posted", func(r *respRig) { r.post(3, 0, 8) }},
		{"an index that cannot be", func(r *respRig) { r.rq.Publish(1000) }},
	} {
		r := respShare(t, 1)[0]
		r.post(1, 0, 8)
		r.post(2, 0, 8)
		m, err := r.srq().StartMove(respRing(8, queue.RecvElemSize(ibv.MaxSGE)))
		if err != nil {
			t.Fatal(err)
		}
		tt.while(r)
		before := r.srq().cons.Ring().Arm()
		m.Copy()
		if err := m.Finish(); !errors.Is(err, ErrResize) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if r.srq().cons.Ring().Arm() != before {
			t.Errorf("%s: another ring", tt.name)
		}
	}
}
