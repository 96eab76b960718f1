package serve

import (
	"context"
	"fmt"
	"sync"
)

// How many requests of a client that take long are executed at a time, and how many
// more wait for their turn.
const (
	maxRunning = 32
	maxPending = 2048
)

// calls are the requests of a client that have goroutines of their own.
type calls struct {
	turns   chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	bySeq map[uint32]context.CancelFunc
}

func (c *calls) init() {
	c.turns = make(chan struct{}, maxRunning)
	c.bySeq = map[uint32]context.CancelFunc{}
}

// start runs work in a goroutine, in its turn or when it is cancelled before that,
// and then what work returns. By then its number is free again, before the client can
// know that the request has ended.
func (c *calls) start(parent context.Context, seq uint32, work func(ctx context.Context) (reply func())) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, taken := c.bySeq[seq]; {
	case taken:
		return fmt.Errorf("%w: request %d is still being executed", errProtocol, seq)
	case len(c.bySeq) >= maxPending:
		return fmt.Errorf("%w: %d requests wait for peers already: try again when some have ended", ErrLimit, maxPending)
	}
	ctx, cancel := context.WithCancel(parent)
	c.bySeq[seq] = cancel
	c.running.Go(func() {
		defer cancel()
		select {
		case c.turns <- struct{}{}:
			defer func() { <-c.turns }()
		case <-ctx.Done():
		}
		reply := work(ctx)
		c.forget(seq)
		reply()
	})
	return nil
}

func (c *calls) forget(seq uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.bySeq, seq)
}

// cancel ends a request early, if it still runs.
func (c *calls) cancel(seq uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.bySeq[seq]; cancel != nil {
		cancel()
	}
}

// wait returns when nothing runs any more.
func (c *calls) wait() { c.running.Wait() }
