package verbs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// QPInitAttr says what a queue pair is made of (ibv_qp_init_attr). Capacities
// that are 0 get defaults: 128 work requests, 1 entry each. With SRQ, and of an
// initiator of type XRCSend, those of receives are 0 whatever they were.
type QPInitAttr struct {
	Type    QPType
	SendCQ  *CQ
	RecvCQ  *CQ  // nil with XRCSend, which receives nothing
	SRQ     *SRQ // where receives come from; nil: a receive queue of its own
	Cap     QPCap
	SigAll  bool   // every send work request generates a completion
	Context uint64 // comes back in each completion

	// Congestion is what the queue pair does when its peer reports congestion; by
	// default what the device is configured to. Datagrams do not react.
	Congestion Congestion
}

// QP is a queue pair (ibv_qp).
type QP struct {
	ctx            *Context
	pd             *PD   // nil: a target, which has its domain
	xrcd           *XRCD // of a target
	p              ProviderQP
	typ            QPType
	cap            QPCap
	sendCQ, recvCQ *CQ
	srq            *SRQ
	sigAll         bool
	context        uint64
	congestion     Congestion
	gone           atomic.Bool
	state          atomic.Uint32 // last state set by Modify; ERR may have followed

	modify turn // one Modify at a time; before the following
	sqMu   sync.Mutex
	sq     *queue.Producer
	rqMu   sync.Mutex
	rq     *queue.Producer
}

const defaultWR = 128

// CreateQP makes a queue pair in RESET.
func (pd *PD) CreateQP(attr *QPInitAttr) (*QP, error) {
	p, err := pd.checkInit(attr)
	if err != nil {
		return nil, opErr("create qp", pd.name(), err)
	}
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, opErr("create qp", pd.name(), ErrClosed)
	}
	if err := pd.ctx.alive(); err != nil {
		return nil, opErr("create qp", pd.name(), err)
	}
	pq, err := pd.ctx.p.CreateQP(p)
	if err != nil {
		return nil, opErr("create qp", pd.name(), err)
	}
	q := &QP{
		ctx: pd.ctx, pd: pd, p: pq, typ: attr.Type, cap: p.Cap, sendCQ: attr.SendCQ, recvCQ: attr.RecvCQ, srq: attr.SRQ,
		sigAll: attr.SigAll, context: attr.Context, congestion: attr.Congestion,
		modify: newTurn(), sq: newProducer(pq.SQ()), rq: newProducer(pq.RQ()),
	}
	if q.srq != nil {
		q.srq.qps.Add(1)
	}
	pd.qps++
	q.sendCQ.qps.Add(1)
	if q.recvCQ != nil {
		q.recvCQ.qps.Add(1)
	}
	q.register()
	return q, nil
}

// register makes the queue pair known to its device.
func (q *QP) register() {
	q.ctx.mu.Lock()
	q.ctx.qps[q.p] = q
	q.ctx.mu.Unlock()
}

func (pd *PD) checkInit(attr *QPInitAttr) (*ProviderQPInit, error) {
	cqs, err := completionQueues(attr)
	if err != nil {
		return nil, err
	}
	for _, cq := range cqs {
		if cq.ctx != pd.ctx {
			return nil, invalid("the completion queue belongs to another device")
		}
		if err := cq.Err(); err != nil {
			return nil, fmt.Errorf("completion queue: %w", err)
		}
	}
	if !attr.Congestion.Valid() {
		return nil, invalid("Congestion is %v: 0 to %d are possible", attr.Congestion, CongestionDCQCN)
	}
	c := attr.Cap
	for _, l := range []struct {
		name     string
		v        *int
		def, max int
	}{
		{"MaxSendWR", &c.MaxSendWR, defaultWR, MaxQPWR},
		{"MaxRecvWR", &c.MaxRecvWR, defaultWR, MaxQPWR},
		{"MaxSendSGE", &c.MaxSendSGE, 1, MaxSGE},
		{"MaxRecvSGE", &c.MaxRecvSGE, 1, MaxSGE},
		{"MaxInline", &c.MaxInline, 0, MaxInline},
	} {
		if *l.v < 0 || *l.v > l.max {
			return nil, invalid("%s is %d: 0 to %d are possible", l.name, *l.v, l.max)
		}
		if *l.v == 0 {
			*l.v = l.def
		}
	}
	init := &ProviderQPInit{
		PD: pd.handle, Type: attr.Type, SendCQ: attr.SendCQ.p,
		Cap: c, SigAll: attr.SigAll, Context: attr.Context, Congestion: attr.Congestion,
	}
	if attr.RecvCQ != nil {
		init.RecvCQ = attr.RecvCQ.p
	} else {
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = 0, 0
	}
	if s := attr.SRQ; s != nil {
		if s.pd.ctx != pd.ctx {
			return nil, invalid("the shared receive queue belongs to another device")
		}
		if s.gone.Load() {
			return nil, fmt.Errorf("shared receive queue: %w", ErrClosed)
		}
		init.SRQ, init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = s.p, 0, 0
	}
	return init, nil
}

