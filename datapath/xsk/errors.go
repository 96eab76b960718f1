package xsk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// What can be wrong, for errors.Is.
var (
	// ErrConfig: an option is out of its range.
	ErrConfig = errors.New("xsk: bad configuration")
	// ErrPermission: the process lacks CAP_NET_RAW.
	ErrPermission = errors.New("no permission")
	// ErrNotSupported: the kernel does not have what was asked for.
	ErrNotSupported = errors.New("not supported by this kernel")
	// ErrNoZeroCopy: the driver has no zero-copy mode for this socket.
	ErrNoZeroCopy = errors.New("zero-copy is not supported by the driver")
	// ErrMemlock: locked memory beyond RLIMIT_MEMLOCK.
	ErrMemlock = errors.New("locked memory limit reached")
	// ErrNoDevice: no interface has this index in this network namespace.
	ErrNoDevice = errors.New("no such interface in this network namespace")
	// ErrNoQueue: the interface has no such queue.
	ErrNoQueue = errors.New("no such queue, or a bind flag that the kernel does not know")
	// ErrQueueBusy: another socket is bound to the queue.
	ErrQueueBusy = errors.New("the queue belongs to another AF_XDP socket")
	// ErrInUse: the object is still used by another.
	ErrInUse = errors.New("xsk: in use")
	// ErrDown: the interface is down, removed, or the socket is not bound.
	ErrDown = errors.New("the interface is down")
	// ErrGone: the interface was removed, or the socket is not bound. It is an
	// ErrDown that waiting does not cure.
	ErrGone = fmt.Errorf("the interface was removed or the socket is not bound, %w", ErrDown)
	// ErrBroken: a ring holds an index that cannot be. The socket must be
	// closed.
	ErrBroken = errors.New("ring index out of range")
	// ErrClosed: the socket, memory or waiter was closed.
	ErrClosed = os.ErrClosed
)

// Error is a failed operation on a socket.
type Error struct {
	// Op is what was tried, for example "bind".
	Op string
	// Ifindex and Queue say where.
	Ifindex, Queue int
	// Kind is one of the Err variables of this package, or nil.
	Kind error
	// Errno is what the kernel answered, or 0.
	Errno unix.Errno
	// Hint says what to do about it, or is empty.
	Hint string
}

// Error describes what failed, why, and what to do.
func (e *Error) Error() string {
	s := fmt.Sprintf("xsk: %s (interface %d, queue %d): ", e.Op, e.Ifindex, e.Queue)
	switch {
	case e.Kind != nil && e.Errno != 0:
		s += e.Kind.Error() + " (" + e.Errno.Error() + ")"
	case e.Kind != nil:
		s += e.Kind.Error()
	default:
		s += e.Errno.Error()
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap gives errors.Is both the kind and the errno.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2)
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	return errs
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
}

// errnoOf returns the errno in err, or EIO where there is none.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

// explain says what err, of step op of making the socket, means.
func (s *Socket) explain(op string, err error) error {
	e := &Error{Op: op, Ifindex: s.ifindex, Queue: s.queue, Errno: errnoOf(err)}
	e.Hint, e.Kind = diagnose(op, e.Errno, s.shared)
	return e
}

// diagnose knows what each errno means at each step (net/xdp/xsk.c,
// xdp_umem.c, xsk_buff_pool.c).
func diagnose(op string, errno unix.Errno, shared bool) (hint string, kind error) {
	switch {
	case op == opSocket && (errno == unix.EPERM || errno == unix.EACCES):
		return "run as root or give the program CAP_NET_RAW", ErrPermission
	case op == opSocket && (errno == unix.EAFNOSUPPORT || errno == unix.ESOCKTNOSUPPORT):
		return "the kernel was built without CONFIG_XDP_SOCKETS", ErrNotSupported
	case op == opSocket && errno == unix.EMFILE:
		return "raise the number of the process's descriptors (ulimit -n, LimitNOFILE= of the systemd unit)", nil
	case op == opSocket && errno == unix.ENFILE:
		return "raise the number of the system's descriptors (sysctl fs.file-max)", nil
	case op == opRegister && (errno == unix.ENOBUFS || errno == unix.EPERM):
		return "raise it (ulimit -l, LimitMEMLOCK= of the systemd unit), give CAP_IPC_LOCK, or use fewer frames", ErrMemlock
	case op == opRegister && errno == unix.EINVAL:
		return "the kernel refuses this frame size, headroom or transmit metadata length", ErrNotSupported
	case op == opRegister && errno == unix.EFAULT:
		return "the memory is not mapped, or of a kind that cannot be pinned", ErrConfig
	case op == opBind && errno == unix.ENODEV:
		return "ip link lists the interfaces", ErrNoDevice
	case op == opBind && errno == unix.EBUSY:
		return "close the other socket, choose another queue, or share its UMEM", ErrQueueBusy
	case op == opBind && errno == unix.EINVAL:
		return "ethtool -l shows the queues; wake-up flags need Linux 5.4, multi-buffer 6.6", ErrNoQueue
	case op == opBind && errno == unix.EOPNOTSUPP && shared:
		return "the first socket of the UMEM is in zero-copy mode and this driver is not able to; open that one with Mode Copy", ErrNoZeroCopy
	case op == opBind && errno == unix.EOPNOTSUPP:
		return "use Mode Auto or Copy", ErrNoZeroCopy
	case op == opBind && errno == unix.ENETDOWN:
		return "bring it up: ip link set up", ErrDown
	case op == opBind && errno == unix.EBADF && shared:
		return "the first socket of the UMEM is not bound yet", ErrConfig
	case op == opBusyPoll && errno == unix.EPERM:
		return "more than net.core.busy_read microseconds or a larger budget needs CAP_NET_ADMIN", ErrPermission
	case op == opBusyPoll && errno == unix.ENOPROTOOPT:
		return "preferred busy polling needs Linux 5.11", ErrNotSupported
	}
	return "", nil
}
