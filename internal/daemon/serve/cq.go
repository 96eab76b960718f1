package serve

import (
	"math"
	"os"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// providerCQ is a completion queue that tells of its events by a call, which nobody
// has to wait for.
type providerCQ interface {
	verbs.ProviderCQ
	OnEvent(f func())
}

// completions is a completion queue of a client, and the way to wake who waits for
// it.
type completions struct {
	p      providerCQ
	notify *shm.Notifier
}

// newNotices makes the way to wake who waits for a completion queue, and the client's end.
func (r *resources) newNotices() (*shm.Notifier, *os.File, error) {
	files, uid := r.owner.srv.files, r.owner.cred.UID
	if err := files.take(uid); err != nil {
		return nil, nil, err
	}
	notify, theirs, err := shm.NewNotifier()
	if err != nil {
		files.give(uid, 1)
	}
	return notify, theirs, err
}

// endNotices undoes that: the client sees the end of the stream.
func (r *resources) endNotices(c *completions) error {
	r.owner.srv.files.give(r.owner.cred.UID, 1)
	return c.notify.Close()
}

func createCQ(r *resources, q *request, m *proto.CreateCQ) (any, error) {
	if m.Entries == 0 || m.Entries > ibv.MaxCQE {
		return nil, invalid("%d entries: 1 to %d are possible", m.Entries, ibv.MaxCQE)
	}
	notify, theirs, err := r.newNotices()
	if err != nil {
		return nil, err
	}
	q.give(theirs)
	c := &completions{notify: notify}
	p, err := r.ns.CreateCQ(int(m.Entries))
	if err != nil {
		_ = r.endNotices(c)
		return nil, err
	}
	c.p = p.(providerCQ)
	h, err := r.cqs.add(c)
	if err != nil {
		_ = p.Destroy()
		_ = r.endNotices(c)
		return nil, err
	}
	c.p.OnEvent(notify.Notify)
	r.objects.name(p, proto.ObjectCQ, h)
	return &proto.CQReply{Handle: h, Ring: r.rings.span(p.Ring())}, nil
}

func resizeCQ(r *resources, _ *request, m *proto.ResizeCQ) (any, error) {
	c, err := r.cqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if m.Entries == 0 || m.Entries > ibv.MaxCQE {
		return nil, invalid("%d entries: 1 to %d are possible", m.Entries, ibv.MaxCQE)
	}
	if err := c.p.Resize(int(m.Entries)); err != nil {
		return nil, err
	}
	return &proto.CQReply{Handle: m.Handle, Ring: r.rings.span(c.p.Ring())}, nil
}

func modifyCQ(r *resources, _ *request, m *proto.ModifyCQ) (any, error) {
	c, err := r.cqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if m.Count > ibv.MaxCQCount || m.PeriodNS > uint64(ibv.MaxCQPeriod) {
		return nil, invalid("count %d, period %d ns: 0 to %d and 0 to %v are possible", m.Count, m.PeriodNS, ibv.MaxCQCount, ibv.MaxCQPeriod)
	}
	return nil, c.p.Modify(int(m.Count), time.Duration(m.PeriodNS))
}

func queryCQ(r *resources, _ *request, m *proto.Handle) (any, error) {
	c, err := r.cqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	a, err := c.p.Query()
	if err != nil {
		return nil, err
	}
	return &proto.CQAttr{
		PeriodNS: uint64(a.Period), Entries: uint32(min(a.Entries, math.MaxInt32)), Count: uint32(a.Count), Overflowed: proto.Bool(a.Overflowed),
	}, nil
}

func destroyCQ(r *resources, _ *request, m *proto.Handle) (any, error) {
	c, err := r.cqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := c.p.Destroy(); err != nil {
		return nil, err
	}
	r.objects.forget(c.p)
	r.cqs.drop(m.Handle)
	return nil, r.endNotices(c)
}
