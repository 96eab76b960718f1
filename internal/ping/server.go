package ping

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Server is rping -s: it serves one client, or with Options.Persistent any number at a
// time until ctx ends, and prints of each how that went. What goes wrong with one
// client of many is said on Options.Log and ends nothing else. The end of ctx is an
// error only for a server that still waits for its one client.
func Server(ctx context.Context, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ifname, addr, err := o.listenAddr(ctx)
	if err != nil {
		return err
	}
	s := &server{Options: o, prepared: map[uint32]*link{}}
	s.Out, s.Log = &sharedWriter{w: o.Out}, &sharedWriter{w: o.Log}
	if s.dev, err = o.Open(ifname); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.dev.Close()) }()
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	cfg := config(s.pd, s.prepare)
	l, err := cm.Listen(s.dev, addr, &cfg)
	if err != nil {
		return err
	}
	defer l.Close()
	if o.Listening != nil {
		o.Listening(l.Addr())
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		r, err := l.Request(ctx)
		switch {
		case err != nil && ctx.Err() != nil && o.Persistent:
			return nil
		case err != nil:
			return err
		case o.Persistent:
			clients.Go(func() {
				if err := s.serve(ctx, r, func() {}); err != nil {
					s.log("%v", err)
				}
			})
			continue
		}
		// Other clients are told at once that they are not served.
		err = s.serve(ctx, r, func() { _ = l.Close() })
		if !errors.Is(err, errNotConnected) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log("%v", err)
	}
}

type server struct {
	Options
	dev *verbs.Context
	pd  *verbs.PD

	mu       sync.Mutex
	prepared map[uint32]*link // by queue pair number: those that are not connected yet
}

// errNotConnected: the client never got its connection.
var errNotConnected = errors.New("not connected")

// prepare gives a new queue pair its memory.
func (s *server) prepare(qp *verbs.QP) error {
	l := &link{dev: s.dev}
	err := l.prepare(s.pd, qp)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
	s.prepared[qp.Num()] = l
	return err
}

// reap frees what queue pairs had that have gone without a connection. The lock is held.
func (s *server) reap() {
	for n, l := range s.prepared {
		if _, err := l.qp.Query(); errors.Is(err, verbs.ErrClosed) {
			_ = l.free()
			delete(s.prepared, n)
		}
	}
}

// serve serves one client; connected is called when it is.
func (s *server) serve(ctx context.Context, r *cm.Request, connected func()) error {
	from := r.RemoteAddr()
	part, cancel := context.WithTimeout(ctx, s.Timeout)
	conn, err := r.Accept(part, nil)
	cancel()
	if err != nil {
		return fmt.Errorf("client %v: %w: %w", from, errNotConnected, err)
	}
	connected()
	s.mu.Lock()
	l := s.prepared[conn.QP().Num()]
	delete(s.prepared, conn.QP().Num())
	s.mu.Unlock()
	l.conn = conn
	res := &Result{Role: "server", Peer: from.String()}
	err = s.describe(conn)
	if err == nil {
		err = s.rounds(ctx, l, res)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("client %v: %w", from, err)
	}
	end := errors.Join(l.hangUp(), l.free())
	if err == nil {
		err = end
	}
	return errors.Join(err, s.report(res, err))
}

// rounds serves rounds until the client hangs up.
func (s *server) rounds(ctx context.Context, l *link, res *Result) error {
	data, err := l.region(s.pd, maxBuffer, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	for {
		err := l.awaitPeer(ctx, s.Timeout)
		if errors.Is(err, cm.ErrDisconnected) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.round(ctx, l, data, res); err != nil {
			if ctx.Err() == nil {
				res.Lost++
			}
			return err
		}
		res.Rounds++
	}
}

// round serves one, whose first message is there.
func (s *server) round(ctx context.Context, l *link, data *verbs.MR, res *Result) error {
	source, err := parseBuffer(l.message[:l.length])
	if err != nil {
		return err
	}
	res.Size = int(source.size)
	if err := l.move(ctx, verbs.OpRDMARead, reading, data, source); err != nil {
		return fmt.Errorf("READ of the client's data: %w", err)
	}
	if s.Verbose && !s.JSON {
		if _, err := fmt.Fprintf(s.Out, "server ping data: %s\n", text(data.Bytes()[:source.size])); err != nil {
			return err
		}
	}
	if err := l.send(buffer{}); err != nil {
		return l.why(err)
	}
	if err := l.awaitPeer(ctx, s.Timeout); err != nil {
		return fmt.Errorf("in the middle of a round: %w", err)
	}
	sink, err := parseBuffer(l.message[:l.length])
	if err != nil {
		return err
	}
	if sink.size > source.size {
		sink.size = source.size // there is no more data
	}
	if err := l.move(ctx, verbs.OpRDMAWrite, writing, data, sink); err != nil {
		return fmt.Errorf("WRITE to the client: %w", err)
	}
	return l.why(l.send(buffer{}))
}
