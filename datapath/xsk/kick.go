package xsk

import "golang.org/x/sys/unix"

// verdict is what to do after a transmit call.
type verdict uint8

const (
	done  verdict = iota // nothing more to do now
	again                // call again
	later                // the kernel cannot now
	fail                 // an error
)

// judge decides on the kernel's answer to a transmit call. pending is what the
// ring still holds, moved whether the call took anything out of it.
//
// EAGAIN and EBUSY do not mean that the ring is stuck: the kernel answers
// EAGAIN when its budget for a call is used up, and EBUSY when the device
// dropped one frame. So the calls go on for as long as the ring empties.
func judge(errno unix.Errno, pending int, moved bool) verdict {
	switch errno {
	case 0:
		return done
	case unix.EINTR:
		return again
	case unix.EAGAIN, unix.EBUSY:
		switch {
		case pending == 0:
			return done
		case moved:
			return again
		}
		return later
	case unix.ENOBUFS, unix.ENOMEM:
		return later
	}
	return fail
}

// Kick has the kernel transmit what is queued; see Port. It makes no system
// call when nothing is queued or the driver does not ask for one.
func (t *TX) Kick() error {
	pending := t.ring.Pending()
	if t.broken() {
		return t.errBroken
	}
	if pending == 0 || !t.alwaysAsk && !t.ring.NeedWakeup() {
		return nil
	}
	for {
		errno := t.send(t.fd)
		t.kicks.Add(1)
		left := t.ring.Pending()
		t.count(errno)
		switch judge(errno, left, left != pending) {
		case done:
			return nil
		case later:
			t.later.Add(1)
			return nil
		case fail:
			t.kickFail.Add(1)
			return t.sock.failure(opKick, errno)
		case again:
		}
		pending = left
	}
}

func (t *TX) count(errno unix.Errno) {
	switch errno {
	case unix.EAGAIN:
		t.again.Add(1)
	case unix.EBUSY:
		t.busy.Add(1)
	case unix.ENOBUFS, unix.ENOMEM:
		t.noBufs.Add(1)
	case unix.EINTR:
		t.intr.Add(1)
	}
}

// sendCopy runs the whole transmit path inside the call, on veth even the
// peer's receive path: long enough that the scheduler must know of it.
func sendCopy(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// sendZeroCopy only schedules the driver, so the scheduler is not told.
func sendZeroCopy(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// failure returns the error for errno. Those that come again and again while
// an interface is down were made with the socket, so as not to allocate.
func (s *Socket) failure(op string, errno unix.Errno) error {
	switch errno {
	case unix.ENETDOWN:
		return s.errDown
	case unix.ENXIO:
		return s.errGone
	case unix.EBADF:
		return s.errClosed
	}
	return &Error{Op: op, Ifindex: s.ifindex, Queue: s.queue, Errno: errno}
}
