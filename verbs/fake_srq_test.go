package verbs_test

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// fakeSRQ is a shared receive queue of the fake device. Nothing takes from it but
// tests.
type fakeSRQ struct {
	pd     uint32
	xrcd   uint32
	num    uint32
	attr   ibv.SRQAttr
	mask   ibv.SRQAttrMask // of the last Modify
	ring   *queue.Ring
	cons   *queue.Consumer
	refuse error // what Modify and Destroy answer
	gone   bool
}

func (f *fakeDevice) CreateSRQ(init *verbs.ProviderSRQInit) (verbs.ProviderSRQ, error) {
	attr := &init.Attr
	r, err := queue.New(attr.MaxWR, queue.RecvElemSize(attr.MaxSGE))
	if err != nil {
		return nil, err
	}
	s := &fakeSRQ{pd: init.PD, xrcd: init.XRCD, attr: *attr, ring: r, cons: queue.NewConsumer(r)}
	if init.XRCD != 0 {
		s.num = uint32(0x51 + len(f.srqs))
	}
	f.srqs = append(f.srqs, s)
	return s, nil
}

func (s *fakeSRQ) Ring() *queue.Ring           { return s.ring }
func (s *fakeSRQ) Num() uint32                 { return s.num }
func (s *fakeSRQ) Query() (ibv.SRQAttr, error) { return s.attr, nil }

func (s *fakeSRQ) Modify(a *ibv.SRQAttr, mask ibv.SRQAttrMask) error {
	if s.refuse != nil {
		return s.refuse
	}
	s.mask, s.attr.Limit = mask, a.Limit
	if mask&ibv.SRQAttrMaxWR == 0 {
		return nil
	}
	r, err := queue.New(a.MaxWR, s.ring.ElemSize())
	if err != nil {
		return err
	}
	p, n := queue.NewProducer(r), s.posted()
	for i := range n {
		copy(p.Slot(i), s.cons.Slot(i))
	}
	p.Publish(n)
	s.ring, s.cons, s.attr.MaxWR = r, queue.NewConsumer(r), a.MaxWR
	return nil
}

func (s *fakeSRQ) Destroy() error {
	s.gone = s.refuse == nil
	return s.refuse
}

func (s *fakeSRQ) posted() int {
	n, ok := s.cons.Avail()
	if !ok {
		panic("producer index cannot be true")
	}
	return n
}

// take is the work request number of the receive that was posted first.
func (s *fakeSRQ) take() uint64 {
	var w queue.RecvWQE
	queue.GetRecv(s.cons.Slot(0), &w)
	s.cons.Release(1)
	return w.WRID
}
