package xsk

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// Steps of making and using a socket, as Error.Op gives them.
const (
	opSocket   = "create socket"
	opRegister = "register packet memory"
	opRings    = "create rings"
	opMap      = "map rings"
	opBusyPoll = "set busy polling"
	opBind     = "bind"
	opQuery    = "query socket"
	opKick     = "transmit"
	opWake     = "wake the driver"
	opPoll     = "poll"
	opClose    = "close"
	opStats    = "read statistics"
)

// What struct sockaddr_xdp and the kernel's queue numbers can hold.
const (
	maxIfindex  = 1<<31 - 1
	maxQueueNum = 1<<16 - 1
)

// Socket is an AF_XDP socket on one queue of an interface. It implements Port.
type Socket struct {
	rx RX
	tx TX

	umem    *UMEM
	private bool // the UMEM is freed with the socket
	shared  bool // the UMEM was registered by another socket
	ifindex int
	queue   int
	opts    Options
	key     queueKey
	rings   *queueRings

	pollFD [1]unix.PollFd

	errDown, errGone, errClosed error // made once, so that Kick need not

	mu    sync.Mutex // guards fd against Close in control calls
	fd    int
	bound bool
	zc    bool
}

var _ Port = (*Socket)(nil)

// NewSocket makes a socket for a queue of the interface with index ifindex in
// the network namespace of the calling thread, and binds it. opts may be nil.
// A queue that was just given up by another socket is waited for, up to half a
// second. Errors are of type *Error or wrap ErrConfig.
func NewSocket(ifindex, queue int, opts *Options) (*Socket, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if ifindex < 1 || ifindex > maxIfindex || queue < 0 || queue > maxQueueNum {
		return nil, configError("interface index %d, queue %d", ifindex, queue)
	}
	s := &Socket{umem: o.UMEM, ifindex: ifindex, queue: queue, opts: o, fd: -1}
	s.rx.ring, s.rx.fill = ring.EmptyConsumer[Desc](), ring.EmptyProducer[uint64]()
	s.tx.ring, s.tx.comp = ring.EmptyProducer[Desc](), ring.EmptyConsumer[uint64]()
	if s.umem == nil {
		if s.umem, err = NewUMEM(o.UMEMConfig); err != nil {
			return nil, err
		}
		s.private = true
	}
	if err := s.open(); err != nil {
		if s.private {
			_ = s.umem.Close() // the first error is the one to report
		}
		return nil, err
	}
	return s, nil
}

// open does all of NewSocket that the kernel takes part in. One socket at a
// time is made on a UMEM, as the first registers the memory for the others.
func (s *Socket) open() (err error) {
	u := s.umem
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return &Error{Op: opRegister, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrClosed}
	}
	if s.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return s.explain(opSocket, err)
	}
	defer func() {
		if err != nil {
			_ = s.release()
		}
	}()
	s.shared = len(u.sockets) != 0
	if !s.shared {
		if err := setsockopt(s.fd, unix.XDP_UMEM_REG, &u.reg); err != nil {
			return s.explain(opRegister, err)
		}
	}
	if err := s.setUpRings(); err != nil {
		return err
	}
	if err := s.setOptions(); err != nil {
		return err
	}
	s.initHalves()
	if !s.opts.NoBind {
		if err := s.bind(); err != nil {
			return err
		}
	}
	u.sockets = append(u.sockets, s)
	return nil
}

// setOptions applies what is set before bind.
func (s *Socket) setOptions() error {
	budget := uint32(s.opts.TxBudget)
	// Kernels that do not know the option keep their own budget.
	if err := setsockopt(s.fd, unix.XDP_MAX_TX_SKB_BUDGET, &budget); err != nil {
		s.opts.TxBudget = kernelTxBudget
	}
	if s.opts.BusyPoll.Usecs == 0 {
		return nil
	}
	for _, o := range []struct{ name, value int }{
		{unix.SO_PREFER_BUSY_POLL, 1},
		{unix.SO_BUSY_POLL, s.opts.BusyPoll.Usecs},
		{unix.SO_BUSY_POLL_BUDGET, s.opts.BusyPoll.Budget},
	} {
		if o.name == unix.SO_BUSY_POLL_BUDGET && o.value == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o.name, o.value); err != nil {
			return s.explain(opBusyPoll, err)
		}
	}
	return nil
}

// release gives up all that the socket holds. The UMEM's lock is held.
func (s *Socket) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return nil
	}
	// Mappings of the rings keep the kernel's socket, and with it the queue:
	// they go before the descriptor.
	s.rx.ring.Detach()
	s.tx.ring.Detach()
	err := s.unmapRings()
	if cerr := unix.Close(s.fd); err == nil {
		err = cerr
	}
	s.fd = -1
	s.rx.fd, s.tx.fd = -1, -1
	if err != nil {
		return s.explain(opClose, err)
	}
	return nil
}

// Close frees the socket, and its UMEM if that is private. Frames that the
// kernel had are free again. Neither half may be in use, nor a waiter on it.
//
// Of two sockets that share a queue and a UMEM, the one made first lives on in
// the kernel until the other is closed.
func (s *Socket) Close() error {
	u := s.umem
	u.mu.Lock()
	err := s.release()
	for i, o := range u.sockets {
		if o == s {
			u.sockets = append(u.sockets[:i], u.sockets[i+1:]...)
			break
		}
	}
	u.mu.Unlock()
	if s.private {
		if uerr := u.Close(); err == nil {
			err = uerr
		}
	}
	return err
}

// FD returns the file descriptor, for an XSKMAP; -1 after Close.
func (s *Socket) FD() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fd
}

// Ifindex returns the index of the interface.
func (s *Socket) Ifindex() int { return s.ifindex }

// Queue returns the number of the queue.
func (s *Socket) Queue() int { return s.queue }

// UMEM returns the memory of the socket.
func (s *Socket) UMEM() *UMEM { return s.umem }

// TxBudget returns how many descriptors a system call transmits at most in
// copy mode.
func (s *Socket) TxBudget() int { return s.opts.TxBudget }

// Frame returns the bytes of d; see UMEM.Frame.
func (s *Socket) Frame(d Desc) []byte { return s.umem.Frame(d) }

// Err returns an error that wraps ErrBroken if a ring was found to hold an
// index that cannot be, and nil otherwise. Safe from any goroutine.
func (s *Socket) Err() error {
	if s.rx.broken() || s.tx.broken() {
		return s.tx.errBroken
	}
	return nil
}