// completionQueues are those that a queue pair of attr must have.
func completionQueues(attr *QPInitAttr) ([]*CQ, error) {
	switch {
	case attr != nil && attr.Type == XRCRecv:
		return nil, invalid("a queue pair of type XRC_RECV has no protection domain: make it with XRCD.CreateQP")
	case attr != nil && attr.Type == XRCSend && (attr.RecvCQ != nil || attr.SRQ != nil):
		return nil, invalid("a queue pair of type XRC_SEND receives nothing: leave RecvCQ and SRQ away")
	case attr != nil && attr.Type == XRCSend && attr.SendCQ != nil:
		return []*CQ{attr.SendCQ}, nil
	case attr == nil || attr.SendCQ == nil || attr.RecvCQ == nil:
		return nil, invalid("a queue pair needs a send and a receive completion queue")
	}
	return []*CQ{attr.SendCQ, attr.RecvCQ}, nil
}

// Num is the queue pair number.
func (q *QP) Num() uint32 { return q.p.QPN() }

// Type is the transport service.
func (q *QP) Type() QPType { return q.typ }

// Cap are the capacities that the queue pair really has.
func (q *QP) Cap() QPCap { return q.cap }

// InitAttr is what the queue pair is made of, with the capacities that it really
// has.
func (q *QP) InitAttr() QPInitAttr {
	return QPInitAttr{
		Type: q.typ, SendCQ: q.sendCQ, RecvCQ: q.recvCQ, SRQ: q.srq, Cap: q.cap, SigAll: q.sigAll, Context: q.context, Congestion: q.congestion,
	}
}

// PD is the protection domain of the queue pair, nil of an XRC target.
func (q *QP) PD() *PD { return q.pd }

func (q *QP) name() string { return fmt.Sprintf("qp %#x", q.p.QPN()) }

// Modify sets the attributes that mask names and moves the queue pair to
// attr.State when mask has AttrState. A transition that misses a required
// attribute, or sets one that it does not take, changes nothing; the error names
// the attribute (IBTA vol. 1, 11.2.4.2).
//
// With AttrAV it finds the way to the peer first and waits for the next hop to answer,
// for 3 s at most; errors of that are ErrNoRoute, ErrNoNeighbour and ErrNoGID.
// Meanwhile work can be posted, and the queue pair destroyed.
func (q *QP) Modify(attr *QPAttr, mask AttrMask) error {
	return q.ModifyContext(context.Background(), attr, mask)
}

// ModifyContext is Modify which waits until ctx ends, if that has a deadline also
// longer than 3 s. When ctx is cancelled the error is that of ctx, unless all was done
// by then; with an error nothing has changed.
func (q *QP) ModifyContext(ctx context.Context, attr *QPAttr, mask AttrMask) error {
	if attr == nil {
		return opErr("modify", q.name(), invalid("no attributes"))
	}
	if q.gone.Load() {
		return opErr("modify", q.name(), ErrClosed)
	}
	if err := q.modify.take(ctx); err != nil {
		return opErr("modify", q.name(), err)
	}
	defer q.modify.give()
	if mask&ibv.QPAttrState != 0 && attr.State == QPStateReset {
		// Both producers stand still while RESET empties the queues.
		q.sqMu.Lock()
		q.rqMu.Lock()
		defer q.sqMu.Unlock()
		defer q.rqMu.Unlock()
	}
	if err := q.p.Modify(ctx, attr, mask); err != nil {
		return opErr("modify", q.name(), err)
	}
	if mask&ibv.QPAttrState != 0 {
		q.state.Store(uint32(attr.State))
	}
	return nil
}

// Query tells the attributes last set and the state the queue pair is in now. From
// RTR on RQPSN is the PSN that is expected next, from RTS on SQPSN that of the next
// new packet.
func (q *QP) Query() (QPAttr, error) {
	if q.gone.Load() {
		return QPAttr{}, opErr("query", q.name(), ErrClosed)
	}
	a, err := q.p.Query()
	return a, opErr("query", q.name(), err)
}

// Destroy frees the queue pair. Work requests that have not completed are
// dropped without a completion. Destroying twice is no error.
func (q *QP) Destroy() error {
	if q.gone.Swap(true) {
		return nil
	}
	q.sqMu.Lock()
	q.rqMu.Lock()
	err := q.p.Destroy()
	q.rqMu.Unlock()
	q.sqMu.Unlock()
	q.ctx.mu.Lock()
	delete(q.ctx.qps, q.p)
	q.ctx.mu.Unlock()
	if q.xrcd != nil {
		q.xrcd.leave()
		return opErr("destroy", q.name(), err)
	}
	q.sendCQ.qps.Add(-1)
	if q.recvCQ != nil {
		q.recvCQ.qps.Add(-1)
	}
	if q.srq != nil {
		q.srq.qps.Add(-1)
	}
	q.pd.mu.Lock()
	q.pd.qps--
	q.pd.mu.Unlock()
	return opErr("destroy", q.name(), err)
}
