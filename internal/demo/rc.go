package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// patience bounds the wait for one completion.
const patience = 20 * time.Second

// rc is one end of a reliable connection with a buffer.
type rc struct {
	name string
	dev  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ
	mr   *verbs.MR
	qp   *verbs.QP
	own  connect.Endpoint
	peer connect.Endpoint
}

// newRC makes one end with a buffer of n bytes, in INIT.
func newRC(name string, h *host, p connect.Path, n int) (*rc, error) {
	r := &rc{name: name, dev: h.dev}
	p.SGIDIndex = h.gid.Index
	p.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	if err := r.build(h, p, n); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rc) build(h *host, p connect.Path, n int) (err error) {
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	buf, err := r.dev.AllocBuffer(n)
	if err != nil {
		return err
	}
	if r.mr, err = r.pd.RegisterMemory(buf, p.Access); err != nil {
		return err
	}
	if r.cq, err = r.dev.CreateCQ(64); err != nil {
		return err
	}
	r.qp, err = r.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16},
	})
	if err != nil {
		return err
	}
	if err := connect.ToInit(r.qp, p); err != nil {
		return err
	}
	r.own = connect.Local(r.qp, h.gid, r.mr)
	return nil
}

// newPair makes two ends and connects them.
func (d *demo) newPair(ctx context.Context, bytes int) (a, b *rc, err error) {
	if a, err = newRC("a", d.a, d.path(), bytes); err != nil {
		return nil, nil, err
	}
	if b, err = newRC("b", d.b, d.path(), bytes); err != nil {
		return nil, nil, errors.Join(err, a.close())
	}
	pathA, pathB := d.path(), d.path()
	pathA.SGIDIndex, pathB.SGIDIndex = d.a.gid.Index, d.b.gid.Index
	err = connect.Connect(ctx, a.qp, pathA, a.own, b.own)
	if err == nil {
		err = connect.Connect(ctx, b.qp, pathB, b.own, a.own)
	}
	if err != nil {
		return nil, nil, errors.Join(err, a.close(), b.close())
	}
	a.peer, b.peer = b.own, a.own
	return a, b, nil
}

// wait waits for the next completion of the end.
func (r *rc) wait(ctx context.Context) (verbs.WC, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var wc [1]verbs.WC
	if _, err := r.cq.Wait(ctx, wc[:]); err != nil {
		return wc[0], fmt.Errorf("%s waits for a completion: %w", r.name, err)
	}
	return wc[0], wc[0].Err()
}

func (r *rc) close() error {
	var err error
	if r.qp != nil {
		err = errors.Join(err, r.qp.Destroy())
	}
	if r.cq != nil {
		err = errors.Join(err, r.cq.Destroy())
	}
	if r.mr != nil {
		buf := r.mr.Bytes()
		err = errors.Join(err, r.mr.Deregister(), r.dev.FreeBuffer(buf))
	}
	if r.pd != nil {
		err = errors.Join(err, r.pd.Dealloc())
	}
	return err
}
