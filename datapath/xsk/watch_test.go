package xsk_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
)

// TestWatch: what is written to an event counter wakes the sleeper each time, though
// nobody reads it, until it is watched no more.
func TestWatch(t *testing.T) {
	for name, w := range map[string]xsk.Waiter{"socket": newWaiter(t), "memory": xsktest.NewWaiter()} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			write := func() {
				if _, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
					t.Error(err)
				}
			}
			if err := w.Watch(-1); err == nil {
				t.Error("a descriptor that is none was watched")
			}
			if err := w.Watch(fd); err != nil {
				t.Fatal(err)
			}
			sleep(t, w, time.Millisecond, false)
			for range 5 {
				write() // before it sleeps
				sleep(t, w, 10*time.Second, true)
				sleep(t, w, time.Millisecond, false)
				timer := time.AfterFunc(5*time.Millisecond, write)
				sleep(t, w, 10*time.Second, true)
				timer.Stop()
			}
			if err := w.Unwatch(fd); err != nil {
				t.Error(err)
			}
			write()
			sleep(t, w, 5*time.Millisecond, false)
			if err := w.Unwatch(fd); err == nil {
				t.Error("it was watched no more, and yet could be left alone")
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := w.Watch(fd); err == nil || name == "socket" && !errors.Is(err, xsk.ErrClosed) {
				t.Errorf("watch with a waiter that is closed: %v", err)
			}
		})
	}
}
