package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// SRQInitAttr says what a shared receive queue is made of (ibv_srq_init_attr).
// Capacities that are 0 get defaults: 128 work requests, 1 entry each.
type SRQInitAttr struct {
	MaxWR  int // receives posted, up to MaxQPWR
	MaxSGE int // entries of each, up to MaxSGE
	Limit  int // arms EventSRQLimitReached, as Modify does; 0 does not

	Type SRQType // SRQBasic unless set
	XRCD *XRCD   // SRQXRC: the domain that the queue is in
	CQ   *CQ     // SRQXRC: where its receives complete to
}

// SRQ is a shared receive queue (ibv_srq): queue pairs made with it take their
// receives from it, each message the one that was posted first. Entries name
// regions of the domain of the queue, whatever those of the queue pairs are.
//
// A queue pair in ERR leaves the posted receives to the others. Only the one that
// it was using is flushed; then EventQPLastWQEReached says that it has none any
// more. A queue pair that is destroyed, or goes to RESET, without having been in
// ERR may lose the receive of a message that has come in part.
type SRQ struct {
	pd   *PD
	p    ProviderSRQ
	sge  int
	qps  atomic.Int32
	gone atomic.Bool

	xrcd *XRCD // nil: not of an XRC domain
	cq   *CQ   // of one that is

	mu    sync.Mutex // guards prod and maxWR
	prod  *queue.Producer
	maxWR int
}

// CreateSRQ makes a shared receive queue.
func (pd *PD) CreateSRQ(attr *SRQInitAttr) (*SRQ, error) {
	if attr == nil {
		attr = &SRQInitAttr{}
	}
	init, err := pd.checkSRQInit(attr)
	if err != nil {
		return nil, opErr("create srq", pd.name(), err)
	}
	if attr.XRCD != nil {
		if err := attr.XRCD.enter(); err != nil {
			return nil, opErr("create srq", pd.name(), err)
		}
	}
	s, err := pd.createSRQ(attr, init)
	if err != nil && attr.XRCD != nil {
		attr.XRCD.leave()
	}
	return s, opErr("create srq", pd.name(), err)
}

func (pd *PD) createSRQ(attr *SRQInitAttr, init *ProviderSRQInit) (*SRQ, error) {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, ErrClosed
	}
	if err := pd.ctx.alive(); err != nil {
		return nil, err
	}
	p, err := pd.ctx.p.CreateSRQ(init)
	if err != nil {
		return nil, err
	}
	s := &SRQ{
		pd: pd, p: p, sge: init.Attr.MaxSGE, prod: queue.NewProducer(p.Ring()), maxWR: init.Attr.MaxWR,
		xrcd: attr.XRCD, cq: attr.CQ,
	}
	if s.cq != nil {
		s.cq.qps.Add(1)
	}
	pd.srqs++
	pd.ctx.mu.Lock()
	pd.ctx.srqs[p] = s
	pd.ctx.mu.Unlock()
	return s, nil
}

func (pd *PD) checkSRQInit(attr *SRQInitAttr) (*ProviderSRQInit, error) {
	p := &ProviderSRQInit{PD: pd.handle, Attr: SRQAttr{MaxWR: attr.MaxWR, MaxSGE: attr.MaxSGE, Limit: attr.Limit}}
	switch {
	case attr.Type == SRQXRC:
		if err := attr.XRCD.xrcSRQ(pd, attr, p); err != nil {
			return nil, err
		}
	case attr.Type != SRQBasic:
		return nil, invalid("shared receive queues of type %v: BASIC and XRC are there", attr.Type)
	case attr.XRCD != nil || attr.CQ != nil:
		return nil, invalid("XRCD and CQ are of shared receive queues of type XRC: set Type, or leave them away")
	}
	a := &p.Attr
	if a.MaxWR == 0 {
		a.MaxWR = defaultWR
	}
	if a.MaxSGE == 0 {
		a.MaxSGE = 1
	}
	if a.MaxSGE < 1 || a.MaxSGE > MaxSGE {
		return nil, invalid("MaxSGE is %d: 0 to %d are possible", a.MaxSGE, MaxSGE)
	}
	return p, checkSRQ(a)
}

// checkSRQ checks what Modify can set.
func checkSRQ(a *SRQAttr) error {
	switch {
	case a.MaxWR < 1 || a.MaxWR > MaxQPWR:
		return invalid("MaxWR is %d: 1 to %d are possible", a.MaxWR, MaxQPWR)
	case a.Limit < 0 || a.Limit > a.MaxWR:
		return invalid("Limit is %d: 0 to MaxWR, which is %d, are possible", a.Limit, a.MaxWR)
	}
	return nil
}

