package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// descriptor is one that is used from many goroutines while another closes it. An
// os.File would do, but Go's poller watches those, and would wake for everything
// that happens on files which nobody here waits for.
type descriptor struct {
	mu     sync.RWMutex
	n      int
	closed bool
}

// hold keeps the descriptor open until release, if it is open.
func (d *descriptor) hold() (fd int, ok bool) {
	d.mu.RLock()
	if d.closed {
		d.mu.RUnlock()
		return -1, false
	}
	return d.n, true
}

func (d *descriptor) release() { d.mu.RUnlock() }

func (d *descriptor) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return unix.Close(d.n)
}
