package xsk

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// States of a waiter.
const (
	awake    uint32 = iota // nobody sleeps
	sleeping               // somebody sleeps, or is about to
	woken                  // Wake was called, Sleep has not seen it yet
)

// longAgo is a deadline that ends a sleep at once.
var longAgo = time.Unix(1, 0)

// SocketWaiter is a Waiter for sockets.
//
// The sockets are watched by an epoll of the waiter's own, and only while
// somebody sleeps: a watched socket costs the kernel a microsecond a frame. The
// sleeper waits for that epoll in Go's netpoller, so no thread is kept. Wake
// moves the sleeper's read deadline, which the runtime does without a system
// call.
type SocketWaiter struct {
	socks  []*Socket
	file   *os.File // of the epoll
	raw    syscall.RawConn
	look   func(fd uintptr) bool // the methods of the same names, made once
	arm    func(fd uintptr)
	disarm func(fd uintptr)
	events []unix.EpollEvent
	ready  bool
	err    error // of the last arm or disarm
	state  atomic.Uint32
	closed atomic.Bool
}

var _ Waiter = (*SocketWaiter)(nil)

// NewWaiter returns a waiter for socks, which must stay open until it is
// closed. Sleep may run while another goroutine receives.
func NewWaiter(socks ...*Socket) (*SocketWaiter, error) {
	for _, s := range socks {
		if s.FD() < 0 {
			return nil, fmt.Errorf("xsk: wait for a socket: %w", ErrClosed)
		}
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("xsk: create epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // tells os.NewFile to use the netpoller
		_ = unix.Close(fd)
		return nil, fmt.Errorf("xsk: create epoll: %w", err)
	}
	w := &SocketWaiter{
		socks:  socks,
		file:   os.NewFile(uintptr(fd), "xsk-waiter"),
		events: make([]unix.EpollEvent, max(1, len(socks))),
	}
	w.look, w.arm, w.disarm = w.lookOnce, w.armAll, w.disarmAll
	if w.raw, err = w.file.SyscallConn(); err == nil {
		err = w.file.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("xsk: wait in the netpoller: %w", err)
	}
	return w, nil
}

// Sleep waits for something to receive, for Wake, or for d; see Waiter.
func (w *SocketWaiter) Sleep(d time.Duration) (bool, error) {
	if !w.state.CompareAndSwap(awake, sleeping) {
		if w.state.CompareAndSwap(woken, awake) {
			return true, nil
		}
		return false, fmt.Errorf("%w: another goroutine sleeps on this waiter", ErrInUse)
	}
	for _, s := range w.socks {
		if err := s.Err(); err != nil {
			w.rise(false)
			return false, err // it would look readable for ever
		}
	}
	if d == 0 || w.avail() {
		return w.rise(w.avail()), nil
	}
	err := w.control(w.arm)
	ready := false
	if err == nil {
		ready, err = w.block(d)
	}
	if derr := w.control(w.disarm); err == nil {
		err = derr
	}
	return w.rise(ready), err
}

// control runs arm or disarm. Going through the RawConn keeps the epoll's
// descriptor from being closed, and its number from being used anew, meanwhile.
func (w *SocketWaiter) control(f func(uintptr)) error {
	w.err = nil
	if err := w.raw.Control(f); err != nil {
		return w.failure(err)
	}
	return w.err
}

// failure wraps err. The netpoller's error for a closed file is not exported.
func (w *SocketWaiter) failure(err error) error {
	if w.closed.Load() {
		err = ErrClosed
	}
	return fmt.Errorf("xsk: sleep: %w", err)
}

// rise ends the sleep and tells whether there was a reason to, other than time.
func (w *SocketWaiter) rise(ready bool) bool {
	return w.state.Swap(awake) == woken || ready
}

// block waits until a socket is readable, Wake, or d. The sockets are armed:
// what arrived before that is looked for here, what arrives later wakes.
func (w *SocketWaiter) block(d time.Duration) (bool, error) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	for {
		if err := w.file.SetReadDeadline(deadline); err != nil {
			return false, w.failure(err)
		}
		// Wake sets the state before the deadline: either this sees the state
		// or the new deadline comes after the one just set.
		if w.state.Load() == woken || w.avail() {
			return true, nil
		}
		w.ready = false
		err := w.raw.Read(w.look)
		switch {
		case err == nil:
			return w.ready, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false, w.failure(err)
		case w.state.Load() == woken:
			return true, nil
		case d > 0 && !time.Now().Before(deadline):
			return false, nil
		}
		// A Wake for the sleep before this one was late with its deadline.
	}
}

// lookOnce tells whether to stop sleeping. The netpoller calls it before it
// waits and whenever something happened.
func (w *SocketWaiter) lookOnce(epoll uintptr) bool {
	n, err := unix.EpollWait(int(epoll), w.events, 0)
	w.ready = n > 0 || err != nil && err != unix.EINTR
	return w.ready || w.state.Load() == woken
}

func (w *SocketWaiter) avail() bool {
	for _, s := range w.socks {
		if s.rx.ring.Ready() {
			return true
		}
	}
	return false
}

func (w *SocketWaiter) armAll(epoll uintptr) {
	for i, s := range w.socks {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, s.rx.fd, &ev); err != nil {
			w.err = fmt.Errorf("xsk: watch socket: %w", err)
			return
		}
	}
}

// disarmAll takes the sockets out of the epoll altogether: one that is only
// disabled still costs the kernel a call for each frame.
func (w *SocketWaiter) disarmAll(epoll uintptr) {
	for _, s := range w.socks {
		err := unix.EpollCtl(int(epoll), unix.EPOLL_CTL_DEL, s.rx.fd, nil)
		if err != nil && err != unix.ENOENT { // arming stopped at an error before this one
			w.err = fmt.Errorf("xsk: stop watching socket: %w", err)
		}
	}
}

// Wake ends the sleep; see Waiter. Safe from any goroutine.
func (w *SocketWaiter) Wake() {
	if w.state.Load() != woken && w.state.Swap(woken) == sleeping {
		// It fails only when the waiter is closed, which wakes as well.
		_ = w.file.SetReadDeadline(longAgo)
	}
}

// Watch has fd wake the sleeper. It is watched all the time, for edges only: nothing
// is written to it while nobody sleeps, and nobody reads it, so that who else has the
// counter can neither keep it from waking nor have this side wait for it.
func (w *SocketWaiter) Watch(fd int) error {
	return w.change(unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: -1})
}

// Unwatch undoes Watch.
func (w *SocketWaiter) Unwatch(fd int) error { return w.change(unix.EPOLL_CTL_DEL, fd, nil) }

func (w *SocketWaiter) change(op, fd int, ev *unix.EpollEvent) (err error) {
	cerr := w.raw.Control(func(epoll uintptr) { err = unix.EpollCtl(int(epoll), op, fd, ev) })
	switch {
	case cerr != nil:
		return w.failure(cerr)
	case err != nil:
		return fmt.Errorf("xsk: watch descriptor %d: %w", fd, err)
	}
	return nil
}

// Close ends a Sleep in progress with an error that wraps ErrClosed.
func (w *SocketWaiter) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("xsk: close waiter: %w", err)
	}
	return nil
}
