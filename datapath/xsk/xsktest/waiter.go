package xsktest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// States of a waiter.
const (
	awake uint32 = iota
	sleeping
	woken
)

// Waiter is an xsk.Waiter for ports. It waits on a channel and a timer only,
// so it sleeps durably in a testing/synctest bubble in which it was made.
type Waiter struct {
	ports  []*Port
	bell   chan struct{}
	done   chan struct{}
	timer  *time.Timer
	state  atomic.Uint32
	closed atomic.Bool

	mu      sync.Mutex
	watched map[int]*watch // by descriptor
}

var _ xsk.Waiter = (*Waiter)(nil)

// NewWaiter returns a waiter for ports. A port has one waiter at a time: the
// latest.
func NewWaiter(ports ...*Port) *Waiter {
	w := &Waiter{watched: map[int]*watch{}, ports: ports, bell: make(chan struct{}, 1), done: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	w.timer.Stop()
	for _, p := range ports {
		p.waiter.Store(w)
	}
	return w
}

// Sleep waits for something to receive, for Wake, or for d.
func (w *Waiter) Sleep(d time.Duration) (bool, error) {
	if w.closed.Load() {
		return false, errClosed
	}
	if !w.state.CompareAndSwap(awake, sleeping) {
		if w.state.CompareAndSwap(woken, awake) {
			return true, nil
		}
		return false, fmt.Errorf("%w: another goroutine sleeps on this waiter", xsk.ErrInUse)
	}
	ready, err := w.block(d)
	return w.state.Swap(awake) == woken || ready, err
}

func (w *Waiter) block(d time.Duration) (bool, error) {
	var expired <-chan time.Time
	if d > 0 {
		w.timer.Reset(d)
		defer w.timer.Stop()
		expired = w.timer.C
	}
	// Each turn looks after the bell was emptied, so that a bell left over
	// from an earlier sleep costs a turn and nothing is missed.
	for {
		if w.avail() || w.state.Load() == woken {
			return true, nil
		}
		if d == 0 {
			return false, nil
		}
		select {
		case <-w.bell:
		case <-expired:
			return w.avail(), nil
		case <-w.done:
			return false, errClosed
		}
	}
}

func (w *Waiter) avail() bool {
	for _, p := range w.ports {
		if p.rx.user.Ready() {
			return true
		}
	}
	return false
}

// notify is called when a port received something.
func (w *Waiter) notify() {
	if w.state.Load() == sleeping {
		w.ring()
	}
}

func (w *Waiter) ring() {
	select {
	case w.bell <- struct{}{}:
	default: // it rings already
	}
}

// Wake ends the sleep, or the next one. Safe from any goroutine.
func (w *Waiter) Wake() {
	if w.state.Load() != woken && w.state.Swap(woken) == sleeping {
		w.ring()
	}
}

// Close ends a Sleep in progress with an error.
func (w *Waiter) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	for _, p := range w.ports {
		p.waiter.CompareAndSwap(w, nil)
	}
	close(w.done)
	w.mu.Lock()
	fds := slices.Collect(maps.Keys(w.watched))
	w.mu.Unlock()
	var errs []error
	for _, fd := range fds {
		errs = append(errs, w.Unwatch(fd))
	}
	return errors.Join(errs...)
}
