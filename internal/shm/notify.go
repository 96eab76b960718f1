package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Notifier makes a peer's descriptor readable, without ever waiting for the peer.
type Notifier struct{ fd descriptor }

var note = []byte{1}

// NewNotifier makes a Notifier and the descriptor to hand over, which the caller
// closes when it has.
func NewNotifier() (*Notifier, *os.File, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(p[1]), "notified")
	if theirs == nil {
		return nil, nil, errors.Join(ErrDescriptor, unix.Close(p[0]))
	}
	return &Notifier{descriptor{n: p[0]}}, theirs, nil
}

// Notify makes the peer's descriptor readable. It neither waits nor allocates.
func (n *Notifier) Notify() {
	fd, ok := n.fd.hold()
	if !ok {
		return
	}
	// No room means that the peer has been notified many times, and a peer that is
	// gone needs no notice.
	_, _ = unix.SendmsgN(fd, note, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	n.fd.release()
}

// Close ends the stream, which the peer sees. Closing twice is no error.
func (n *Notifier) Close() error { return n.fd.close() }
