package datapath

import (
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestPublishStates: the words are true wherever they are, and nothing is written to
// where they were.
func TestPublishStates(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2, sleepDeep: true})
	size, err := queue.StatesSize(r.a.Workers())
	must(t, err)
	if err := r.a.PublishStates(make([]byte, size-1), nil); !errors.Is(err, queue.ErrLayout) {
		t.Errorf("too little memory: %v", err)
	}
	asleep := func(mem []byte) bool {
		s, err := queue.OpenStates(mem, r.a.Workers())
		must(t, err)
		for end := time.Now().Add(verbstest.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if s.Asleep(0) && s.Asleep(1) {
				return true
			}
		}
		return false
	}
	var published [2][]byte
	released := 0
	for i := range published {
		published[i] = make([]byte, size)
		must(t, r.a.PublishStates(published[i], func() error { released++; return nil }))
		if !asleep(published[i]) {
			t.Fatalf("memory %d: the workers are awake", i)
		}
	}
	must(t, r.a.PublishStates(nil, nil))
	if released != 2 {
		t.Errorf("memory was released %d times, want 2", released)
	}
	clear(published[1])
	p := r.pair(verbstest.Options{})
	for range 10 {
		must(t, write(p.A, p.B, 8))
	}
	for i, b := range published[1] {
		if b != 0 {
			t.Fatalf("byte %d was written after the memory was given back", i)
		}
	}
	must(t, r.a.PublishStates(published[0], func() error { released++; return nil }))
	must(t, r.a.Close())
	if released != 3 {
		t.Error("the memory was not released with the device")
	}
	if err := r.a.PublishStates(published[0], nil); !errors.Is(err, ErrClosed) {
		t.Errorf("publish of a device that is closed: %v", err)
	}
}
