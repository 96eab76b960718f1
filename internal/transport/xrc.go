package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// XRCD is an XRC domain: the shared receive queues that its targets, queue pairs
// of type XRC_RECV, serve (IBTA vol. 1, annex A14). Every request names one of
// them. It brings the receive that a SEND takes, the completion queue, and the
// protection domain of the keys that the request names: a target has none of
// these of its own, so that one connection to a host serves all its programs.
//
// All queues and targets of a domain belong to one worker; like an SRQ it has no
// lock.
type XRCD struct {
	srqs map[uint32]*SRQ
}

// NewXRCD makes a domain without queues.
func NewXRCD() *XRCD { return &XRCD{srqs: map[uint32]*SRQ{}} }

// NewXRCSRQ makes the consuming side of a shared receive queue whose receives
// complete to cq. Requests name it by num, of 24 bits, once it is in a domain.
func NewXRCSRQ(ring *queue.Ring, pd memory.PD, cq *CQ, num uint32) *SRQ {
	s := NewSRQ(ring, pd)
	s.cq, s.num = cq, num
	return s
}

// Add puts s, of NewXRCSRQ, into the domain, which has no other of its number.
func (d *XRCD) Add(s *SRQ) {
	d.srqs[s.num] = s
	s.xrcd = d
}

// Remove takes s out of the domain: a request that names it is an error from now
// on, and a message that has come in part gets no completion any more.
func (d *XRCD) Remove(s *SRQ) {
	if s.xrcd != d {
		return
	}
	delete(d.srqs, s.num)
	s.xrcd = nil
}

// Num is the number by which requests name a queue of an XRC domain; 0 of others.
func (s *SRQ) Num() uint32 { return s.num }

// respCheckXRCETH finds the queue that the request names. A number that the
// target's domain does not have is answered as a wrong key is, whether another
// domain has it or not: a peer learns nothing about domains that it does not
// belong to. A message stays with the queue that its first packet has named.
func (q *QP) respCheckXRCETH(x *respPacket) respState {
	r, num := &q.resp, x.p.XRCETH().SRQN()
	if s := r.srq; s != nil && s.num == num && s.xrcd != nil {
		return respChkResource
	}
	s := q.cfg.XRCD.srqs[num]
	switch {
	case s == nil:
		return respErrXRCETH
	case x.p.Info.Pos&wire.First == 0:
		return respErrOpSeq
	}
	r.srq, r.rq, r.cq, r.pd = s, s.cons, s.cq, s.pd
	r.wqe.fit(s.cons.Ring().ElemSize())
	return respChkResource
}
