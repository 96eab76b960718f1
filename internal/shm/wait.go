package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter is the peer's end: a stream that carries a byte, or more, for what has
// happened since the last Wait. Several goroutines may wait; each notice wakes one.
type Waiter struct {
	f    *os.File
	rc   syscall.RawConn
	turn chan struct{}
}

// NewWaiter takes over the descriptor of a Notifier.
func NewWaiter(fd int) (*Waiter, error) {
	// A peer that has lost O_NONBLOCK on its way would keep a thread waiting.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrDescriptor, err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "notified")
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Waiter{f: f, rc: rc, turn: make(chan struct{}, 1)}, nil
}

// Wait waits for a notice, or takes those that have come since the last Wait. It
// returns ctx's error when that ends first, and ErrClosed at the end of either end.
func (w *Waiter) Wait(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return w.read()
	}
	// Only who has the turn reads, so the deadline is its alone.
	if err := w.f.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = w.f.SetReadDeadline(time.Unix(1, 0)) // of a closed file: read says so
		close(expired)
	})
	err := w.read()
	if !stop() {
		<-expired // so that the deadline does not meet the next reader
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	}
	return err
}

// read waits for at least one byte and takes what there is.
func (w *Waiter) read() error {
	var buf [256]byte
	n, rerr := 0, error(nil)
	err := w.rc.Read(func(fd uintptr) bool {
		for rerr = unix.EINTR; errors.Is(rerr, unix.EINTR); {
			n, rerr = unix.Read(int(fd), buf[:])
		}
		return !errors.Is(rerr, unix.EAGAIN)
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case rerr != nil:
		return fmt.Errorf("%w: %w", ErrClosed, rerr)
	case n == 0:
		return ErrClosed
	}
	return nil
}

// Close ends waiting.
func (w *Waiter) Close() error { return w.f.Close() }
