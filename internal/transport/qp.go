package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Verdict says what becomes of a received frame.
type Verdict uint8

// Verdicts of HandlePacket.
const (
	Release Verdict = iota // the frame is free
	Keep                   // the queue pair holds it; its Ref appears in Env.Released later
)

// Config is what a queue pair is made of.
type Config struct {
	QPN     uint32
	Type    ibv.QPType
	PD      memory.PD
	Cap     ibv.QPCap
	SigAll  bool // every send work request is signaled
	Context uint64

	SendCQ, RecvCQ *CQ
	SQ, RQ         *queue.Ring
	Owner          any // what the driver attaches; the engine does not look at it
}

// QP is one queue pair: state common to both halves, the requester and the
// responder. It is used by one goroutine at a time, who drives its worker.
type QP struct {
	env *Env
	cfg Config

	state    ibv.QPState
	attr     ibv.QPAttr // last values set, for QueryQP
	destQPN  uint32
	mtu      int // path MTU in bytes
	selfGID  ibv.GID
	peerGID  ibv.GID
	draining bool // SQD entered, SQ_DRAINED not reported yet
	commEst  bool // COMM_EST was reported

	req  requester
	resp responder
}

// NewQP makes a queue pair in RESET.
func NewQP(env *Env, cfg Config) *QP {
	q := &QP{env: env, cfg: cfg}
	q.attr.Cap = cfg.Cap
	q.reqInit()
	q.respInit()
	return q
}

// QPN is the queue pair's number.
func (q *QP) QPN() uint32 { return q.cfg.QPN }

// State is the current state.
func (q *QP) State() ibv.QPState { return q.state }

// Config is what the queue pair was made of.
func (q *QP) Config() *Config { return &q.cfg }

// HandlePacket runs one packet whose length, opcode and ICRC have been verified
// through the responder or, for a response, the requester.
func (q *QP) HandlePacket(now mono.Time, p *wire.Packet) Verdict {
	e := q.env
	e.count(RcvdPkts)
	if p.Info.Opcode.Transport() != wire.RC {
		e.count(DropOpcode)
		return Release
	}
	switch q.state {
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD:
	default:
		e.count(DropState)
		return Release
	}
	if p.SrcGID != q.peerGID || p.DstGID != q.selfGID {
		e.count(DropPeer)
		return Release
	}
	if pk := wire.BTHAt(p.BTH).PKey(); pk&0x7fff != DefaultPKey&0x7fff {
		e.count(DropPKey)
		return Release
	}
	if p.Info.Response {
		if q.state == ibv.QPStateRTR {
			e.count(DropState)
			return Release
		}
		q.reqHandle(now, p)
		return Release
	}
	return q.respHandle(now, p)
}

// Poll appends packets that may be sent now: acknowledgements and responses
// first, then requests within the window. It reports whether more could be sent
// if the batch had room. It also runs whatever deadline has passed.
func (q *QP) Poll(now mono.Time, tx *Batch) (more bool) {
	switch q.state {
	case ibv.QPStateErr:
		q.reqFlush(now)
		q.respFlush(now)
		return q.respLastWords(now, tx)
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD:
	default:
		return false
	}
	if q.respPoll(now, tx) {
		return true
	}
	// The responder may have found the memory of a READ gone and failed.
	if q.state == ibv.QPStateRTR || q.state == ibv.QPStateErr {
		return false
	}
	return q.reqPoll(now, tx)
}

// NextDeadline is the time by which Poll must be called again, Never when only
// a packet or a new work request can change anything.
func (q *QP) NextDeadline() mono.Time {
	switch q.state {
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD:
		return mono.Min(q.reqDeadline(), q.respDeadline())
	case ibv.QPStateErr:
		return q.respDeadline() // the NAK that explains the error
	default:
		return mono.Never
	}
}

// fail moves the queue pair to ERR: what is outstanding or queued is flushed in
// order, send queue first (IBTA vol. 1, 10.3.1.5).
func (q *QP) fail(now mono.Time) {
	if q.state == ibv.QPStateErr || q.state == ibv.QPStateReset {
		return
	}
	q.state = ibv.QPStateErr
	q.reqFlush(now)
	q.respFlush(now)
}

// complete writes a completion to cq. When cq has overflowed the queue pair
// cannot report anything any more and goes to ERR.
func (q *QP) complete(now mono.Time, cq *CQ, c *queue.CQE, solicited bool) {
	c.QPN = q.cfg.QPN
	c.QPContext = q.cfg.Context
	c.Timestamp = int64(now)
	if !cq.push(q.env, c, solicited) && q.state != ibv.QPStateErr {
		q.env.event(ibv.EventQPFatal, q)
		q.fail(now)
	}
}

// PayloadFault tells the queue pair that the payload of a packet it had appended
// could not be read: a local protection error of the request, or a remote
// access error of the READ that it answers.
func (q *QP) PayloadFault(now mono.Time, in *Intent) {
	q.env.count(PayloadFault)
	if in.Info.Response {
		q.respFault(now, in.PSN)
		return
	}
	q.reqFault(now, in.PSN)
}

// psnOf reads the PSN of a packet.
func psnOf(p *wire.Packet) psn.PSN { return wire.BTHAt(p.BTH).PSN() }
