package shm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// maxRights is how many descriptors the kernel puts into a packet at most. Room for
// all of them makes sure that none is installed without our knowing.
const maxRights = 253

// Conn is a SEQPACKET unix socket. Sending and receiving may go on at the same time,
// each by any number of goroutines; all but Close take turns.
type Conn struct {
	c  *net.UnixConn
	rc syscall.RawConn

	recv sync.Mutex // guards oob
	oob  []byte
}

// NewConn takes over a SEQPACKET socket.
func NewConn(c *net.UnixConn) (*Conn, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	typ, serr := 0, error(nil)
	if err := rc.Control(func(fd uintptr) { typ, serr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE) }); err != nil {
		return nil, err
	}
	if serr != nil || typ != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("%w: a socket of type %d, SEQPACKET is needed", ErrDescriptor, typ)
	}
	return &Conn{c: c, rc: rc, oob: make([]byte, unix.CmsgSpace(maxRights*4))}, nil
}

// FromFD makes a Conn of a descriptor, which it closes, in every case.
func FromFD(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	if f == nil {
		return nil, fmt.Errorf("%w: %d", ErrDescriptor, fd)
	}
	nc, err := net.FileConn(f)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) { // it duplicates the descriptor
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrMissing, err), f.Close())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: not a unix socket", ErrDescriptor), nc.Close())
	}
	c, err := NewConn(uc)
	if err != nil {
		return nil, errors.Join(err, uc.Close())
	}
	return c, nil
}

// Dial connects to the socket at path.
func Dial(path string) (*Conn, error) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return NewConn(c)
}

// Pair makes a connected pair: our end, and one to hand over, which the caller
// closes when it has.
func Pair() (ours *Conn, theirs *os.File, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(p[1]), "socketpair")
	ours, err = FromFD(p[0])
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// checkPacket refuses what no packet can be.
func checkPacket(b []byte, fds []int) error {
	if len(b) == 0 || len(b) > proto.MaxMessage || len(fds) > proto.MaxFDs {
		return fmt.Errorf("%w: %d bytes and %d descriptors", ErrPacket, len(b), len(fds))
	}
	return nil
}

// Send sends a packet with descriptors, which stay the caller's. It waits for room
// until the write deadline.
func (c *Conn) Send(b []byte, fds ...int) error {
	if err := checkPacket(b, fds); err != nil {
		return err
	}
	n, _, err := c.c.WriteMsgUnix(b, rights(fds), nil)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%w: %d of %d bytes were sent", ErrPacket, n, len(b))
	}
	return c.closed(err)
}

// TrySend is Send without waiting: it is ErrFull when there is no room now.
func (c *Conn) TrySend(b []byte, fds ...int) error {
	if err := checkPacket(b, fds); err != nil {
		return err
	}
	oob, serr := rights(fds), error(nil)
	err := c.rc.Control(func(fd uintptr) {
		for serr = unix.EINTR; errors.Is(serr, unix.EINTR); {
			serr = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
	})
	if errors.Is(serr, unix.EAGAIN) {
		return ErrFull
	}
	return c.closed(errors.Join(err, serr))
}

func rights(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}

// Recv receives a packet into b, with its descriptors. A packet that is longer than
// b, or has more than proto.MaxFDs descriptors, is ErrPacket, and the descriptors
// are closed. One whose descriptors this process has no room for is ErrMissing: it
// comes without any of them. ErrClosed is the end of either end.
func (c *Conn) Recv(b []byte) (n int, fds FDs, err error) {
	c.recv.Lock()
	defer c.recv.Unlock()
	n, oobn, flags, _, err := c.c.ReadMsgUnix(b, c.oob)
	if err != nil {
		return 0, nil, c.closed(err)
	}
	fds, err = received(c.oob[:oobn])
	switch {
	case err != nil:
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: more than %d bytes", ErrPacket, len(b))
	case len(fds) > proto.MaxFDs:
		err = fmt.Errorf("%w: %d descriptors, %d are possible", ErrPacket, len(fds), proto.MaxFDs)
	case flags&unix.MSG_CTRUNC != 0:
		fds.Close()
		return n, nil, ErrMissing
	default:
		return n, fds, nil
	}
	fds.Close()
	return 0, nil, err
}

// received are the descriptors of a packet's control messages.
func received(oob []byte) (fds FDs, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacket, err)
	}
	for i := range msgs {
		if msgs[i].Header.Level != unix.SOL_SOCKET || msgs[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		some, err := unix.ParseUnixRights(&msgs[i])
		fds = append(fds, some...)
		if err != nil {
			return fds, fmt.Errorf("%w: %w", ErrPacket, err)
		}
	}
	return fds, nil
}

// closed makes ErrClosed of all errors that mean the end of a connection.
func (c *Conn) closed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ENOTCONN) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// SetReadDeadline ends waiting calls of Recv and later ones at t; see net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.c.SetReadDeadline(t) }

// SetWriteDeadline does the same for Send.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }

// Close ends the connection, and calls that wait.
func (c *Conn) Close() error {
	if err := c.c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
