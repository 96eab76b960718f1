package verbs

import (
	"fmt"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// remoteSRQ is a shared receive queue of a daemon. It implements ProviderSRQ.
type remoteSRQ struct {
	d    *remote
	id   remoteID
	num  uint32
	now  atomic.Pointer[queue.Ring]
	keep []*session.Mapping // memory of all rings that there were
}

func srqAttrOf(a *ibv.SRQAttr) proto.SRQAttr {
	return proto.SRQAttr{MaxWR: uint32(a.MaxWR), MaxSGE: uint32(a.MaxSGE), Limit: uint32(a.Limit)}
}

func (d *remote) CreateSRQ(attr *ProviderSRQInit) (ProviderSRQ, error) {
	m := &proto.CreateSRQ{PD: attr.PD, XRCD: attr.XRCD, Attr: srqAttrOf(&attr.Attr)}
	var err error
	if m.CQ, err = d.handleOfCQ(attr.CQ); err != nil {
		return nil, err
	}
	var r proto.SRQReply
	if err := d.do(proto.OpCreateSRQ, m, &r); err != nil {
		return nil, err
	}
	s := &remoteSRQ{d: d, id: remoteID{proto.ObjectSRQ, r.Handle}, num: r.Num}
	if err := s.take(&r); err != nil {
		_ = d.release(proto.OpDestroySRQ, &proto.Handle{Handle: r.Handle}) // the first error counts
		return nil, err
	}
	d.put(s.id, s)
	return s, nil
}

// handleOfCQ is the handle of a completion queue, 0 of none.
func (d *remote) handleOfCQ(p ProviderCQ) (uint64, error) {
	if p == nil {
		return 0, nil
	}
	c, ok := p.(*remoteCQ)
	if !ok || c.d != d {
		return 0, invalid("a completion queue of another device")
	}
	return c.id.handle, nil
}

func (s *remoteSRQ) take(r *proto.SRQReply) error {
	ring, keep, err := s.d.ring(&r.Ring)
	if err == nil && ring == nil {
		err = fmt.Errorf("%w: a shared receive queue without a ring", session.ErrProtocol)
	}
	if err != nil {
		return err
	}
	s.now.Store(ring)
	s.keep = append(s.keep, keep)
	return nil
}

func (s *remoteSRQ) Ring() *queue.Ring { return s.now.Load() }

func (s *remoteSRQ) Num() uint32 { return s.num }

func (s *remoteSRQ) Modify(attr *ibv.SRQAttr, mask ibv.SRQAttrMask) error {
	var r proto.SRQReply
	if err := s.d.do(proto.OpModifySRQ, &proto.ModifySRQ{Handle: s.id.handle, Attr: srqAttrOf(attr), Mask: uint32(mask)}, &r); err != nil {
		return err
	}
	if mask&ibv.SRQAttrMaxWR == 0 {
		return nil
	}
	return s.take(&r)
}

func (s *remoteSRQ) Query() (ibv.SRQAttr, error) {
	var r proto.SRQAttr
	if err := s.d.do(proto.OpQuerySRQ, &proto.Handle{Handle: s.id.handle}, &r); err != nil {
		return ibv.SRQAttr{}, err
	}
	return ibv.SRQAttr{MaxWR: small(r.MaxWR), MaxSGE: small(r.MaxSGE), Limit: small(r.Limit)}, nil
}

func (s *remoteSRQ) Destroy() error {
	if err := s.d.release(proto.OpDestroySRQ, &proto.Handle{Handle: s.id.handle}); err != nil {
		return err
	}
	s.d.drop(s.id)
	return nil
}

func (d *remote) OpenXRCD(attr *XRCDInitAttr) (uint32, error) {
	m := &proto.OpenXRCD{Create: proto.Bool(attr.Create), Exclusive: proto.Bool(attr.Exclusive)}
	if len(attr.Name) >= len(m.Name) {
		return 0, invalid("the name of an XRC domain has at most %d bytes", len(m.Name)-1)
	}
	proto.PutText(m.Name[:], attr.Name)
	var r proto.XRCD
	err := d.do(proto.OpOpenXRCD, m, &r)
	return r.XRCD, err
}

func (d *remote) CloseXRCD(xrcd uint32) error {
	return d.release(proto.OpCloseXRCD, &proto.XRCD{XRCD: xrcd})
}
