package datapath

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// TestTimerHeap compares the heap with a list: expired queue pairs come in the
// order of their keys, and keys only ever move forward in time by expiring.
func TestTimerHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		qps := make([]*qp, rapid.IntRange(1, 40).Draw(t, "n"))
		want := map[*qp]mono.Time{}
		for i := range qps {
			qps[i] = &qp{num: uint32(i), timerPos: noTimer}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			q := qps[rapid.IntRange(0, len(qps)-1).Draw(t, "qp")]
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				at := mono.Time(rapid.Int64Range(1, 50).Draw(t, "at"))
				h.set(q, at)
				if old, ok := want[q]; !ok || at < old {
					want[q] = at
				}
			case 2:
				h.remove(q)
				delete(want, q)
			case 3:
				now := mono.Time(rapid.Int64Range(1, 50).Draw(t, "now"))
				for e := h.expired(now); e != nil; e = h.expired(now) {
					if k, ok := want[e]; !ok || k > now || k != earliest(want) {
						t.Fatalf("queue pair %d expired at %d: key %d, %v; earliest %d", e.num, now, k, ok, earliest(want))
					}
					delete(want, e)
				}
				if k := earliest(want); k <= now {
					t.Fatalf("a key of %d did not expire at %d", k, now)
				}
			}
			if got := h.next(); got != earliest(want) {
				t.Fatalf("next is %d, want %d", got, earliest(want))
			}
		}
	})
}

func earliest(m map[*qp]mono.Time) mono.Time {
	first := mono.Never
	for _, at := range m {
		first = mono.Min(first, at)
	}
	return first
}

func TestTimerHeapNeverIsNoTimer(t *testing.T) {
	var h timerHeap
	q := &qp{timerPos: noTimer}
	h.set(q, mono.Never)
	if q.timerPos != noTimer || h.next() != mono.Never {
		t.Error("Never was queued")
	}
	h.set(q, 5)
	h.set(q, mono.Never) // looked at again when 5 has come
	if h.next() != 5 {
		t.Errorf("next is %d, want 5", h.next())
	}
}

// TestPostedListConcurrent: what several goroutines post is taken, at least once
// after its last posting, and never twice at a time.
func TestPostedListConcurrent(t *testing.T) {
	const posters, rounds = 4, 5000
	var l postedList
	type work struct {
		q    *qp
		made chan int // tickets published before the push
	}
	works := make([]work, posters)
	var wg sync.WaitGroup
	for i := range works {
		works[i] = work{q: &qp{num: uint32(i)}, made: make(chan int, rounds)}
		wg.Go(func() {
			for n := range rounds {
				works[i].made <- n
				l.push(works[i].q)
			}
		})
	}
	got := 0
	drain := func() {
		for q := l.take(); q != nil; {
			next := nextOf(q)
			for made := works[q.num].made; len(made) > 0; got++ {
				<-made
			}
			q = next
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		drain()
	}
	drain()
	if got != posters*rounds {
		t.Errorf("%d of %d tickets seen", got, posters*rounds)
	}
}

func TestPostedListKeepsOrder(t *testing.T) {
	var l postedList
	qps := []*qp{{num: 1}, {num: 2}, {num: 3}}
	for _, q := range qps {
		l.push(q)
		l.push(q) // counts once
	}
	var got []uint32
	for q := l.take(); q != nil; q = nextOf(q) {
		got = append(got, q.num)
	}
	if !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("taken %v", got)
	}
	if l.take() != nil {
		t.Error("the list is not empty after take")
	}
}

func TestTurns(t *testing.T) {
	var r turns
	r.reserve(3)
	qps := make([]*qp, 40)
	for i := range qps {
		qps[i] = &qp{num: uint32(i)}
	}
	r.push(qps[0])
	r.push(qps[1])
	r.push(qps[0]) // waits already
	if q := r.pop(); q != qps[0] || r.n != 1 {
		t.Fatalf("popped %d, %d left", q.num, r.n)
	}
	for i := 2; i < 16; i++ { // wraps
		r.push(qps[i])
	}
	r.reserve(len(qps))
	for _, q := range qps[16:] {
		r.push(q)
	}
	for _, want := range qps[1:] {
		if q := r.pop(); q != want {
			t.Fatalf("popped %d, want %d", q.num, want.num)
		}
	}
	if r.n != 0 {
		t.Errorf("%d left", r.n)
	}
}

