package xsk

import (
	"time"

	"golang.org/x/sys/unix"
)

// completionPoll is how often Poll looks for completions: the kernel wakes
// nobody for them.
const completionPoll = time.Millisecond

// Poll waits until buffers can be received or addresses completed and returns
// how many of each there are, or zeros after timeout (forever if negative). It
// uses both halves and keeps a thread of the operating system busy: a Waiter
// does not.
func (s *Socket) Poll(timeout time.Duration) (rx, comp int, err error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	for {
		rx, comp = s.RxAvail(), s.CompAvail()
		if rx != 0 || comp != 0 || timeout == 0 {
			return rx, comp, nil
		}
		wait := time.Duration(-1)
		if timeout > 0 {
			if wait = time.Until(deadline); wait <= 0 {
				return 0, 0, nil
			}
		}
		if s.tx.buffers.Load() != s.tx.completed.Load() && (wait < 0 || wait > completionPoll) {
			wait = completionPoll
		}
		if err := s.pollOnce(wait); err != nil {
			return 0, 0, err
		}
	}
}

// pollOnce waits for something to receive for at most wait.
func (s *Socket) pollOnce(wait time.Duration) error {
	if s.rx.fd < 0 {
		return s.errClosed
	}
	ms := -1
	if wait >= 0 {
		ms = int(min((wait+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	s.pollFD[0] = unix.PollFd{Fd: int32(s.rx.fd), Events: unix.POLLIN}
	_, err := unix.Poll(s.pollFD[:], ms)
	switch {
	case err == unix.EINTR:
		return nil // the caller looks again and waits for what is left
	case err != nil:
		return s.explain(opPoll, err)
	case s.pollFD[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0:
		return s.errGone
	}
	return nil
}
