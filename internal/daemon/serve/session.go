package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// How long a session waits for its client.
const (
	helloTimeout = 30 * time.Second // for the first message
	patience     = 10 * time.Second // for room in its socket
)

// session is a client: a connection, and what was made through it.
type session struct {
	srv     *Server
	log     *slog.Logger
	conn    *shm.Conn
	id      uint64
	cred    Cred
	comm    string
	since   time.Time
	limits  Limits
	refusal error // why the client may not; told in reply to its Hello

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	thrown sync.Once // out: it is said once why
	own    ownMemory // guarded by the server's lock

	greeted bool // by Hello; only run's goroutine looks
	duty    duty // likewise
	calls   calls
	pumps   sync.WaitGroup // of events
	done    chan struct{}  // closed when all has been freed

	mu  sync.Mutex
	res *resources // of the open device, nil before
	cm  *connections
}

// newSession makes the session of a connection, whose limits the policy decides.
func newSession(srv *Server, c *net.UnixConn) (*session, error) {
	conn, err := shm.NewConn(c)
	if err != nil {
		return nil, err
	}
	cred, err := conn.Cred()
	if err != nil {
		return nil, err
	}
	s := &session{srv: srv, conn: conn, cred: cred, comm: commOf(cred.PID), since: time.Now(), done: make(chan struct{})}
	s.log = srv.log.With("pid", cred.PID, "uid", cred.UID, "comm", s.comm)
	if srv.cfg.Policy != nil {
		s.limits, s.refusal = srv.cfg.Policy(cred)
	}
	s.limits = s.limits.withDefaults()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.calls.init()
	return s, nil
}

// run reads requests until the client or the daemon ends the session, and frees all
// that it had.
func (s *session) run() {
	defer s.end()
	if err := s.conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return
	}
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := s.conn.Recv(buf)
		if err != nil {
			if !errors.Is(err, shm.ErrClosed) {
				s.kill(err)
			}
			return
		}
		begun := time.Now()
		err = s.handle(buf[:n], fds)
		fds.Close()
		if err != nil {
			s.kill(err)
			return
		}
		now := time.Now()
		if wait := s.duty.charge(now.Sub(begun), now); wait > 0 && s.srv.shared() {
			s.rest(wait)
		}
	}
}

// rest leaves the daemon to others for a while, or until the session ends.
func (s *session) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// kill ends the session for a reason.
func (s *session) kill(why error) {
	s.thrown.Do(func() {
		if s.refusal == nil {
			s.say(slog.LevelWarn, "client thrown out", "client", s.id, "err", why)
		}
	})
	_ = s.conn.Close() // which ends run
}

// say logs what the client causes and could cause again and again.
func (s *session) say(level slog.Level, msg string, args ...any) {
	s.srv.hush.say(s.log, level, int64(s.cred.UID), msg, args...)
}

// end frees what the session has, in the order in which peers learn of it best.
func (s *session) end() {
	_ = s.conn.Close()
	s.cancel()
	s.mu.Lock()
	cm, res := s.cm, s.res
	s.mu.Unlock()
	// Peers are told before the queue pairs that they talk to are gone.
	if cm != nil {
		cm.close()
	}
	if res != nil {
		res.shut()
	}
	s.calls.wait()
	s.pumps.Wait()
	if res != nil {
		res.free()
	}
	s.log.Debug("client gone", "client", s.id)
	s.srv.forget(s)
	close(s.done)
}

// opened are the resources of the open device.
func (s *session) opened() *resources {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.res
}

// device is the open device, nil if there is none.
func (s *session) device() *device {
	if r := s.opened(); r != nil {
		return r.dev
	}
	return nil
}
