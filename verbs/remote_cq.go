package verbs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// remoteCQ is a completion queue of a daemon. It implements ProviderCQ.
type remoteCQ struct {
	d    *remote
	id   remoteID
	now  atomic.Pointer[queue.Ring]
	wait *shm.Waiter
	keep []*session.Mapping // memory of all rings that there were
}

func (d *remote) CreateCQ(entries int) (ProviderCQ, error) {
	var r proto.CQReply
	fds, err := d.s.Call(context.Background(), proto.OpCreateCQ, &proto.CreateCQ{Entries: uint32(min(entries, math.MaxInt32))}, &r)
	defer func() { fds.Close() }() // of none if it failed
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("%w: %d descriptors of a completion queue", session.ErrProtocol, len(fds))
	}
	c := &remoteCQ{d: d, id: remoteID{proto.ObjectCQ, r.Handle}}
	if err == nil {
		c.wait, err = shm.NewWaiter(fds.Take(0))
	}
	if err == nil {
		err = c.take(&r)
	}
	if err != nil {
		if c.wait != nil {
			err = errors.Join(err, c.wait.Close())
		}
		if r.Handle != 0 { // it was made all the same
			_ = d.release(proto.OpDestroyCQ, &proto.Handle{Handle: r.Handle}) // the first error counts
		}
		return nil, fromDaemon(err)
	}
	d.put(c.id, c)
	return c, nil
}

// take takes over the ring that a reply names.
func (c *remoteCQ) take(r *proto.CQReply) error {
	ring, keep, err := c.d.ring(&r.Ring)
	if err == nil && (ring == nil || ring.ElemSize() != queue.CQESize) {
		err = fmt.Errorf("%w: not the ring of a completion queue", session.ErrProtocol)
	}
	if err != nil {
		return err
	}
	c.now.Store(ring)
	c.keep = append(c.keep, keep)
	return nil
}

func (c *remoteCQ) Ring() *queue.Ring { return c.now.Load() }

func (c *remoteCQ) Resize(entries int) error {
	var r proto.CQReply
	if err := c.d.do(proto.OpResizeCQ, &proto.ResizeCQ{Handle: c.id.handle, Entries: uint32(min(entries, math.MaxInt32))}, &r); err != nil {
		return err
	}
	return c.take(&r)
}

func (c *remoteCQ) Modify(count int, period time.Duration) error {
	return c.d.do(proto.OpModifyCQ, &proto.ModifyCQ{Handle: c.id.handle, PeriodNS: uint64(period), Count: uint32(count)}, nil)
}

func (c *remoteCQ) Query() (CQAttr, error) {
	var r proto.CQAttr
	if err := c.d.do(proto.OpQueryCQ, &proto.Handle{Handle: c.id.handle}, &r); err != nil {
		return CQAttr{}, err
	}
	return CQAttr{Entries: small(r.Entries), Count: small(r.Count), Period: time.Duration(min(r.PeriodNS, math.MaxInt64)), Overflowed: r.Overflowed != 0}, nil
}

func (c *remoteCQ) Progress() bool { return c.d.Progress() }

func (c *remoteCQ) WaitEvent(ctx context.Context) error { return fromDaemon(c.wait.Wait(ctx)) }

func (c *remoteCQ) Destroy() error {
	if err := c.d.release(proto.OpDestroyCQ, &proto.Handle{Handle: c.id.handle}); err != nil {
		return err
	}
	c.d.drop(c.id)
	return c.wait.Close()
}
