package cm

import (
	"context"
	"sync"
)

// mailbox is a queue without a limit of its own: who fills it is limited.
type mailbox[T any] struct {
	mu     sync.Mutex
	list   []T
	closed error
	some   chan struct{} // has an element while a reader may find something
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{some: make(chan struct{}, 1)} }

func (m *mailbox[T]) signal() {
	select {
	case m.some <- struct{}{}:
	default:
	}
}

// put adds v. It reports false when the mailbox is closed.
func (m *mailbox[T]) put(v T) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed != nil {
		return false
	}
	m.list = append(m.list, v)
	m.signal()
	return true
}

// take removes the oldest. The error is why there will be none any more.
func (m *mailbox[T]) take() (v T, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == 0 {
		if m.closed != nil {
			m.signal() // for the next reader
		}
		return v, false, m.closed
	}
	v = m.list[0]
	var none T
	m.list[0] = none
	m.list = m.list[1:]
	if len(m.list) > 0 {
		m.signal()
	}
	return v, true, nil
}

// next waits for the oldest.
func (m *mailbox[T]) next(ctx context.Context) (T, error) {
	for {
		if v, ok, err := m.take(); ok || err != nil {
			return v, err
		}
		select {
		case <-m.some:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

// close has readers fail with err, at once, and returns what they have not read.
func (m *mailbox[T]) close(err error) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.list
	m.list = nil
	if m.closed == nil {
		m.closed = err
	}
	m.signal()
	return left
}
