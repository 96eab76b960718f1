package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// FuzzReplies: whatever a daemon answers, a program gets a result or an error.
func FuzzReplies(f *testing.F) {
	for _, m := range proto.Messages {
		b, err := proto.Append(nil, proto.Header{Op: m.Op, Seq: 2}, m.Reply)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(m.Op), b)
	}
	b, err := proto.Append(nil, proto.Header{Op: proto.OpAllocPD, Seq: 2, Status: proto.StatusLimit}, &proto.Failure{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(proto.OpAllocPD), b)
	f.Fuzz(func(t *testing.T, op uint16, packet []byte) {
		d, s := start(t)
		defer s.Close()
		d.answers(proto.Op(op), func(proto.Header, []byte) answer {
			if len(packet) != 0 && len(packet) <= proto.MaxMessage {
				_ = d.conn.Send(packet)
			}
			_ = d.conn.Close()
			return answer{none: true}
		})
		rep := any(&proto.Empty{})
		for _, m := range proto.Messages {
			if m.Op == proto.Op(op) {
				rep = fresh(m.Reply)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		fds, err := s.Call(ctx, proto.Op(op), &proto.Empty{}, rep)
		fds.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("no answer, and no error")
		}
		var e *Error
		if err != nil && !errors.As(err, &e) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrProtocol) {
			t.Errorf("another error: %v", err)
		}
	})
}
