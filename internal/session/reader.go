package session

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// read takes replies to those who wait for them, until the session ends.
func (s *Session) read() {
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := s.conn.Recv(buf)
		switch {
		case errors.Is(err, shm.ErrClosed):
			s.end(fmt.Errorf("%w: the daemon has ended, or has thrown this program out; its log says why", ErrClosed))
			return
		case err != nil && !errors.Is(err, shm.ErrMissing):
			s.end(fmt.Errorf("%w: %w: %w", ErrClosed, ErrProtocol, err))
			return
		}
		if err := s.deliver(buf[:n], fds, err); err != nil {
			fds.Close()
			s.end(fmt.Errorf("%w: %w: %w", ErrClosed, ErrProtocol, err))
			return
		}
	}
}

// deliver hands a reply to its call. missing says that its descriptors are lost.
func (s *Session) deliver(packet []byte, fds shm.FDs, missing error) error {
	h, body, err := proto.Parse(packet)
	if err != nil {
		return err
	}
	if missing == nil && int(h.FDs) != len(fds) {
		return fmt.Errorf("%v with %d descriptors, which says %d", h.Op, len(fds), h.FDs)
	}
	s.mu.Lock()
	c := s.calls[h.Seq]
	delete(s.calls, h.Seq)
	s.mu.Unlock()
	switch {
	case c == nil:
		return fmt.Errorf("a reply to %v with number %d, which nobody has asked for", h.Op, h.Seq)
	case c.op != h.Op:
		return fmt.Errorf("a reply to %v with the number of a request for %v", h.Op, c.op)
	case c.reply == nil: // abandoned
		fds.Close()
		return nil
	}
	c.reply <- reply{status: h.Status, body: append([]byte(nil), body...), fds: fds, err: missing}
	return nil
}
