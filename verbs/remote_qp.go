package verbs

import (
	"context"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// remoteQP is a queue pair of a daemon. It implements ProviderQP.
type remoteQP struct {
	d      *remote
	id     remoteID
	num    uint32
	sq, rq *queue.Ring
	bell   session.Bell
	keep   [2]*session.Mapping
}

func (d *remote) CreateQP(attr *ProviderQPInit) (ProviderQP, error) {
	m := &proto.CreateQP{
		PD: attr.PD, XRCD: attr.XRCD, Context: attr.Context, Cap: proto.QPCapOf(attr.Cap),
		Type: uint8(attr.Type), SigAll: proto.Bool(attr.SigAll), Congestion: uint8(attr.Congestion),
	}
	var err error
	if m.SendCQ, err = d.handleOfCQ(attr.SendCQ); err != nil {
		return nil, err
	}
	if m.RecvCQ, err = d.handleOfCQ(attr.RecvCQ); err != nil {
		return nil, err
	}
	if attr.SRQ != nil {
		s, ok := attr.SRQ.(*remoteSRQ)
		if !ok || s.d != d {
			return nil, invalid("a shared receive queue of another device")
		}
		m.SRQ = s.id.handle
	}
	return d.queuePair(proto.OpCreateQP, m)
}

func (d *remote) OpenQP(xrcd, qpn uint32) (ProviderQP, error) {
	return d.queuePair(proto.OpOpenQP, &proto.OpenQP{XRCD: xrcd, QPN: qpn})
}

// queuePair makes a queue pair of the reply to a request.
func (d *remote) queuePair(op proto.Op, req any) (ProviderQP, error) {
	var r proto.QPReply
	if err := d.do(op, req, &r); err != nil {
		return nil, err
	}
	q := &remoteQP{d: d, id: remoteID{proto.ObjectQP, r.Handle}, num: r.QPN}
	if err := q.attach(&r); err != nil {
		_ = d.release(proto.OpDestroyQP, &proto.Handle{Handle: r.Handle}) // the first error counts
		return nil, fromDaemon(err)
	}
	d.put(q.id, q)
	return q, nil
}

// attach finds the rings, and the doorbell if there is one.
func (q *remoteQP) attach(r *proto.QPReply) (err error) {
	if q.sq, q.keep[0], err = q.d.ring(&r.SQ); err != nil {
		return err
	}
	if q.rq, q.keep[1], err = q.d.ring(&r.RQ); err != nil {
		return err
	}
	if q.sq != nil || q.rq != nil {
		q.bell, err = q.d.s.Bell(r.Worker, r.Slot)
	}
	return err
}

func (q *remoteQP) QPN() uint32 { return q.num }

func (q *remoteQP) SQ() *queue.Ring { return q.sq }

func (q *remoteQP) RQ() *queue.Ring { return q.rq }

// Doorbell rings for the worker, which is a system call only when that sleeps.
func (q *remoteQP) Doorbell() { q.bell.Ring() }

// RecvDoorbell rings if the daemon wants to know of receives, as it says in their
// ring: when it flushes them.
func (q *remoteQP) RecvDoorbell() {
	if q.rq.Arm().Load() != queue.ArmNone {
		q.bell.Ring()
	}
}

// Modify waits in the daemon. A context that ends ends that, and what the daemon says
// then is what has become of it.
func (q *remoteQP) Modify(ctx context.Context, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	return q.d.wait(ctx, proto.OpModifyQP, &proto.ModifyQP{Handle: q.id.handle, WaitNS: session.WaitNS(ctx), Attr: proto.QPAttrOf(attr), Mask: uint32(mask)}, nil)
}

func (q *remoteQP) Query() (ibv.QPAttr, error) {
	var r proto.QPAttr
	if err := q.d.do(proto.OpQueryQP, &proto.Handle{Handle: q.id.handle}, &r); err != nil {
		return ibv.QPAttr{}, err
	}
	return r.IBV(), nil
}

func (q *remoteQP) AttachMulticast(group ibv.GID) error {
	return q.d.do(proto.OpAttachMcast, &proto.Mcast{Handle: q.id.handle, Group: group}, nil)
}

func (q *remoteQP) DetachMulticast(group ibv.GID) error {
	return q.d.do(proto.OpDetachMcast, &proto.Mcast{Handle: q.id.handle, Group: group}, nil)
}

func (q *remoteQP) Destroy() error {
	if err := q.d.release(proto.OpDestroyQP, &proto.Handle{Handle: q.id.handle}); err != nil {
		return err
	}
	q.d.drop(q.id)
	return nil
}

func (d *remote) CreateAH(ctx context.Context, pd uint32, av *ibv.AddressVector) (uint32, error) {
	var r proto.AH
	err := d.wait(ctx, proto.OpCreateAH, &proto.CreateAH{AV: proto.AVOf(av), WaitNS: session.WaitNS(ctx), PD: pd}, &r)
	return r.AH, err
}

func (d *remote) DestroyAH(ah uint32) error { return d.release(proto.OpDestroyAH, &proto.AH{AH: ah}) }
