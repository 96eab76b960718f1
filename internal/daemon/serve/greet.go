package serve

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// hello agrees on a version, and tells a client that may not why.
func hello(s *session, _ *request, m *proto.Hello) (any, error) {
	switch {
	case s.greeted:
		return nil, fmt.Errorf("%w: a second HELLO", errProtocol)
	case m.Magic != proto.Magic:
		return nil, fmt.Errorf("%w: HELLO with magic %#x, not %#x", errProtocol, m.Magic, proto.Magic)
	case m.MinVersion > proto.Version || m.MaxVersion < proto.MinVersion || m.MinVersion > m.MaxVersion:
		return nil, fmt.Errorf("%w: the program speaks %d to %d, the daemon %d to %d: update the older of the two",
			errVersion, m.MinVersion, m.MaxVersion, proto.MinVersion, proto.Version)
	case s.refusal != nil:
		s.say(slog.LevelInfo, "client refused", "client", s.id, "err", s.refusal)
		return nil, refused(s.refusal)
	}
	if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	s.greeted = true
	rep := &proto.HelloReply{Version: min(m.MaxVersion, proto.Version), Devices: uint32(len(s.srv.offered(&s.limits)))}
	proto.PutText(rep.Daemon[:], s.srv.cfg.Name)
	return rep, nil
}

// refused is an error of the policy as the client gets it: StatusPermission, unless
// it is a limit.
func refused(err error) error {
	if s := statusOf(err); s == proto.StatusLimit || s == proto.StatusPermission {
		return err
	}
	return fmt.Errorf("%w: %w", verbs.ErrPermission, err)
}

// devices lists what the client may open.
func devices(s *session, _ *request, m *proto.Page) (any, error) {
	all := s.srv.offered(&s.limits)
	rep := &proto.DevicesReply{Total: uint32(len(all))}
	for _, d := range page(all, m.First, len(rep.Entry)) {
		e := &rep.Entry[rep.Count]
		proto.PutText(e.Name[:], d.name)
		// A device that is being removed is listed without what it does not tell.
		if a, err := d.ctx.QueryDevice(); err == nil {
			e.NodeGUID = a.NodeGUID
		}
		if p, err := d.ctx.QueryPort(); err == nil {
			e.IfIndex, e.NetNS, e.State = uint32(p.IfIndex), p.NetNS, uint32(p.State)
		}
		rep.Count++
	}
	return rep, nil
}

// page is the part of a list that begins at first, of at most n entries.
func page[T any](list []T, first uint32, n int) []T {
	if uint64(first) >= uint64(len(list)) {
		return nil
	}
	list = list[first:]
	return list[:min(n, len(list))]
}

// cancelCall ends another request early.
func cancelCall(s *session, _ *request, m *proto.Cancel) (any, error) {
	s.calls.cancel(m.Seq)
	return nil, nil
}