// Num is the number by which requests of XRC name the queue (ibv_get_srq_num): what
// peers put into SendWR.RemoteSRQN. It has 24 bits and is 0 of a queue that is not
// of type SRQXRC.
func (s *SRQ) Num() uint32 { return s.p.Num() }

// PD is the protection domain of the queue.
func (s *SRQ) PD() *PD { return s.pd }

func (s *SRQ) name() string { return "srq of " + s.pd.name() }

// PostRecv posts one receive work request. Errors are ErrQueueFull, ErrInvalid
// and ErrClosed; then nothing was posted.
func (s *SRQ) PostRecv(wr *RecvWR) error {
	s.mu.Lock()
	err := s.put(wr, 0)
	if err == nil {
		s.prod.Publish(1)
	}
	s.mu.Unlock()
	return opErr("post receive", "srq", err)
}

// PostRecvBatch posts receive work requests in order. It stops at the first that
// cannot be posted and returns how many were.
func (s *SRQ) PostRecvBatch(wrs []RecvWR) (int, error) {
	s.mu.Lock()
	n, err := 0, error(nil)
	for n < len(wrs) && err == nil {
		if err = s.put(&wrs[n], n); err == nil {
			n++
		}
	}
	if n > 0 {
		s.prod.Publish(n)
	}
	s.mu.Unlock()
	return n, opErr("post receive", "srq", err)
}

// put checks wr and writes it to the i-th unpublished slot.
func (s *SRQ) put(wr *RecvWR, i int) error {
	if err := s.pd.ctx.usable(&s.gone); err != nil {
		return err
	}
	return putRecv(s.prod, wr, i, s.maxWR, s.sge)
}

// Modify sets the attributes that mask names. SRQAttrLimit arms
// EventSRQLimitReached: it comes once, when a message leaves or finds fewer than
// Limit receives, and the limit is 0 from then on. SRQAttrMaxWR resizes the queue,
// whose receives stay posted; it is ErrInvalid when there are more than that.
func (s *SRQ) Modify(attr *SRQAttr, mask SRQAttrMask) error {
	if attr == nil {
		return opErr("modify", s.name(), invalid("no attributes"))
	}
	if mask&^(SRQAttrMaxWR|SRQAttrLimit) != 0 {
		return opErr("modify", s.name(), invalid("attribute mask %#x: SRQAttrMaxWR and SRQAttrLimit can be set", uint32(mask)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return opErr("modify", s.name(), ErrClosed)
	}
	a, err := s.p.Query()
	if err != nil {
		return opErr("modify", s.name(), err)
	}
	a.MaxWR = s.maxWR
	if mask&SRQAttrMaxWR != 0 {
		a.MaxWR = attr.MaxWR
	}
	if mask&SRQAttrLimit != 0 {
		a.Limit = attr.Limit
	}
	if err := checkSRQ(&a); err != nil {
		return opErr("modify", s.name(), err)
	}
	if err := s.p.Modify(&a, mask); err != nil {
		return opErr("modify", s.name(), err)
	}
	if mask&SRQAttrMaxWR != 0 {
		s.prod, s.maxWR = queue.ResumeProducer(s.p.Ring()), a.MaxWR
	}
	return nil
}

// Query tells the capacities, and the limit that is armed now: 0 after its event.
func (s *SRQ) Query() (SRQAttr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return SRQAttr{}, opErr("query", s.name(), ErrClosed)
	}
	a, err := s.p.Query()
	a.MaxWR, a.MaxSGE = s.maxWR, s.sge
	return a, opErr("query", s.name(), err)
}

// Destroy frees the queue. Receives that no message has taken are dropped without
// a completion. It is ErrBusy while queue pairs use it; targets of an XRC domain do
// not count, and answer requests for it with an error from then on. Destroying
// twice is no error.
func (s *SRQ) Destroy() error {
	if n := s.qps.Load(); n > 0 {
		return opErr("destroy", s.name(), fmt.Errorf("%w: %d queue pairs take receives from it: destroy them first", ErrBusy, n))
	}
	// The provider knows of a queue pair that is being made.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return nil
	}
	if err := s.p.Destroy(); err != nil {
		return opErr("destroy", s.name(), err)
	}
	s.gone.Store(true)
	ctx := s.pd.ctx
	ctx.mu.Lock()
	delete(ctx.srqs, s.p)
	ctx.mu.Unlock()
	s.pd.mu.Lock()
	s.pd.srqs--
	s.pd.mu.Unlock()
	if s.xrcd != nil {
		s.cq.qps.Add(-1)
		s.xrcd.leave()
	}
	return nil
}
