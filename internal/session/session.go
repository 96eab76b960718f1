package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Session is a connection to a daemon. Its methods are safe for concurrent use.
type Session struct {
	conn   *shm.Conn
	hello  proto.HelloReply
	open   proto.OpenReply
	events *shm.Conn // nil before Open
	bells  []*workerBells

	mu       sync.Mutex
	calls    map[uint32]*call
	lastSeq  uint32
	why      error         // of the end; set before done is closed
	done     chan struct{} // closed at the end
	lost     atomic.Bool   // set at the end, for who cannot wait
	segments segments
	reader   sync.WaitGroup
}

// Connect connects to the daemon of a runtime directory and agrees with it on a
// version. Errors: ErrNoDaemon, ErrPermission, ErrVersion, that of ctx.
func Connect(ctx context.Context, dir string) (*Session, error) {
	path := SocketPath(dir)
	c, err := shm.Dial(path)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w listens at %s: start one with `roce-xdp run INTERFACE`, or set %s to its runtime directory: %w", ErrNoDaemon, path, DirVariable, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return nil, fmt.Errorf("%w: this user may not use the daemon's socket %s: its owner decides with the permissions and the group of the socket: %w", ErrPermission, path, err)
	case err != nil:
		return nil, fmt.Errorf("connect to the daemon: %w", err)
	}
	return Start(ctx, c)
}

// Start begins a session on a connection, which it takes over.
func Start(ctx context.Context, c *shm.Conn) (*Session, error) {
	s := &Session{conn: c, calls: map[uint32]*call{}, done: make(chan struct{})}
	s.reader.Go(s.read)
	_, err := s.Call(ctx, proto.OpHello, &proto.Hello{Magic: proto.Magic, MinVersion: proto.MinVersion, MaxVersion: proto.Version}, &s.hello)
	if err == nil && (s.hello.Version < proto.MinVersion || s.hello.Version > proto.Version) {
		err = fmt.Errorf("%w: the daemon chose %d, this program knows %d to %d", ErrVersion, s.hello.Version, proto.MinVersion, proto.Version)
	}
	if err != nil {
		s.Close()
		return nil, greeting(err)
	}
	return s, nil
}

// greeting is what a failed Hello means.
func greeting(err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Status == proto.StatusVersion:
		return fmt.Errorf("%w: update the older of the two: %w", ErrVersion, err)
	case e.Status == proto.StatusPermission:
		return fmt.Errorf("%w: the daemon's policy keeps this user out: %w", ErrPermission, err)
	}
	return err
}

// Version is the version that both ends speak.
func (s *Session) Version() uint32 { return s.hello.Version }

// ClientID is the number by which the daemon's tools show an open session.
func (s *Session) ClientID() uint64 { return s.open.ClientID }

// Devices are the devices that this user may open.
func (s *Session) Devices(ctx context.Context) ([]proto.DeviceEntry, error) {
	return List(ctx, s, proto.OpDevices, func(r *proto.DevicesReply) (uint32, uint32, []proto.DeviceEntry) {
		return r.Total, r.Count, r.Entry[:]
	})
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Lost reports whether the session has ended: a load, for who posts work requests.
func (s *Session) Lost() *atomic.Bool { return &s.lost }

// Err is why the session has ended, nil while it goes on.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.why
	default:
		return nil
	}
}

// end ends the session for a reason, of which the first counts.
func (s *Session) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return
	}
	s.why = why
	s.lost.Store(true)
	close(s.done)
	_ = s.conn.Close() // nothing more is said on it
}

// Close ends the session, and with it all that the daemon has for it. Memory of
// buffers is gone when it returns. Closing twice is no error.
func (s *Session) Close() {
	s.end(fmt.Errorf("%w by this program", ErrClosed))
	s.reader.Wait()
	s.segments.drop()
	if s.events != nil {
		_ = s.events.Close() // nobody is told anything any more
	}
	for _, b := range s.bells {
		_ = b.event.Close() // nor rung
	}
}
