package serve

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// starts runs work that waits until it is cancelled, as request seq.
func starts(t *testing.T, c *calls, seq uint32, began chan<- uint32, ended chan<- error) error {
	t.Helper()
	return c.start(t.Context(), seq, func(ctx context.Context) func() {
		began <- seq
		<-ctx.Done()
		return func() { ended <- ctx.Err() }
	})
}

func TestCallsTakeTurns(t *testing.T) {
	var c calls
	c.init()
	began, ended := make(chan uint32, maxPending), make(chan error, maxPending)
	for seq := range uint32(maxPending) {
		if err := starts(t, &c, seq, began, ended); err != nil {
			t.Fatal(err)
		}
	}
	if err := starts(t, &c, maxPending, began, ended); !errors.Is(err, ErrLimit) {
		t.Errorf("one more than there is room for: %v", err)
	}
	if err := starts(t, &c, 7, began, ended); !errors.Is(err, errProtocol) {
		t.Errorf("a number that is in use: %v", err)
	}
	running := map[uint32]bool{}
	for range maxRunning {
		running[<-began] = true
	}
	select {
	case seq := <-began:
		t.Errorf("request %d runs, and %d others", seq, maxRunning)
	default:
	}
	// One that runs ends, and so does one that waits, at once.
	c.cancel(maxPending + 5) // nobody's
	var waits uint32
	for running[waits] {
		waits++
	}
	c.cancel(waits)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it waited: %v", err)
	}
	for seq := range uint32(maxPending) {
		c.cancel(seq)
	}
	c.wait()
	if len(ended) != maxPending-1 {
		t.Errorf("%d ends, want %d", len(ended), maxPending-1)
	}
}

// When the client can know that a request has ended, its number is free.
func TestCallsForgetBeforeTheyReply(t *testing.T) {
	var c calls
	c.init()
	var again atomic.Int32
	for range 1000 {
		done := make(chan struct{})
		err := c.start(t.Context(), 1, func(context.Context) func() { return func() { close(done) } })
		if err != nil {
			again.Add(1)
			break
		}
		<-done
	}
	c.wait()
	if again.Load() != 0 {
		t.Error("the number was still in use")
	}
}

// The end of the session ends them all.
func TestCallsEndWithTheSession(t *testing.T) {
	var c calls
	c.init()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 100)
	for seq := range uint32(100) {
		err := c.start(ctx, seq, func(ctx context.Context) func() {
			<-ctx.Done()
			return func() { ended <- ctx.Err() }
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	c.wait()
	if len(ended) != 100 {
		t.Errorf("%d of 100 have ended", len(ended))
	}
}
