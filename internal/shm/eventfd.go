package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Eventfd wakes a worker of the daemon, which has it in an epoll set,
// edge-triggered: every Signal wakes it, and nobody reads the counter.
type Eventfd struct{ fd descriptor }

var one = binary.NativeEndian.AppendUint64(nil, 1)

// NewEventfd makes one.
func NewEventfd() (*Eventfd, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Eventfd{descriptor{n: fd}}, nil
}

// OpenEventfd takes over a descriptor that must be an eventfd. It closes it if it is
// none.
func OpenEventfd(fd int) (*Eventfd, error) {
	if err := CheckEventfd(fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &Eventfd{descriptor{n: fd}}, nil
}

// FD is the descriptor, to pass on or to put into an epoll set. It stays e's.
func (e *Eventfd) FD() int { return e.fd.n }

// Signal adds to the counter. It does nothing when e is closed. A daemon does not
// call it: see the package's comment.
func (e *Eventfd) Signal() {
	if fd, ok := e.fd.hold(); ok {
		_, _ = unix.Write(fd, one) // a counter that is full is a signal too
		e.fd.release()
	}
}

// Close closes the descriptor. Closing twice is no error.
func (e *Eventfd) Close() error { return e.fd.close() }
