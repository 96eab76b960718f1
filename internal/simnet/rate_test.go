package simnet

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

const gbit = 1_000_000_000

// arrivalsOf are the times at which all frames under way arrive.
func arrivalsOf(l *Link) (at []time.Duration) {
	for l.Next() != mono.Never {
		at = append(at, l.Next().Sub(0))
		l.Receive(l.Next())
	}
	return at
}

func TestWireLen(t *testing.T) {
	for _, c := range []struct{ frame, want int }{{0, 84}, {59, 84}, {60, 84}, {61, 85}, {1514, 1538}} {
		if got := WireLen(c.frame); got != c.want {
			t.Errorf("a frame of %d bytes takes %d, want %d", c.frame, got, c.want)
		}
	}
}

// Frames leave one after the other, each in the time that its bits take.
func TestRate(t *testing.T) {
	l := NewLink(1, Conditions{Rate: gbit, Delay: 10 * us}, Conditions{Delay: us})
	l.Send(0, A, make([]byte, 1226)) // 1250 bytes on the wire: 10 us
	l.Send(0, A, make([]byte, 601))  // 625: 5 us
	l.Send(0, B, make([]byte, 1226)) // no rate
	l.Send(mono.Time(0).Add(15*us), A, make([]byte, 101))
	l.Send(mono.Time(0).Add(100*us), A, make([]byte, 101)) // finds the wire idle
	want := []time.Duration{us, 20 * us, 25 * us, 26 * us, 111 * us}
	if diff := cmp.Diff(want, arrivalsOf(l)); diff != "" {
		t.Error(diff)
	}
}

// The time of a long run does not depend on how it is cut into frames.
func TestRateDoesNotDrift(t *testing.T) {
	const rate = 97_777_777_777 // a frame takes no whole number of nanoseconds
	l := NewLink(1, Conditions{Rate: rate}, Conditions{})
	const n = 10_000
	for range n {
		l.Send(0, A, make([]byte, 60))
	}
	all := arrivalsOf(l)
	want := float64(n*84*8) / rate * 1e9
	if got := float64(all[n-1]); math.Abs(got-want) > 1 {
		t.Errorf("%d frames took %.1f ns, want %.1f", n, got, want)
	}
}

func TestBacklog(t *testing.T) {
	l := NewLink(1, Conditions{Rate: gbit}, Conditions{})
	for range 3 {
		l.Send(0, A, make([]byte, 1226))
	}
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{0, 3750}, {1, 3750}, {8, 3749}, {10 * us, 2500}, {30*us - 1, 1}, {30 * us, 0}, {time.Second, 0}} {
		if got := l.Backlog(mono.Time(0).Add(c.at), A); got != c.want {
			t.Errorf("after %v %d bytes wait, want %d", c.at, got, c.want)
		}
	}
	if got := l.Backlog(0, B); got != 0 {
		t.Errorf("%d bytes wait where nothing was sent", got)
	}
}

// What does not fit into the queue is lost, and takes no time of the wire.
func TestQueueOverflows(t *testing.T) {
	l := NewLink(1, Conditions{Rate: gbit, Queue: 3000}, Conditions{})
	for range 4 {
		l.Send(0, A, make([]byte, 1226)) // 1250: two fit
	}
	l.Send(0, A, make([]byte, 476))                       // 500: to the byte
	l.Send(0, A, nil)                                     // nothing fits any more
	l.Send(mono.Time(0).Add(20*us), A, make([]byte, 476)) // 500 of 3000 are left
	want := []time.Duration{10 * us, 20 * us, 24 * us, 28 * us}
	if diff := cmp.Diff(want, arrivalsOf(l)); diff != "" {
		t.Error(diff)
	}
	if s := l.Stats(A); s != (Stats{Sent: 7, Overflowed: 3, Delivered: 4, MaxQueue: 3000}) {
		t.Errorf("%+v", s)
	}
}

// Losses of a burst come in runs of the length that was asked for, as often as
// was asked for.
func TestBurst(t *testing.T) {
	const n = 100_000
	l := NewLink(4, Conditions{Burst: Burst{Begin: 0.01, End: 0.25, Drop: 1}}, Conditions{})
	sendAll(l, A, n)
	lost, runs, last := make([]bool, n), 0, false
	for i := range lost {
		lost[i] = true
	}
	for l.Next() != mono.Never {
		lost[l.Next().Sub(0)/us] = false
		l.Receive(l.Next())
	}
	total := 0
	for _, is := range lost {
		if is {
			total++
			if !last {
				runs++
			}
		}
		last = is
	}
	if uint64(total) != l.Stats(A).Dropped {
		t.Errorf("%d lost, %d counted", total, l.Stats(A).Dropped)
	}
	if mean := float64(total) / float64(runs); mean < 3.5 || mean > 4.5 {
		t.Errorf("runs of %.2f frames, want about 4", mean)
	}
	if share := float64(total) / n; share < 0.034 || share > 0.043 { // 0.01/(0.01+0.25)
		t.Errorf("%.3f of the frames lost, want about 0.038", share)
	}
}

// Rates, queues, marks and bursts leave the fates that chance draws as they were.
func TestQueueDrawsApart(t *testing.T) {
	run := func(c Conditions) uint64 {
		c.Drop = 0.3
		l := NewLink(6, c, Conditions{})
		sendAll(l, A, 1000)
		return l.Stats(A).Dropped
	}
	plain := run(Conditions{})
	for name, c := range map[string]Conditions{
		"rate":  {Rate: gbit},
		"marks": {Rate: gbit, Mark: Marking{Kmin: 1, Kmax: 10_000, Pmax: 0.5}},
		"burst": {Burst: Burst{Begin: 0.5, End: 0.5}}, // that loses nothing
	} {
		if got := run(c); got != plain {
			t.Errorf("%s: %d frames dropped, %d without", name, got, plain)
		}
	}
}
