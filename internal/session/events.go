package session

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// NextEvent waits for the next asynchronous event of the open device. It is for one
// goroutine. Events that came before the end of the session come before its error,
// ErrClosed.
func (s *Session) NextEvent() (e proto.AsyncEvent, err error) {
	if s.events == nil {
		return e, fmt.Errorf("%w: no device is open", ErrClosed)
	}
	var buf [64]byte
	n, fds, err := s.events.Recv(buf[:])
	fds.Close()
	if err == nil {
		err = proto.Decode(buf[:n], &e)
	}
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return e, nil
}
