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
	SRQ            *SRQ // where receives come from instead of RQ, which is nil then

	// XRCD is the domain of an XRC_RECV queue pair, which has nothing of the above
	// but a number, type and context: the queue that a request names has the rest.
	XRCD *XRCD

	// DCQCN, when set, has the queue pair lower its rate as it says when the peer
	// reports congestion. Its packets should then carry ECT(0) in their IP header.
	// The engine does not change it.
	DCQCN *DCQCN

	// Flight bounds what is unacknowledged together with that of others; nil: with
	// all those of the Env that have none either.
	Flight *Flight

	Owner any // what the driver attaches; the engine does not look at it
}

// QP is one queue pair: state common to both halves, the requester and the
// responder. It is used by one goroutine at a time, who drives its worker.
type QP struct {
	env    *Env
	flight *Flight
	cfg    Config

	state    ibv.QPState
	attr     ibv.QPAttr  // last values set, for QueryQP
	service  wire.Opcode // transport prefix of the opcodes that it takes
	destQPN  uint32
	mtu      int // path MTU in bytes; of datagrams the port's
	portMTU  int // as SetPortMTU told
	selfGID  ibv.GID
	peerGID  ibv.GID
	draining bool // SQD entered, SQ_DRAINED not reported yet
	commEst  bool // COMM_EST was reported

	req  requester
	resp responder
	np   notificationPoint
	cc   *reactionPoint // nil: no limit of the rate
}

// NewQP makes a queue pair in RESET.
func NewQP(env *Env, cfg Config) *QP {
	q := &QP{}
	q.Init(env, cfg)
	return q
}

// Init makes q, which must be zero, a queue pair in RESET. It is for drivers that
// have one as a part of theirs; q must not be copied afterwards.
func (q *QP) Init(env *Env, cfg Config) {
	*q = QP{env: env, cfg: cfg, flight: cfg.Flight, service: serviceOf(cfg.Type)}
	if q.flight == nil {
		q.flight = &env.Flight
	}
	q.attr.Cap = cfg.Cap
	if cfg.DCQCN != nil && !q.datagrams() {
		q.cc = &reactionPoint{p: cfg.DCQCN}
	}
	q.reqInit()
	q.respInit()
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
	cnp := p.Info.Opcode == wire.CNP && !q.datagrams()
	if !cnp && p.Info.Opcode.Transport() != q.service {
		e.count(DropOpcode)
		return Release
	}
	switch q.state {
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD, ibv.QPStateSQE:
	default:
		e.count(DropState)
		return Release
	}
	// Datagrams come from anywhere; the Q_Key is what admits them.
	if !q.datagrams() && (p.SrcGID != q.peerGID || p.DstGID != q.selfGID) {
		e.count(DropPeer)
		return Release
	}
	if pk := wire.BTHAt(p.BTH).PKey(); pk&0x7fff != wire.DefaultPKey&0x7fff {
		e.count(DropPKey)
		return Release
	}
	if cnp {
		q.reactTo(now)
		return Release
	}
	if p.ECN() == wire.CE && !q.datagrams() {
		q.noteMark(now)
	}
	if p.Info.Response {
		if q.state == ibv.QPStateRTR {
			e.count(DropState)
			return Release
		}
		una := q.req.una
		v := q.reqHandle(now, p)
		if q.req.una != una {
			q.req.lost = 0
		}
		q.reqCharge()
		return v
	}
	v := q.respHandle(now, p)
	if q.state == ibv.QPStateErr {
		q.reqCharge()
	}
	return v
}

