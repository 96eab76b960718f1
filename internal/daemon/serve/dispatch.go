package serve

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// request is what a handler needs besides the body.
type request struct {
	ctx   context.Context
	fds   shm.FDs    // that came along
	out   []int      // go with the reply
	given []*os.File // of them, those that are closed then
}

// give has a descriptor go with the reply; whatever becomes of that, it is closed.
func (r *request) give(f *os.File) {
	r.out, r.given = append(r.out, int(f.Fd())), append(r.given, f)
}

// lend has descriptors go with the reply that stay the session's.
func (r *request) lend(fds ...int) { r.out = append(r.out, fds...) }

func (r *request) close() {
	for _, f := range r.given {
		_ = f.Close() // the client has its copy, or will get none
	}
}

// handler executes a kind of request.
type handler struct {
	slow bool // may wait: has a goroutine of its own
	fds  int  // how many descriptors come with it
	// parse decodes the body and returns what executes the request.
	parse func(body []byte) (func(*session, *request) (any, error), error)
}

// on makes a handler of a function of the body.
func on[T any](f func(*session, *request, *T) (any, error)) handler {
	return handler{parse: func(body []byte) (func(*session, *request) (any, error), error) {
		req := new(T)
		if err := proto.Decode(body, req); err != nil {
			return nil, err
		}
		return func(s *session, r *request) (any, error) { return f(s, r, req) }, nil
	}}
}

// in makes a handler of a request about the open device.
func in[T any](f func(*resources, *request, *T) (any, error)) handler {
	return on(func(s *session, r *request, req *T) (any, error) {
		res := s.opened()
		if res == nil {
			return nil, fmt.Errorf("%w: OPEN comes first", errProtocol)
		}
		return f(res, r, req)
	})
}

func (h handler) slowly() handler { h.slow = true; return h }

func (h handler) taking(fds int) handler { h.fds = fds; return h }

// handle executes a message. An error means that the session cannot go on; what is
// wrong with a request is a reply.
func (s *session) handle(packet []byte, fds shm.FDs) error {
	h, body, err := proto.Parse(packet)
	if err != nil {
		return err
	}
	if !s.greeted && h.Op != proto.OpHello {
		return fmt.Errorf("%w: %v before HELLO", errProtocol, h.Op)
	}
	op, ok := handlers[h.Op]
	var run func(*session, *request) (any, error)
	switch {
	case !ok:
		err = fmt.Errorf("%w: %v is not known", errProtocol, h.Op)
	case h.Status != proto.StatusOK:
		err = fmt.Errorf("%w: %v with status %v: requests have none", errProtocol, h.Op, h.Status)
	case int(h.FDs) != len(fds) || len(fds) != op.fds:
		err = fmt.Errorf("%w: %v came with %d descriptors and says %d, %d are needed", errProtocol, h.Op, len(fds), h.FDs, op.fds)
	default:
		run, err = op.parse(body)
	}
	if err != nil {
		return s.reply(h, &request{}, nil, err)
	}
	if op.slow {
		err = s.calls.start(s.ctx, h.Seq, func(ctx context.Context) func() {
			r := &request{ctx: ctx}
			rep, err := any(nil), ctx.Err()
			if err == nil {
				rep, err = run(s, r)
			}
			return func() {
				if err := s.reply(h, r, rep, err); err != nil {
					s.kill(err)
				}
			}
		})
		if err != nil {
			return s.reply(h, &request{}, nil, err)
		}
		return nil
	}
	r := &request{ctx: s.ctx, fds: fds}
	rep, err := run(s, r)
	if err := s.reply(h, r, rep, err); err != nil {
		return err
	}
	if s.refusal != nil { // it has been told
		return s.refusal
	}
	return nil
}

// reply answers a request: with body, or with what went wrong. Its error means that
// the client does not read, or is gone.
func (s *session) reply(h proto.Header, r *request, body any, why error) error {
	defer r.close()
	out := proto.Header{Op: h.Op, Seq: h.Seq, Status: statusOf(why)}
	var fds []int
	if why != nil {
		f := &proto.Failure{}
		proto.PutText(f.Text[:], why.Error())
		body = f
	} else {
		fds = r.out
		out.FDs = uint16(len(fds))
	}
	if body == nil {
		body = &proto.Empty{}
	}
	b, err := proto.Append(nil, out, body)
	if err != nil {
		return err
	}
	// Who does not read for that long is thrown out; until then it keeps nobody else
	// from anything.
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.srv.cfg.patience)); err != nil {
		return err
	}
	if err := s.conn.Send(b, fds...); err != nil {
		return fmt.Errorf("reply to %v: %w", h.Op, err)
	}
	return nil
}
