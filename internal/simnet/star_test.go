package simnet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// drainStar lists all frames as "time host number".
func drainStar(s *Star) (out []string) {
	for s.Next() != mono.Never {
		now := s.Next()
		for {
			to, frame, ok := s.Receive(now)
			if !ok {
				break
			}
			out = append(out, fmt.Sprintf("%v %d %d", now.Sub(0), to, binary.BigEndian.Uint64(frame)))
		}
	}
	return out
}

func TestStarDelivers(t *testing.T) {
	s := NewStar(1, 3, Conditions{Delay: 2 * us}, Conditions{Delay: 3 * us})
	frame := number(1)
	s.Send(0, 0, 2, frame)
	clear(frame)
	s.Send(mono.Time(0).Add(us), 2, 0, number(2))
	s.Send(mono.Time(0).Add(us), 1, 1, number(3)) // to itself, by the switch
	if s.InFlight() != 3 || s.Next().Sub(0) != 2*us {
		t.Errorf("%d in flight, next at %v", s.InFlight(), s.Next().Sub(0))
	}
	if _, _, ok := s.Receive(mono.Time(0).Add(2 * us)); ok {
		t.Error("a frame came without the way down")
	}
	if diff := cmp.Diff([]string{"5µs 2 1", "6µs 0 2", "6µs 1 3"}, drainStar(s)); diff != "" {
		t.Error(diff)
	}
	if up, down := s.Up(0), s.Down(2); up != (Stats{Sent: 1, Delivered: 1}) || down != up {
		t.Errorf("up %+v, down %+v", up, down)
	}
	if _, _, ok := s.Receive(mono.Never - 1); ok || s.InFlight() != 0 {
		t.Error("not empty")
	}
}

// Frames of many hosts to one meet in its queue: they leave in the order in which
// they reach the switch, at the port's rate, and others do not wait for them.
func TestStarQueue(t *testing.T) {
	const n = 4
	rate := Conditions{Rate: gbit}
	s := NewStar(1, n+2, rate, rate)
	big := func(i int) []byte { return append(number(i), make([]byte, 1226-8)...) } // 10 us
	for i := range n {
		s.Send(mono.Time(0).Add(time.Duration(n-i)*us), i, n, big(i))
	}
	s.Send(0, n, n+1, big(n)) // to another port
	got := drainStar(s)
	want := []string{"20µs 5 4", "21µs 4 3", "31µs 4 2", "41µs 4 1", "51µs 4 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The last finds what three others have not sent yet: 10, 9 and 8 us ago.
	if q := s.Down(n).MaxQueue; q != 1250*4-375 {
		t.Errorf("the queue grew to %d bytes, want %d", q, 1250*4-375)
	}
}

func TestStarOverflow(t *testing.T) {
	const n = 8
	s := NewStar(1, n+1, Conditions{}, Conditions{})
	s.SetDown(n, Conditions{Rate: gbit, Queue: 3 * 84})
	for i := range n {
		s.Send(0, i, n, number(i))
	}
	s.Receive(0)
	if q := s.Queue(0, n); q != 3*84 {
		t.Errorf("%d bytes wait", q)
	}
	if got := drainStar(s); len(got) != 3 {
		t.Errorf("%d came: %v", len(got), got)
	}
	if st := s.Down(n); st.Overflowed != n-3 || st.Sent != n || st.MaxQueue != 3*84 {
		t.Errorf("%+v", st)
	}
}

// A change of the conditions of one way is no change for another.
func TestStarWaysAreIndependent(t *testing.T) {
	bad := Conditions{Delay: us, Jitter: 5 * us, Drop: 0.2, Corrupt: 0.2}
	run := func(change func(*Star)) (toThird []string) {
		s := NewStar(3, 3, bad, bad)
		change(s)
		for i := range 200 {
			for from := range 2 {
				s.Send(mono.Time(0).Add(time.Duration(i)*50*us), from, 2-2*(i%2)*from, number(i))
			}
		}
		for s.Next() != mono.Never {
			now := s.Next()
			if to, frame, ok := s.Receive(now); ok && to == 2 {
				toThird = append(toThird, fmt.Sprintf("%v %x", now.Sub(0), frame))
			}
		}
		return toThird
	}
	same := run(func(*Star) {})
	if diff := cmp.Diff(same, run(func(s *Star) { s.SetDown(0, Conditions{}) })); diff != "" {
		t.Error(diff)
	}
	if slices.Equal(same, run(func(s *Star) { s.SetUp(0, Conditions{}) })) {
		t.Error("another way up made no difference")
	}
	if diff := cmp.Diff(same, run(func(*Star) {})); diff != "" {
		t.Error("not the same twice:", diff)
	}
}

func TestStarBacklog(t *testing.T) {
	s := NewStar(1, 2, Conditions{Rate: gbit}, Conditions{})
	s.Send(0, 0, 1, bytes.Repeat([]byte{1}, 1226))
	if a, b := s.Backlog(mono.Time(0).Add(4*us), 0), s.Backlog(0, 1); a != 750 || b != 0 {
		t.Errorf("%d and %d bytes wait", a, b)
	}
}