// Poll appends packets that may be sent now: acknowledgements and responses
// first, then requests within the window. It also runs whatever deadline has
// passed. It reports whether there is more to do at once, in a batch with room.
//
// A request of UC or UD is complete when its last packet has been laid out, and
// the next Poll takes it that those of this one have been: until then their
// payload is still read, and a fault may be reported.
func (q *QP) Poll(now mono.Time, tx *Batch) (more bool) {
	switch q.state {
	case ibv.QPStateErr:
		more = q.flush(now)
		return q.respLastWords(now, tx) || more
	case ibv.QPStateSQE:
		return q.reqFlush(now)
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD:
	default:
		return false
	}
	if q.npPoll(tx) || q.respPoll(now, tx) {
		return true
	}
	// The responder may have found the memory of a READ gone and failed.
	if q.state == ibv.QPStateRTR || q.state == ibv.QPStateErr {
		return false
	}
	if q.req.stale != 0 {
		q.reqFlushStale(now)
		return true
	}
	q.reqEra()
	more = q.reqPoll(now, tx)
	q.reqCharge()
	return more || q.req.unflushed
}

// NextDeadline is the time by which Poll must be called again, Never when only
// a packet or a new work request can change anything.
func (q *QP) NextDeadline() mono.Time {
	switch q.state {
	case ibv.QPStateRTR, ibv.QPStateRTS, ibv.QPStateSQD:
		return mono.Min(q.npDeadline(), mono.Min(q.reqDeadline(), q.respDeadline()))
	case ibv.QPStateErr:
		return q.respDeadline() // the NAK that explains the error
	default:
		return mono.Never
	}
}

// fail moves the queue pair to ERR: what is outstanding or queued is flushed in
// order, send queue first. The receives of a shared queue stay for the others:
// an event says that this queue pair is done with them (IBTA vol. 1, 10.3.1.5).
func (q *QP) fail(now mono.Time) {
	if q.state == ibv.QPStateErr || q.state == ibv.QPStateReset {
		return
	}
	q.state = ibv.QPStateErr
	q.flush(now)
	if q.cfg.SRQ != nil || q.cfg.XRCD != nil {
		// What it had taken has completed, and it takes no more.
		q.env.event(ibv.EventQPLastWQEReached, q)
	}
}

// flush flushes a queue pair in ERR, and reports whether there is more than it has
// flushed.
func (q *QP) flush(now mono.Time) (more bool) {
	more = q.reqFlush(now)
	q.reqCharge()
	return q.respFlush(now, !more) || more
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
	q.reqFault(now, in.PSN, ibv.WCLocProtErr)
}

// AddressFault tells a datagram queue pair that in.AH, of a packet it had
// appended, names no path: the work request completes with LOC_QP_OP_ERR after
// those before it, and the queue pair goes to SQE. Packets that follow in the
// batch are flushed and must not be sent.
func (q *QP) AddressFault(now mono.Time, in *Intent) {
	q.env.count(AddressFault)
	q.reqFault(now, in.PSN, ibv.WCLocQPOpErr)
}

// SetPortMTU tells a queue pair the port's active MTU in bytes, which bounds
// the payload of a datagram. The driver calls it before the queue pair leaves
// RESET, and when the port's MTU changes. For connections only their path MTU
// counts.
func (q *QP) SetPortMTU(bytes int) {
	q.portMTU = max(bytes, 0)
	if q.service == wire.UD {
		q.mtu = q.portMTU
	}
}

// serviceOf is the transport prefix of the opcodes of a queue pair of type t.
func serviceOf(t ibv.QPType) wire.Opcode {
	switch t {
	case ibv.QPTypeRC:
		return wire.RC
	case ibv.QPTypeUC:
		return wire.UC
	case ibv.QPTypeUD, ibv.QPTypeGSI:
		return wire.UD
	case ibv.QPTypeXRCSend, ibv.QPTypeXRCRecv:
		return wire.XRC
	default:
		return noService
	}
}

// noService is a prefix that no opcode has.
const noService wire.Opcode = 0xFF

// qkey is the queue pair's own Q_Key.
func (q *QP) qkey() uint32 {
	if q.cfg.Type == ibv.QPTypeGSI {
		return ibv.GSIQKey
	}
	return q.attr.QKey
}

// datagrams reports whether q has no peer of its own.
func (q *QP) datagrams() bool { return q.service == wire.UD }

// psnOf reads the PSN of a packet.
func psnOf(p *wire.Packet) psn.PSN { return wire.BTHAt(p.BTH).PSN() }
