package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long this process must have been kept from running to explain
// that one end took the other for gone.
const patience = 10 * time.Millisecond

// disturbance tells how long the machine has kept this process from running: the
// longest time that a goroutine slept too long, or what threads have waited for a
// CPU together.
type disturbance struct {
	longest atomic.Int64
	waited  time.Duration // when begun
}

// watchDisturbance watches until the end of the test.
func watchDisturbance(t *testing.T) *disturbance {
	s := &disturbance{}
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

// begin forgets what was.
func (s *disturbance) begin(t *testing.T) {
	s.longest.Store(0)
	s.waited = waitedForCPU(t)
}

// end is how much there was since begin.
func (s *disturbance) end(t *testing.T) time.Duration {
	return max(time.Duration(s.longest.Load()), waitedForCPU(t)-s.waited)
}

// waitedForCPU is how long the threads of this process were ready and did not
// run.
func waitedForCPU(t *testing.T) (sum time.Duration) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	must(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // a thread that has ended
		}
		must(t, err)
		var ran, waited, slices int64
		if _, err := fmt.Sscan(string(b), &ran, &waited, &slices); err != nil {
			t.Fatalf("%s: %q: %v", name, b, err)
		}
		sum += time.Duration(waited)
	}
	return sum
}

// undisturbed runs try until nothing goes wrong n times; try reports what has, and
// has nothing to report of itself. Something that goes wrong while nothing has
// kept the process from running is a failure, and so is too much of it.
func undisturbed(t *testing.T, what string, n int, try func() (wrong string)) {
	t.Helper()
	s := watchDisturbance(t)
	for left, disturbed := n, 0; left > 0; {
		s.begin(t)
		wrong := try()
		kept := s.end(t)
		if wrong == "" {
			left--
			continue
		}
		if kept < patience {
			t.Fatalf("%s: %s, and this process was kept from running for %v only", what, wrong, kept)
		}
		if disturbed++; disturbed > 10+2*n {
			t.Fatalf("%s: %d of %d times undisturbed only, lastly %s", what, n-left, n-left+disturbed, wrong)
		}
		t.Logf("%s: again, for this process was kept from running for %v: %s", what, kept, wrong)
	}
}
