package queue

import (
	"fmt"
	"sync/atomic"
)

// Values of the state word of a worker.
const (
	// WorkerAwake: it looks at all doorbells again before it sleeps.
	WorkerAwake = 0
	// WorkerAsleep: who rings a doorbell has to wake it.
	WorkerAsleep = 1
)

// MaxWorkers is the largest number of state words of one piece of memory.
const MaxWorkers = 64

// StateSize is how far state words are apart: they lie on cache lines of their own.
const StateSize = 128

// States are the state words of a device's workers, in memory that clients read:
// that of worker i is a u32 at offset 128*i.
//
// Who rings a doorbell looks at the word afterwards; a worker that goes to sleep
// writes the word and looks at the doorbells afterwards. So one of the two sees the
// other, and no wake-up is lost.
type States struct{ words []*atomic.Uint32 }

// StatesSize is the number of bytes that the state words of n workers need, 1 to
// MaxWorkers.
func StatesSize(n int) (int, error) {
	if n < 1 || n > MaxWorkers {
		return 0, fmt.Errorf("%w: %d workers (1 to %d)", ErrLayout, n, MaxWorkers)
	}
	return n * StateSize, nil
}

// NewStates makes the state words of n workers on the Go heap.
func NewStates(n int) (*States, error) {
	size, err := StatesSize(n)
	if err != nil {
		return nil, err
	}
	return OpenStates(alignedBytes(size), n)
}

// OpenStates views the state words of n workers in mem, which must be aligned to 8
// bytes and at least as large as StatesSize says. It may be memory that can only be
// read.
func OpenStates(mem []byte, n int) (*States, error) {
	size, err := StatesSize(n)
	switch {
	case err != nil:
		return nil, err
	case len(mem) < size:
		return nil, fmt.Errorf("%w: %d bytes of memory for the states of %d workers, %d needed", ErrLayout, len(mem), n, size)
	case !aligned(mem):
		return nil, fmt.Errorf("%w: memory is not aligned to 8 bytes", ErrLayout)
	}
	s := &States{words: make([]*atomic.Uint32, n)}
	for i := range s.words {
		s.words[i] = atomicAt(mem, i*StateSize)
	}
	return s, nil
}

// Workers is the number of state words.
func (s *States) Workers() int { return len(s.words) }

// Set is for the worker: it says whether it has to be woken.
func (s *States) Set(worker int, state uint32) { s.words[worker].Store(state) }

// Asleep reports whether the worker has to be woken. The caller has rung before.
func (s *States) Asleep(worker int) bool { return s.words[worker].Load() != WorkerAwake }
