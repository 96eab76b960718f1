package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Config says how a server treats its clients.
type Config struct {
	// Name is the daemon's, as clients see it: "roce-xdp 0.4".
	Name string
	// Policy decides about a process that connects. Its error goes to the client as
	// StatusPermission. nil: everybody may, with DefaultLimits.
	Policy func(Cred) (Limits, error)
	// MaxClients bounds connections of all users together; 0: 4096.
	MaxClients int
	// Log hears of clients that come, go, and are thrown out; nil: nobody does.
	Log *slog.Logger

	patience  time.Duration // with clients that do not read; 0: the usual
	hungAfter time.Duration // likewise, see there
}

// Server shares devices out to clients. Its methods are safe for concurrent use.
type Server struct {
	cfg   Config
	log   *slog.Logger
	hush  *hush
	files *descriptors

	mu        sync.Mutex
	devices   map[string]*device
	sessions  map[*session]struct{}
	users     map[uint32]int // sessions of each user
	listeners map[net.Listener]struct{}
	refused   int // sessions that are to be told that they may not
	lastID    uint64
	closing   bool
	watching  bool // the memory of sessions is looked at
}

// ErrServerClosed says that Serve has returned because of Shutdown.
var ErrServerClosed = errors.New("serve: server closed")

// New makes a server without devices.
func New(cfg Config) *Server {
	if cfg.MaxClients <= 0 {
		cfg.MaxClients = 4096
	}
	if cfg.patience == 0 {
		cfg.patience = patience
	}
	if cfg.hungAfter == 0 {
		cfg.hungAfter = hungAfter
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))
	}
	return &Server{
		cfg: cfg, log: log, hush: newHush(log), files: newDescriptors(), devices: map[string]*device{}, sessions: map[*session]struct{}{},
		users: map[uint32]int{}, listeners: map[net.Listener]struct{}{},
	}
}

// AddDevice offers a device of this process to clients. It stays the caller's, who
// closes it after RemoveDevice or Shutdown.
func (s *Server) AddDevice(ctx *verbs.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return ErrServerClosed
	case s.devices[ctx.Name()] != nil:
		return fmt.Errorf("serve: %w: there is a device %s already", verbs.ErrInvalid, ctx.Name())
	}
	d, err := newDevice(ctx)
	if err != nil {
		return err
	}
	if err := d.gsi.attend(); err != nil {
		s.log.Warn(noManager, "device", d.name, "err", err)
	}
	s.devices[d.name] = d
	return nil
}

// offered are the devices that limits let a client open, by name.
func (s *Server) offered(l *Limits) []*device {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*device, 0, len(s.devices))
	for _, d := range s.devices {
		if l.allows(d.name) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *device) int { return cmp.Compare(a.name, b.name) })
	return list
}

// Serve takes connections from a SEQPACKET unix socket until Shutdown, which closes
// it, or an error of the socket.
func (s *Server) Serve(l *net.UnixListener) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return errors.Join(ErrServerClosed, l.Close())
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for {
		c, err := accept(l)
		if err != nil {
			if s.isClosing() {
				return ErrServerClosed
			}
			return fmt.Errorf("serve: %w", err)
		}
		s.take(c)
	}
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// take starts a session on a connection. What speaks against the client is told in
// reply to its Hello.
func (s *Server) take(c *net.UnixConn) {
	n, err := newSession(s, c)
	if err != nil {
		s.hush.say(s.log, slog.LevelWarn, anybody, "connection refused", "err", err)
		_ = c.Close() // the peer learns nothing more than that it ended
		return
	}
	switch err := s.admit(n); {
	case err == nil:
		go n.run()
	case errors.Is(err, ErrServerClosed):
		_ = c.Close()
	default:
		n.say(slog.LevelWarn, "connection refused", "err", err)
		_ = c.Close()
	}
}

// admit enters a session into the books, as one that is to be told that it may not if so.
func (s *Server) admit(n *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrServerClosed
	}
	switch {
	case n.refusal != nil:
	case len(s.sessions)-s.refused >= s.cfg.MaxClients:
		n.refusal = limit("connections to this daemon", s.cfg.MaxClients)
	case s.users[n.cred.UID] >= n.limits.Clients:
		n.refusal = limit("connections of this user", n.limits.Clients)
	}
	if n.refusal != nil {
		if s.refused >= maxRefused {
			return fmt.Errorf("%d others wait to be told that they may not: %w", maxRefused, n.refusal)
		}
		s.refused++
	} else {
		s.users[n.cred.UID]++
	}
	s.lastID++
	n.id = s.lastID
	s.sessions[n] = struct{}{}
	return nil
}

// maxRefused is how many connections wait to be told that they may not.
const maxRefused = 64

// forget takes a session off the books when all of it has been freed.
func (s *Server) forget(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, n)
	if n.refusal != nil {
		s.refused--
		return
	}
	if s.users[n.cred.UID]--; s.users[n.cred.UID] == 0 {
		delete(s.users, n.cred.UID)
	}
}

// shared reports whether there is more than one client.
func (s *Server) shared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)-s.refused > 1
}

// of are the sessions that have a device open; nil stands for any device or none.
func (s *Server) of(d *device) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.sessions))
	for n := range s.sessions {
		if d == nil || n.device() == d {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return list
}
