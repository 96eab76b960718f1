package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// call is a request that is under way.
type call struct {
	op    proto.Op
	reply chan reply // has room for the one there is
}

type reply struct {
	status proto.Status
	body   []byte
	fds    shm.FDs
	err    error // the reply came without its descriptors
}

// Call makes a request and waits for the reply, into which rep points. The
// descriptors of the request stay the caller's, those of the reply become it.
//
// An error of the daemon is an *Error. When ctx ends first, the daemon is told so and
// ctx's error is returned: that is for requests which leave nothing behind; Complete is
// for others. When only the descriptors of a reply are lost, rep is filled in and the
// error is shm.ErrMissing.
func (s *Session) Call(ctx context.Context, op proto.Op, req, rep any, fds ...int) (shm.FDs, error) {
	seq, c, err := s.ask(ctx, op, req, fds)
	if err != nil {
		return nil, err
	}
	select {
	case r := <-c.reply:
		return r.take(op, rep)
	case <-s.done:
	case <-ctx.Done():
		s.abandon(seq, c)
		return nil, ctx.Err()
	}
	return s.last(c, rep)
}

// Complete is Call for a request that leaves something behind, without descriptors.
// When ctx ends the daemon is told so, and its answer counts: an *Error of
// proto.StatusCancelled, or what it had done by then.
func (s *Session) Complete(ctx context.Context, op proto.Op, req, rep any) error {
	seq, c, err := s.ask(ctx, op, req, nil)
	if err != nil {
		return err
	}
	given := ctx.Done()
	for {
		select {
		case r := <-c.reply:
			fds, err := r.take(op, rep)
			fds.Close()
			return err
		case <-s.done:
			fds, err := s.last(c, rep)
			fds.Close()
			return err
		case <-given:
			s.cancel(seq)
			given = nil
		}
	}
}

// ask sends a request, unless ctx has ended.
func (s *Session) ask(ctx context.Context, op proto.Op, req any, fds []int) (seq uint32, c *call, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	c = &call{op: op, reply: make(chan reply, 1)}
	if seq, err = s.begin(c); err != nil {
		return 0, nil, err
	}
	if err := s.send(proto.Header{Op: op, Seq: seq, FDs: uint16(len(fds))}, req, fds); err != nil {
		s.forget(seq)
		return 0, nil, err
	}
	return seq, c, nil
}

// last is what a call brings at the end of the session.
func (s *Session) last(c *call, rep any) (shm.FDs, error) {
	s.reader.Wait() // a reply that came before the end counts
	select {
	case r := <-c.reply:
		return r.take(c.op, rep)
	default:
		return nil, s.why
	}
}

// begin gives a call its number.
func (s *Session) begin(c *call) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return 0, s.why
	}
	for {
		s.lastSeq++
		if _, used := s.calls[s.lastSeq]; !used {
			break
		}
	}
	s.calls[s.lastSeq] = c
	return s.lastSeq, nil
}

func (s *Session) forget(seq uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, seq)
}

// abandon has the daemon end a call. Its number stays taken until the reply comes.
func (s *Session) abandon(seq uint32, c *call) {
	s.mu.Lock()
	if s.calls[seq] == c {
		s.calls[seq] = &call{op: c.op}
	}
	s.mu.Unlock()
	select {
	case r := <-c.reply: // it came just now
		r.fds.Close()
	default:
	}
	s.cancel(seq)
}

// cancel has the daemon end a call early.
func (s *Session) cancel(seq uint32) {
	cancel := &call{op: proto.OpCancel}
	n, err := s.begin(cancel)
	if err != nil {
		return
	}
	if s.send(proto.Header{Op: proto.OpCancel, Seq: n}, &proto.Cancel{Seq: seq}, nil) != nil {
		s.forget(n)
	}
}

// send sends a request. That the daemon is gone is for the reader to find out, after
// what it has said last.
func (s *Session) send(h proto.Header, body any, fds []int) error {
	b, err := proto.Append(nil, h, body)
	if err != nil {
		return err
	}
	if err := s.conn.Send(b, fds...); err != nil && !errors.Is(err, shm.ErrClosed) {
		return fmt.Errorf("send %v to the daemon: %w", h.Op, err)
	}
	return nil
}

// take makes a result of a reply.
func (r *reply) take(op proto.Op, rep any) (shm.FDs, error) {
	if r.status != proto.StatusOK {
		r.fds.Close()
		var f proto.Failure
		if err := proto.Decode(r.body, &f); err != nil {
			return nil, fmt.Errorf("%w: %v failed with %v: %w", ErrProtocol, op, r.status, err)
		}
		return nil, &Error{Op: op, Status: r.status, Text: proto.Text(f.Text[:])}
	}
	if rep == nil {
		rep = &proto.Empty{}
	}
	if err := proto.Decode(r.body, rep); err != nil {
		r.fds.Close()
		return nil, fmt.Errorf("%w: reply to %v: %w", ErrProtocol, op, err)
	}
	if r.err != nil {
		r.fds.Close()
		return nil, r.err
	}
	return r.fds, nil
}

// Do is Call without descriptors, for requests that end by themselves: what the reply
// brings of them is closed.
func (s *Session) Do(op proto.Op, req, rep any) error {
	fds, err := s.Call(context.Background(), op, req, rep)
	fds.Close()
	return err
}

// List asks for the entries of a list until it has all of them. part splits a reply
// into the length of the list, the number of its own entries, and those.
func List[R, E any](ctx context.Context, s *Session, op proto.Op, part func(*R) (total, count uint32, entries []E)) ([]E, error) {
	var all []E
	for {
		rep := new(R)
		fds, err := s.Call(ctx, op, &proto.Page{First: uint32(len(all))}, rep)
		fds.Close()
		if err != nil {
			return nil, err
		}
		total, count, entries := part(rep)
		if uint64(count) > uint64(len(entries)) {
			return nil, fmt.Errorf("%w: %v with %d of %d entries", ErrProtocol, op, count, len(entries))
		}
		all = append(all, entries[:count]...)
		// A list that has become shorter meanwhile ends early.
		if count == 0 || uint64(len(all)) >= uint64(total) {
			return all, nil
		}
	}
}
