package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// ownerEngine in responderState.owner: this engine executes the requests.
const ownerEngine = 0

// respOp is the message that the last accepted request packet left unfinished.
type respOp uint8

const (
	opNone respOp = iota
	opSend
	opWrite
)

// respFlags are the yes-or-no parts of a responder's state.
type respFlags uint8

const (
	ackDue    respFlags = 1 << iota // an ACKNOWLEDGE is to be sent
	nakDue                          // the NAK or RNR NAK in nak, nakPSN is to be sent
	gapOpen                         // ePSN was NAKed and has not arrived since
	rnrWait                         // that NAK was an RNR NAK
	lastWords                       // in ERR: what is due still goes out, up to the NAK
)

// responderState is the protocol state of a responder: a record of fixed layout
// without pointers, so that it can later live in memory that another executor
// of the same protocol shares. Who is named by owner may change it; generation
// tells two lives of a queue pair apart.
type responderState struct {
	owner      uint32
	generation uint32

	ePSN      psn.PSN // next request packet in order
	ackPSN    psn.PSN // newest executed request packet that is not of a READ
	msn       uint32  // completed messages, 24 bits
	nakPSN    psn.PSN
	va        uint64 // WRITE in progress: address of its next byte
	rkey      uint32 // WRITE in progress: its key
	placed    uint32 // message in progress: bytes placed
	remaining uint32 // WRITE in progress: bytes to come
	savedNext uint32 // index of the next saved result; runs freely
	serve     uint32 // index of the oldest saved result to be sent, savedNext if none
	pending   uint32 // saved results to be sent that hold a READ or atomic credit

	nak   wire.Syndrome
	op    respOp
	flags respFlags
	_     [5]byte
}

func (s *responderState) has(f respFlags) bool { return s.flags&f != 0 }

// responder is the half of a queue pair that executes the peer's requests.
type responder struct {
	st    responderState
	saved []savedResult // ring, a power of two
	ops   *answerOps

	// Where receives come from and complete to, and whose keys a request may name.
	// Of an XRC target it is the shared queue that the newest request has named.
	rq  *queue.Consumer // own or shared, nil if there is none
	srq *SRQ            // nil: not shared
	cq  *CQ
	pd  memory.PD // of R_Keys

	wqe     heldWQE
	kept    keptList
	gap     gapWatch
	patches readPatches
	pace    responsePace
	begin   respState    // first step of a request packet
	find    respState    // step after its operation was found to be granted
	grh     [grhLen]byte // UD: what an IPv4 packet has in place of a GRH
	due     mono.Time    // when something to send came up, valid while there is any
}

// respInit prepares the responder of a new queue pair.
func (q *QP) respInit() {
	r := &q.resp
	r.ops, r.find = &rcAnswers, respChkResource
	switch q.service {
	case wire.UC:
		r.begin = respChkSync
	case wire.UD:
		r.begin = respChkDatagram
	case wire.XRC:
		r.begin, r.ops, r.find = respChkPSN, &xrcAnswers, respChkXRCETH
		if q.cfg.XRCD == nil {
			r.begin = respInitiator
		}
	default:
		r.begin = respChkPSN
	}
	r.srq, r.cq, r.pd = q.cfg.SRQ, q.cfg.RecvCQ, q.cfg.PD
	switch {
	case q.cfg.XRCD != nil:
		// An element of any of the domain's queues has its places; see fit.
		r.wqe.sges = make([]heldSGE, ibv.MaxSGE)
		return
	case q.cfg.SRQ != nil:
		r.rq = q.cfg.SRQ.cons
	case q.cfg.RQ != nil:
		r.rq = queue.NewConsumer(q.cfg.RQ)
	default:
		return
	}
	r.wqe.init(r.rq.Ring().ElemSize())
}

// respStart makes the responder ready for the first request of a connection, as
// the queue pair enters RTR.
func (q *QP) respStart(mono.Time) {
	r := &q.resp
	first := psn.Of(q.attr.RQPSN)
	r.st = responderState{
		owner:      ownerEngine,
		generation: r.st.generation + 1,
		ePSN:       first,
		ackPSN:     first.Add(-1),
	}
	r.pace = newPace()
	clear(r.saved)
}

// respReset forgets everything, posted receive work requests of its own included,
// as the queue pair enters RESET.
func (q *QP) respReset() {
	r := &q.resp
	q.respReleaseKept()
	r.st = responderState{generation: r.st.generation + 1}
	r.gap = gapWatch{}
	q.respClearPatches()
	clear(r.saved)
	r.wqe.drop()
	if q.cfg.XRCD != nil {
		r.srq, r.rq, r.cq = nil, nil, nil
	}
	if q.cfg.RQ == nil {
		return
	}
	if n, ok := r.rq.Avail(); ok {
		r.rq.Release(n)
	}
}

// respDeadline is when Poll must run for the responder: at once when something
// is to be sent, else when a NAK is to be repeated.
func (q *QP) respDeadline() mono.Time {
	if q.respIdle() {
		return q.resp.gap.deadline()
	}
	return q.resp.due
}

// respIdle reports whether the responder has nothing to send.
func (q *QP) respIdle() bool {
	st := &q.resp.st
	return st.serve == st.savedNext && !st.has(ackDue|nakDue) && q.resp.patches.empty()
}

// respDue notes that something is to be sent since now.
func (q *QP) respDue(now mono.Time) {
	if q.respIdle() {
		q.resp.due = now
	}
}
