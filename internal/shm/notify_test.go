package shm

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func notifier(t testing.TB) (*Notifier, *Waiter) {
	t.Helper()
	n, f, err := NewNotifier()
	if err != nil {
		t.Fatal(err)
	}
	w := must[*Waiter](t)(NewWaiter(dup(t, int(f.Fd()))))
	ok(t, f.Close())
	t.Cleanup(func() { n.Close(); w.Close() })
	return n, w
}

func TestNotify(t *testing.T) {
	noLeak(t)
	n, w := notifier(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 { // before the call
		n.Notify()
		n.Notify()
		ok(t, w.Wait(ctx))
	}
	done := make(chan error)
	go func() { done <- w.Wait(context.Background()) }()
	time.Sleep(time.Millisecond)
	n.Notify() // during it
	ok(t, <-done)

	short, cancelShort := context.WithTimeout(ctx, time.Millisecond)
	defer cancelShort()
	if err := w.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing has happened: %v", err)
	}
	if err := w.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that has ended: %v", err)
	}
	n.Notify()
	ok(t, w.Wait(ctx))
}

// A peer that never looks costs the notifier nothing, and finds one notice.
func TestNotifyNeverWaits(t *testing.T) {
	n, w := notifier(t)
	// The peer has taken away what it can.
	ok(t, w.rc.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), false) }))
	for range 10_000 {
		n.Notify()
	}
	ok(t, w.rc.Control(func(fd uintptr) { _ = unix.SetNonblock(int(fd), true) }))
	ok(t, w.Wait(t.Context()))
	ok(t, w.Close())
	n.Notify() // to nobody
	ok(t, n.Close())
	ok(t, n.Close())
	n.Notify()
}

func TestWaitEnds(t *testing.T) {
	noLeak(t)
	for name, end := range map[string]func(*Notifier, *Waiter) error{
		"of the sender": func(n *Notifier, _ *Waiter) error { return n.Close() },
		"of our end":    func(_ *Notifier, w *Waiter) error { return w.Close() },
	} {
		n, w := notifier(t)
		done := make(chan error, 3)
		for range cap(done) {
			go func() { done <- w.Wait(t.Context()) }()
		}
		time.Sleep(time.Millisecond)
		ok(t, end(n, w))
		for range cap(done) {
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Contexts that end at any moment take no notice from who waits on.
func TestWaitersDoNotDisturbEachOther(t *testing.T) {
	n, w := notifier(t)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*20*time.Microsecond)
				if err := w.Wait(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	done := make(chan error, 1)
	go func() { done <- w.Wait(t.Context()) }()
	time.Sleep(time.Millisecond)
	n.Notify()
	select {
	case err := <-done:
		ok(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a notice is lost")
	}
}

// Every signal wakes an epoll set that watches for edges, though nobody reads.
func TestEventfdWakesByEdges(t *testing.T) {
	noLeak(t)
	e := must[*Eventfd](t)(NewEventfd())
	defer e.Close()
	set := must[int](t)(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	defer unix.Close(set)
	ok(t, unix.EpollCtl(set, unix.EPOLL_CTL_ADD, e.FD(), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	peer := must[*Eventfd](t)(OpenEventfd(dup(t, e.FD())))
	events := make([]unix.EpollEvent, 4)
	for range 3 {
		peer.Signal()
		if n := must[int](t)(unix.EpollWait(set, events, 1000)); n != 1 {
			t.Errorf("%d events", n)
		}
		if n := must[int](t)(unix.EpollWait(set, events, 0)); n != 0 {
			t.Errorf("%d events without a signal", n)
		}
	}
	ok(t, peer.Close())
	peer.Signal()
	if n := must[int](t)(unix.EpollWait(set, events, 0)); n != 0 {
		t.Error("a closed one wakes")
	}
}

func TestSignalsDoNotAllocate(t *testing.T) {
	n, _ := notifier(t)
	e := must[*Eventfd](t)(NewEventfd())
	defer e.Close()
	if got := testing.AllocsPerRun(100, func() { n.Notify(); e.Signal() }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestWaiterOfNoFile(t *testing.T) {
	f := must[*os.File](t)(os.CreateTemp(t.TempDir(), ""))
	fd := dup(t, int(f.Fd()))
	ok(t, f.Close())
	w := must[*Waiter](t)(NewWaiter(fd))
	if err := w.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	ok(t, w.Close())
	if _, err := NewWaiter(1 << 20); !errors.Is(err, ErrDescriptor) {
		t.Error(err)
	}
}
