package serve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Kinds of objects, the upper half of handles: one of the wrong kind names nothing.
const (
	kindQP uint64 = (iota + 1) << 32
	kindCQ
	kindSRQ
	kindMR
	kindMW
	kindFast
	kindBuffer
)

// table has a client's objects of a kind. Handles count up and are never used
// again: one that is gone names nothing. How many there may be, the namespace says.
type table[T any] struct {
	kind uint64
	what string // "queue pair"

	mu   sync.Mutex
	objs map[uint64]T
	next uint32
}

func newTable[T any](kind uint64, what string) *table[T] {
	return &table[T]{kind: kind, what: what, objs: map[uint64]T{}}
}

// add gives an object a handle. A client that has used all of them up gets none.
func (t *table[T]) add(v T) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == ^uint32(0) {
		return 0, fmt.Errorf("%w: every handle of a %s has been used: connect again", ErrLimit, t.what)
	}
	t.next++
	h := t.kind | uint64(t.next)
	t.objs[h] = v
	return h, nil
}

// get is the object of a handle.
func (t *table[T]) get(h uint64) (v T, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.objs[h]
	if !ok {
		return v, fmt.Errorf("%w: handle %#x names no %s of this client", verbs.ErrInvalid, h, t.what)
	}
	return v, nil
}

// set puts another object in the place of one, if that is still there.
func (t *table[T]) set(h uint64, v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.objs[h]; ok {
		t.objs[h] = v
	}
}

// drop takes a handle away.
func (t *table[T]) drop(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objs, h)
}

func (t *table[T]) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.objs)
}

// each calls f for all objects in the order of their handles, without holding them.
func (t *table[T]) each(f func(h uint64, v T)) {
	t.mu.Lock()
	handles := make([]uint64, 0, len(t.objs))
	for h := range t.objs {
		handles = append(handles, h)
	}
	t.mu.Unlock()
	slices.Sort(handles)
	for _, h := range handles {
		if v, err := t.get(h); err == nil {
			f(h, v)
		}
	}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", verbs.ErrInvalid, fmt.Sprintf(format, args...))
}
