package netns

import (
	"bytes"
	"context"
	"sync"
)

// Await is a writer for the output of a program in another namespace: it waits
// until a text has been written.
type Await struct {
	text string
	seen chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
	hit bool
}

// NewAwait waits for a text.
func NewAwait(text string) *Await { return &Await{text: text, seen: make(chan struct{})} }

// Write keeps what is written.
func (a *Await) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out.Write(b)
	if !a.hit && bytes.Contains(a.out.Bytes(), []byte(a.text)) {
		a.hit = true
		close(a.seen)
	}
	return len(b), nil
}

// Wait returns when the text has been written, or ctx has ended.
func (a *Await) Wait(ctx context.Context) error {
	select {
	case <-a.seen:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// String is all that was written.
func (a *Await) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.String()
}
