package serve

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// srq is a shared receive queue of a client.
type srq struct {
	p      verbs.ProviderSRQ
	pd     uint32
	xrcd   uint32
	cq     uint64 // handle, 0: none
	maxSGE int
}

// checkSRQ says which attributes no queue can have.
func checkSRQ(a *proto.SRQAttr) error {
	switch {
	case a.MaxWR == 0 || a.MaxWR > ibv.MaxQPWR:
		return invalid("MaxWR is %d: 1 to %d are possible", a.MaxWR, ibv.MaxQPWR)
	case a.Limit > a.MaxWR:
		return invalid("Limit is %d: 0 to MaxWR, which is %d, are possible", a.Limit, a.MaxWR)
	}
	return nil
}

func createSRQ(r *resources, _ *request, m *proto.CreateSRQ) (any, error) {
	if err := checkSRQ(&m.Attr); err != nil {
		return nil, err
	}
	if m.Attr.MaxSGE == 0 || m.Attr.MaxSGE > ibv.MaxSGE {
		return nil, invalid("MaxSGE is %d: 1 to %d are possible", m.Attr.MaxSGE, ibv.MaxSGE)
	}
	if (m.XRCD == 0) != (m.CQ == 0) {
		return nil, invalid("a shared receive queue of an XRC domain has a completion queue, others have none")
	}
	init := &verbs.ProviderSRQInit{PD: m.PD, XRCD: m.XRCD, Attr: srqAttr(&m.Attr)}
	if m.CQ != 0 {
		c, err := r.cqs.get(m.CQ)
		if err != nil {
			return nil, err
		}
		init.CQ = c.p
	}
	p, err := r.ns.CreateSRQ(init)
	if err != nil {
		return nil, err
	}
	h, err := r.srqs.add(srq{p: p, pd: m.PD, xrcd: m.XRCD, cq: m.CQ, maxSGE: int(m.Attr.MaxSGE)})
	if err != nil {
		_ = p.Destroy()
		return nil, err
	}
	r.objects.name(p, proto.ObjectSRQ, h)
	return r.srqReply(h, p), nil
}

func srqAttr(a *proto.SRQAttr) ibv.SRQAttr {
	return ibv.SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.Limit)}
}

func (r *resources) srqReply(h uint64, p verbs.ProviderSRQ) *proto.SRQReply {
	return &proto.SRQReply{Handle: h, Ring: r.rings.span(p.Ring()), Num: p.Num()}
}

func modifySRQ(r *resources, _ *request, m *proto.ModifySRQ) (any, error) {
	s, err := r.srqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	mask := ibv.SRQAttrMask(m.Mask)
	if mask&^(ibv.SRQAttrMaxWR|ibv.SRQAttrLimit) != 0 {
		return nil, invalid("attribute mask %#x: MAX_WR and LIMIT can be set", m.Mask)
	}
	// What the mask does not name stays, and the two have to fit each other.
	a, err := s.p.Query()
	if err != nil {
		return nil, err
	}
	next := proto.SRQAttr{MaxWR: uint32(a.MaxWR), Limit: uint32(a.Limit)}
	if mask&ibv.SRQAttrMaxWR != 0 {
		next.MaxWR = m.Attr.MaxWR
	}
	if mask&ibv.SRQAttrLimit != 0 {
		next.Limit = m.Attr.Limit
	}
	if err := checkSRQ(&next); err != nil {
		return nil, err
	}
	next.MaxSGE = uint32(s.maxSGE)
	attr := srqAttr(&next)
	if err := s.p.Modify(&attr, mask); err != nil {
		return nil, err
	}
	return r.srqReply(m.Handle, s.p), nil
}

func querySRQ(r *resources, _ *request, m *proto.Handle) (any, error) {
	s, err := r.srqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	a, err := s.p.Query()
	if err != nil {
		return nil, err
	}
	return &proto.SRQAttr{MaxWR: uint32(a.MaxWR), MaxSGE: uint32(a.MaxSGE), Limit: uint32(a.Limit)}, nil
}

func destroySRQ(r *resources, _ *request, m *proto.Handle) (any, error) {
	s, err := r.srqs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := s.p.Destroy(); err != nil {
		return nil, err
	}
	r.objects.forget(s.p)
	r.srqs.drop(m.Handle)
	return nil, nil
}

func openXRCD(r *resources, _ *request, m *proto.OpenXRCD) (any, error) {
	a := &verbs.XRCDInitAttr{Name: proto.Text(m.Name[:]), Create: m.Create != 0, Exclusive: m.Exclusive != 0}
	switch {
	case a.Exclusive && !a.Create:
		return nil, invalid("Exclusive needs Create")
	case m.Name[len(m.Name)-1] != 0:
		return nil, invalid("a name of more than %d bytes", len(m.Name)-1)
	case a.Name == "":
		a.Create, a.Exclusive = true, true
	}
	x, err := r.ns.OpenXRCD(a)
	return &proto.XRCD{XRCD: x}, err
}

func closeXRCD(r *resources, _ *request, m *proto.XRCD) (any, error) {
	return nil, r.ns.CloseXRCD(m.XRCD)
}
