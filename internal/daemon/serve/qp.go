package serve

import (
	"math"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// providerQP is a queue pair whose doorbells lie in shared memory.
type providerQP interface {
	verbs.ProviderQP
	Worker() int // that has it
	Slot() int   // of its doorbell, among those of the client with this worker
}

// queuePair is a queue pair of a client.
type queuePair struct {
	p        providerQP
	typ      ibv.QPType
	pd, xrcd uint32
	send     uint64 // handles of completion queues, 0: none
	recv     uint64
	srq      uint64
}

func createQP(r *resources, _ *request, m *proto.CreateQP) (any, error) {
	init := &verbs.ProviderQPInit{
		PD: m.PD, Type: ibv.QPType(m.Type), XRCD: m.XRCD, Cap: m.Cap.IBV(), SigAll: m.SigAll != 0, Context: m.Context,
		Congestion: ibv.Congestion(m.Congestion),
	}
	for _, c := range []struct {
		handle uint64
		to     *verbs.ProviderCQ
	}{{m.SendCQ, &init.SendCQ}, {m.RecvCQ, &init.RecvCQ}} {
		if c.handle == 0 {
			continue
		}
		cq, err := r.cqs.get(c.handle)
		if err != nil {
			return nil, err
		}
		*c.to = cq.p
	}
	if m.SRQ != 0 {
		s, err := r.srqs.get(m.SRQ)
		if err != nil {
			return nil, err
		}
		init.SRQ = s.p
	}
	if err := checkCap(init); err != nil {
		return nil, err
	}
	create := func() (verbs.ProviderQP, error) { return r.ns.CreateQP(init) }
	var p verbs.ProviderQP
	var err error
	if init.Type == ibv.QPTypeGSI && r.limits.Privileged {
		p, err = r.dev.gsi.lend(create)
	} else {
		p, err = create()
	}
	if err != nil {
		return nil, err
	}
	return r.addQP(p, queuePair{typ: init.Type, pd: m.PD, xrcd: m.XRCD, send: m.SendCQ, recv: m.RecvCQ, srq: m.SRQ}, proto.QPCapOf(init.Cap))
}

// checkCap brings the capacities of a queue pair into the form that providers take:
// those of what it has are at least 1, those of what it does not have 0.
func checkCap(init *verbs.ProviderQPInit) error {
	c := &init.Cap
	for _, l := range []struct {
		name string
		v    int
		max  int
	}{
		{"MaxSendWR", c.MaxSendWR, ibv.MaxQPWR}, {"MaxRecvWR", c.MaxRecvWR, ibv.MaxQPWR},
		{"MaxSendSGE", c.MaxSendSGE, ibv.MaxSGE}, {"MaxRecvSGE", c.MaxRecvSGE, ibv.MaxSGE}, {"MaxInline", c.MaxInline, ibv.MaxInline},
	} {
		if l.v > l.max {
			return invalid("%s is %d: 0 to %d are possible", l.name, l.v, l.max)
		}
	}
	if init.Type == ibv.QPTypeXRCRecv {
		*c = ibv.QPCap{}
		return nil
	}
	c.MaxSendWR, c.MaxSendSGE = max(c.MaxSendWR, 1), max(c.MaxSendSGE, 1)
	if init.SRQ != nil || init.Type == ibv.QPTypeXRCSend {
		c.MaxRecvWR, c.MaxRecvSGE = 0, 0
	} else {
		c.MaxRecvWR, c.MaxRecvSGE = max(c.MaxRecvWR, 1), max(c.MaxRecvSGE, 1)
	}
	return nil
}

// addQP gives a queue pair a handle and says where its rings and doorbell are.
func (r *resources) addQP(p verbs.ProviderQP, q queuePair, c proto.QPCap) (any, error) {
	q.p = p.(providerQP)
	h, err := r.qps.add(q)
	if err != nil {
		_ = p.Destroy()
		if q.typ == ibv.QPTypeGSI {
			r.dev.gsi.back(r.owner.log)
		}
		return nil, err
	}
	r.objects.name(p, proto.ObjectQP, h)
	r.numbers.add(p.QPN())
	return &proto.QPReply{
		Handle: h, SQ: r.rings.span(p.SQ()), RQ: r.rings.span(p.RQ()), QPN: p.QPN(),
		Worker: uint32(q.p.Worker()), Slot: uint32(max(q.p.Slot(), 0)), Cap: c,
	}, nil
}

func openQP(r *resources, _ *request, m *proto.OpenQP) (any, error) {
	p, err := r.ns.OpenQP(m.XRCD, m.QPN)
	if err != nil {
		return nil, err
	}
	return r.addQP(p, queuePair{typ: ibv.QPTypeXRCRecv, xrcd: m.XRCD}, proto.QPCap{})
}

// modifyQP may wait for the next hop, as long as the client says or the device does.
func modifyQP(r *resources, rq *request, m *proto.ModifyQP) (any, error) {
	q, err := r.qps.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if m.Attr.AV.SGIDIndex > math.MaxInt32 {
		return nil, invalid("SGID index %d", m.Attr.AV.SGIDIndex)
	}
	ctx, cancel := within(rq.ctx, m.WaitNS)
	defer cancel()
	attr := m.Attr.IBV()
	return nil, q.p.Modify(ctx, &attr, ibv.AttrMask(m.Mask))
}

func queryQP(r *resources, _ *request, m *proto.Handle) (any, error) {
	q, err := r.qps.get(m.Handle)
	if err != nil {
		return nil, err
	}
	a, err := q.p.Query()
	if err != nil {
		return nil, err
	}
	rep := proto.QPAttrOf(&a)
	return &rep, nil
}

func destroyQP(r *resources, _ *request, m *proto.Handle) (any, error) {
	q, err := r.qps.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := q.p.Destroy(); err != nil {
		return nil, err
	}
	if r.objects.forget(q.p) { // of two that destroy it at a time, the first
		r.numbers.drop(q.p.QPN())
	}
	r.qps.drop(m.Handle)
	if q.typ == ibv.QPTypeGSI {
		r.dev.gsi.back(r.owner.log)
	}
	return nil, nil
}

func attachMcast(r *resources, _ *request, m *proto.Mcast) (any, error) {
	q, err := r.qps.get(m.Handle)
	if err != nil {
		return nil, err
	}
	return nil, q.p.AttachMulticast(m.Group)
}

func detachMcast(r *resources, _ *request, m *proto.Mcast) (any, error) {
	q, err := r.qps.get(m.Handle)
	if err != nil {
		return nil, err
	}
	return nil, q.p.DetachMulticast(m.Group)
}

func createAH(r *resources, q *request, m *proto.CreateAH) (any, error) {
	ctx, cancel := within(q.ctx, m.WaitNS)
	defer cancel()
	av := m.AV.IBV()
	ah, err := r.ns.CreateAH(ctx, m.PD, &av)
	return &proto.AH{AH: ah}, err
}

func destroyAH(r *resources, _ *request, m *proto.AH) (any, error) {
	return nil, r.ns.DestroyAH(m.AH)
}