func TestSPSC(t *testing.T) {
	q := newSPSC[int](5)
	if len(q.buf) != 8 {
		t.Fatalf("%d elements for 5", len(q.buf))
	}
	for round := range 30 { // wraps
		if !q.room(8) || q.room(9) {
			t.Fatalf("round %d: room for 8: %v, for 9: %v", round, q.room(8), q.room(9))
		}
		for i := range 5 {
			q.add(round*10 + i)
		}
		if q.avail() != 0 {
			t.Fatal("seen before it was published")
		}
		q.publish()
		if q.avail() != 5 || q.room(4) {
			t.Fatalf("%d available, room for 4: %v", q.avail(), q.room(4))
		}
		for i := range 5 {
			if q.at(i) != round*10+i {
				t.Fatalf("element %d is %d", i, q.at(i))
			}
		}
		q.release(5)
	}
}

func TestSPSCConcurrent(t *testing.T) {
	const n = 100_000
	q := newSPSC[uint32](64)
	go func() {
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := uint32(0); i < n; {
			k := 1 + rnd.IntN(10)
			if !q.room(k) {
				continue
			}
			for range k {
				q.add(i)
				i++
			}
			q.publish()
		}
	}()
	for want := uint32(0); want < n; {
		avail := q.avail()
		for i := range avail {
			if q.at(i) != want {
				t.Fatalf("got %d, want %d", q.at(i), want)
			}
			want++
		}
		q.release(avail)
	}
}

func TestTxPool(t *testing.T) {
	s := newShare(&Options{FrameSize: 4096, Frames: 256, RingSize: 64})
	if s.slotFrames != 2 || s.slots != 32 || s.frames() != 256+64 {
		t.Fatalf("share %+v", s)
	}
	const worker = 3
	p := newTxPool(&s, worker)
	first := p.get()
	if want := worker*s.perWorker + s.rxBytes; first != want {
		t.Errorf("first slot at %d, want %d", first, want)
	}
	p.use(first, 2)
	if !p.done(first) || p.busy() != 1 {
		t.Errorf("half done: %d busy", p.busy())
	}
	if !p.done(first+4096) || p.busy() != 0 {
		t.Errorf("done: %d busy", p.busy())
	}
	for _, addr := range []uint64{first, first - 1, 0, first + uint64(s.slots)*p.slotSize} {
		if p.done(addr) {
			t.Errorf("completion of %d, which was not sent, was taken", addr)
		}
	}
	seen := map[uint64]bool{}
	for range s.slots {
		a := p.get()
		if seen[a] || a < worker*s.perWorker+s.rxBytes || a+p.slotSize > (worker+1)*s.perWorker {
			t.Fatalf("slot at %d", a)
		}
		seen[a] = true
	}
	if len(p.free) != 0 {
		t.Errorf("%d free after all were taken", len(p.free))
	}
	p.cancel(first)
	if p.busy() != s.slots-1 {
		t.Errorf("%d busy after one was cancelled", p.busy())
	}
}

func TestShareHoldsTheLargestFrame(t *testing.T) {
	for _, size := range []int{2048, 4096} {
		s := newShare(&Options{FrameSize: size, Frames: 256, RingSize: 64})
		if s.slotFrames*size < maxFrame {
			t.Errorf("%d frames of %d bytes do not hold %d", s.slotFrames, size, maxFrame)
		}
		if s.slots < 1 || s.slots*s.slotFrames > 64 {
			t.Errorf("%d slots of %d frames for a ring of 64", s.slots, s.slotFrames)
		}
	}
}
