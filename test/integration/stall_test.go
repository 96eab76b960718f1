package integration_test

import (
	"sync/atomic"
	"testing"
	"time"
)

// longStall is how late a goroutine must be that slept for a millisecond to say
// that the machine has other things to do: several of these in a row make a peer
// on the same machine seem to be gone.
const longStall = 15 * time.Millisecond

// stalls watches until the end of the test for how long the machine keeps this
// process from running.
type stalls struct{ longest atomic.Int64 }

func watchStalls(t *testing.T) *stalls {
	s := &stalls{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			now := time.Now()
			if d := int64(now.Sub(last)); d > s.longest.Load() {
				s.longest.Store(d)
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return s
}

// take is the longest stall since the last call.
func (s *stalls) take() time.Duration { return time.Duration(s.longest.Swap(0)) }

// undisturbed runs try until nothing goes wrong n times; try reports what has, and
// has nothing to report of itself. Something that goes wrong while nothing has
// kept the process from running is a failure, and so is too much of it.
func undisturbed(t *testing.T, what string, n int, try func() (wrong string)) {
	t.Helper()
	s := watchStalls(t)
	for left, disturbed := n, 0; left > 0; {
		s.take()
		wrong := try()
		stall := s.take()
		if wrong == "" {
			left--
			continue
		}
		if stall < longStall {
			t.Fatalf("%s: %s, and the longest stall of this process was %v", what, wrong, stall)
		}
		if disturbed++; disturbed > 10+2*n {
			t.Fatalf("%s: %d of %d times undisturbed only, lastly %s", what, n-left, n-left+disturbed, wrong)
		}
		t.Logf("%s: again, for this process stood still for %v: %s", what, stall, wrong)
	}
}
