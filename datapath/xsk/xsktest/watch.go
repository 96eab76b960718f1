package xsktest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watch is a goroutine that waits for an event counter.
type watch struct {
	file  *os.File
	ended chan struct{}
}

// Watch has fd wake the sleeper, by a goroutine.
func (w *Waiter) Watch(fd int) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("xsktest: watch descriptor %d: %w", fd, err)
	}
	if err := unix.SetNonblock(own, true); err != nil {
		_ = unix.Close(own) // the first error is the one to report
		return fmt.Errorf("xsktest: watch descriptor %d: %w", fd, err)
	}
	e := &watch{file: os.NewFile(uintptr(own), "eventfd"), ended: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[fd] != nil || w.closed.Load() {
		_ = e.file.Close()
		return fmt.Errorf("xsktest: watch descriptor %d: %w", fd, unix.EEXIST)
	}
	w.watched[fd] = e
	go func() {
		defer close(e.ended)
		var count [8]byte
		for {
			if _, err := e.file.Read(count[:]); err != nil {
				return
			}
			w.Wake()
		}
	}()
	return nil
}

// Unwatch undoes Watch.
func (w *Waiter) Unwatch(fd int) error {
	w.mu.Lock()
	e := w.watched[fd]
	delete(w.watched, fd)
	w.mu.Unlock()
	if e == nil {
		return fmt.Errorf("xsktest: stop watching descriptor %d: %w", fd, unix.ENOENT)
	}
	err := e.file.Close()
	<-e.ended
	return err
}
