package xsk

import (
	"time"

	"golang.org/x/sys/unix"
)

// Bind binds a socket made with Options.NoBind. It may be called again after
// an error.
func (s *Socket) Bind() error {
	s.umem.mu.Lock()
	defer s.umem.mu.Unlock()
	s.mu.Lock()
	fd, bound := s.fd, s.bound
	s.mu.Unlock()
	switch {
	case fd < 0:
		return &Error{Op: opBind, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrClosed}
	case bound:
		return nil
	}
	return s.bind()
}

// bind does the work of Bind. The UMEM's lock is held.
func (s *Socket) bind() error {
	sa := &unix.SockaddrXDP{Ifindex: uint32(s.ifindex), QueueID: uint32(s.queue), Flags: s.bindFlags()}
	if first := s.sharedWith(); first != nil {
		if s.opts.MultiBuffer && !first.opts.MultiBuffer {
			return &Error{Op: opBind, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrConfig, Hint: "MultiBuffer must be asked for by the first socket of the UMEM"}
		}
		// The kernel takes no other flag here: the first socket's hold.
		sa.Flags = unix.XDP_SHARED_UMEM
		sa.SharedUmemFD = uint32(first.FD())
		s.opts.NoNeedWakeup, s.opts.MultiBuffer = first.opts.NoNeedWakeup, first.opts.MultiBuffer
	}
	if err := bindPatiently(s.fd, sa); err != nil {
		return s.explain(opBind, err)
	}
	s.mu.Lock()
	s.bound = true
	s.mu.Unlock()
	return s.checkMode()
}

func (s *Socket) bindFlags() uint16 {
	var flags uint16
	switch s.opts.Mode {
	case Copy:
		flags |= unix.XDP_COPY
	case ZeroCopy:
		flags |= unix.XDP_ZEROCOPY
	case Auto:
		// No flag: the kernel tries zero-copy first.
	}
	if !s.opts.NoNeedWakeup {
		flags |= unix.XDP_USE_NEED_WAKEUP
	}
	if s.opts.MultiBuffer {
		flags |= unix.XDP_USE_SG
	}
	return flags
}

// sharedWith returns the socket through which the kernel finds the registered
// UMEM: one on the same queue if there is one, as its rings are used then.
func (s *Socket) sharedWith() *Socket {
	if !s.shared {
		return nil
	}
	var first *Socket
	for _, o := range s.umem.sockets {
		if o == s {
			continue
		}
		if o.key == s.key {
			return o
		}
		if first == nil {
			first = o
		}
	}
	return first
}

// bindPatiently waits for a queue that its former socket is still leaving.
func bindPatiently(fd int, sa unix.Sockaddr) error {
	deadline := time.Now().Add(bindPatience)
	for wait := bindFirstWait; ; wait = min(2*wait, bindMaxWait) {
		err := unix.Bind(fd, sa)
		switch {
		case err == unix.EINTR:
			continue
		case err != unix.EBUSY || time.Now().Add(wait).After(deadline):
			return err
		}
		time.Sleep(wait)
	}
}

// checkMode learns what Auto became and whether a shared UMEM's mode is the
// one asked for.
func (s *Socket) checkMode() error {
	var o uint32
	if _, err := getsockopt(s.fd, unix.XDP_OPTIONS, &o); err != nil {
		return s.explain(opQuery, err)
	}
	zc := o&unix.XDP_OPTIONS_ZEROCOPY != 0
	s.mu.Lock()
	s.zc = zc
	s.mu.Unlock()
	s.tx.send = sendCopy
	if zc {
		s.tx.send = sendZeroCopy
	}
	switch {
	case s.opts.Mode == ZeroCopy && !zc:
		return &Error{Op: opBind, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrNoZeroCopy, Hint: "the first socket of the UMEM is in copy mode"}
	case s.opts.Mode == Copy && zc:
		return &Error{Op: opBind, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrConfig, Hint: "the first socket of the UMEM is in zero-copy mode"}
	}
	return nil
}

// ZeroCopy reports whether the driver reads and writes the UMEM itself. It is
// false until the socket is bound.
func (s *Socket) ZeroCopy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.zc
}
