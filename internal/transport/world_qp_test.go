package transport_test

import (
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// worldQP is a queue pair and the program that uses it.
type worldQP struct {
	*connParams
	h     *worldHost
	typ   ibv.QPType
	qp    *QP
	conn  int // index of the connection
	peer  *worldQP
	recvs *worldRecvs // nil: it receives nothing
	sq    *queue.Producer

	// What it asks for.
	left        int // work requests yet to be posted
	ops         []*worldOp
	done        int          // completed, or implied by a later completion
	failed      ibv.WCStatus // of the first that failed; of UC and UD since it was last in RTS
	firstFailed int          // which that was
	area        worldArea    // memory of the peer that only this queue pair's requests reach
	added       [worldAdds]uint64
	seen        [worldLocks]uint64

	// What it is asked for.
	inbox   []*worldMessage // what the peer has posted that takes a receive
	arrived int             // of a reliable connection: messages before have been received
	next    int             // of the others, in order: before have been received, or are lost
	spoiled ibv.WCStatus    // of a receive that could not take its message
	flushed bool            // receives have been
	keys    []*worldKey

	stopped  bool // the program has ended it
	closed   bool // by RESET
	draining bool
}

func (q *worldQP) context() uint64 { return uint64(q.qp.QPN()) << 8 }
func (q *worldQP) bytesMTU() int   { return q.mtu.Bytes() }
func (q *worldQP) reliable() bool  { return q.typ.Reliable() }
func (q *worldQP) dead() bool {
	return q.qp.State() == ibv.QPStateErr || q.qp.State() == ibv.QPStateReset
}

// asking reports whether its program still posts send work requests.
func (q *worldQP) asking() bool { return q.left > 0 && !q.closed }

// finished reports whether all that its program has to do is done.
func (q *worldQP) finished() bool { return q.closed || q.left == 0 && q.done == len(q.ops) }

// String is where it stands, for the message of a test that fails.
func (q *worldQP) String() string {
	return fmt.Sprintf("host %d: %v QP %#x in %v: %d sends posted, %d done, %d to come, %v; %d of %d messages received",
		q.h.n, q.typ, q.qp.QPN(), q.qp.State(), len(q.ops), q.done, q.left, q.failed, q.arrived, len(q.inbox))
}

// connect makes the queue pairs of a connection and brings them to RTS.
func (w *world) connect(index int, c *connParams) {
	var asks, takes [2]*worldQP
	for i := range 2 {
		h := w.hosts[c.hosts[i]]
		asks[i] = h.newQP(index, c, c.typ, c.ops[i], c.shared[i])
		takes[i] = asks[i]
		if c.typ == ibv.QPTypeXRCSend {
			takes[i] = h.newQP(index, c, ibv.QPTypeXRCRecv, 0, true)
		}
	}
	for i := range 2 {
		asks[i].peer, takes[1-i].peer = takes[1-i], asks[i]
	}
	for i := range 2 {
		asks[i].start(c.firstPSN[i], c.firstPSN[1-i])
		if takes[i] != asks[i] {
			takes[i].start(c.firstPSN[i], c.firstPSN[1-i])
		}
		asks[i].area.init(asks[i])
		takes[1-i].makeKeys(asks[i].area.at)
		if takes[i].recvs.srq == nil && w.wrong != 0 && c.typ == ibv.QPTypeRC {
			takes[i].recvs.wrong = w.wrong
		}
	}
}

func (h *worldHost) newQP(conn int, c *connParams, typ ibv.QPType, ops int, shared bool) *worldQP {
	q := &worldQP{h: h, connParams: c, typ: typ, conn: conn, left: ops}
	cfg := Config{
		QPN: uint32(0x1000*(h.n+1) + len(h.qps)), Type: typ, PD: 1,
		Cap: ibv.QPCap{MaxSendWR: c.sqDepth, MaxRecvWR: c.rqDepth, MaxSendSGE: pairSGE, MaxRecvSGE: pairSGE, MaxInline: pairInline},
	}
	cfg.Context = uint64(cfg.QPN) << 8
	if typ == ibv.QPTypeXRCRecv {
		cfg.XRCD, cfg.PD = h.xrcd, 0
		q.recvs = h.xsrq
	} else {
		ring := h.w.ring(c.sqDepth, queue.SendElemSize(pairSGE, pairInline))
		q.sq, cfg.SQ, cfg.SendCQ = queue.NewProducer(ring), ring, h.anyCQ().cq
	}
	switch {
	case typ == ibv.QPTypeXRCSend || typ == ibv.QPTypeXRCRecv:
	case shared:
		q.recvs, cfg.SRQ, cfg.RecvCQ = h.srq, h.srq.srq, h.anyCQ().cq
	default:
		q.recvs = newWorldRecvs(h, c.rqDepth)
		cfg.RQ, cfg.RecvCQ = q.recvs.ring(), h.anyCQ().cq
	}
	if q.recvs != nil {
		q.recvs.users = append(q.recvs.users, q)
	}
	q.qp = NewQP(h.env, cfg)
	h.qps = append(h.qps, q)
	return q
}

// start brings a queue pair to RTS as a program does.
func (q *worldQP) start(sqPSN, rqPSN uint32) {
	w, other := q.h.w, q.peer.h.n
	attr := ibv.QPAttr{
		AccessFlags: pairPeerAccess, Port: 1, PathMTU: q.mtu, DestQPN: q.peer.qp.QPN(), SQPSN: sqPSN, RQPSN: rqPSN,
		MaxRDAtomic: q.rdAtomic, MaxDestRDAtomic: q.rdAtomic, MinRNRTimer: uint8(1 + w.rnd.IntN(5)),
		Timeout: q.timeout, RetryCnt: 7, RNRRetry: q.rnrRetries, QKey: pairQKey, AV: ibv.AddressVector{DGID: w.gid(other)},
	}
	q.qp.SetPortMTU(q.bytesMTU())
	for i, mask := range startMasks(q.typ) {
		attr.State = ibv.QPStateInit + ibv.QPState(i)
		w.must(q.qp.Modify(w.now, &attr, mask|ibv.QPAttrState, w.gid(q.h.n), w.gid(other)))
	}
}

// startMasks are what the transitions to INIT, RTR and RTS need.
func startMasks(typ ibv.QPType) [3]ibv.AttrMask {
	const (
		toInit = ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
		toRTR  = ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
		taking = ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
		asking = ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrSQPSN | ibv.QPAttrMaxQPRDAtomic
	)
	switch typ {
	case ibv.QPTypeUC:
		return [3]ibv.AttrMask{toInit, toRTR, ibv.QPAttrSQPSN}
	case ibv.QPTypeUD:
		return [3]ibv.AttrMask{ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrQKey, 0, ibv.QPAttrSQPSN}
	case ibv.QPTypeXRCSend:
		return [3]ibv.AttrMask{toInit, toRTR, asking}
	case ibv.QPTypeXRCRecv:
		return [3]ibv.AttrMask{toInit, toRTR | taking, ibv.QPAttrTimeout | ibv.QPAttrSQPSN}
	default:
		return [3]ibv.AttrMask{toInit, toRTR | taking, asking}
	}
}

// sendDone checks a completion of the send queue: of the oldest request that has
// none, but for unsignaled ones, whose success shows by a later one.
func (q *worldQP) sendDone(c *queue.CQE) {
	w := q.h.w
	for q.done < len(q.ops) && q.ops[q.done].wqe.WRID != c.WRID {
		op := q.ops[q.done]
		if op.wqe.Flags&ibv.SendSignaled != 0 || q.failed != ibv.WCSuccess {
			w.failf("%v: completion of %d in place of %d", q, c.WRID, op.wqe.WRID)
		}
		q.succeeded(op)
	}
	if q.done == len(q.ops) || q.closed {
		w.failf("%v: completion of %d, which was not posted or has completed", q, c.WRID)
	}
	op := q.ops[q.done]
	if c.Status == ibv.WCSuccess {
		if q.failed != ibv.WCSuccess || op.wqe.Flags&ibv.SendSignaled == 0 {
			w.failf("%v: success of %d after %v, flags %v", q, c.WRID, q.failed, op.wqe.Flags)
		}
		q.succeeded(op)
		if d := cmp.Diff(op.want, *c); d != "" {
			w.failf("%v: completion (-want +got):\n%s", q, d)
		}
		return
	}
	if q.failed == ibv.WCSuccess {
		if !q.mayFail(op, c.Status) {
			w.failf("%v: %v %d: %v", q, op.wqe.Opcode, c.WRID, c.Status)
		}
		q.failed, q.firstFailed = c.Status, q.done
		if q.reliable() {
			q.left = min(q.left, 2) // which are flushed
		}
	} else if c.Status != ibv.WCWRFlushErr {
		w.failf("%v: %v after %v", q, c.Status, q.failed)
	}
	q.done++
	op.fail(q)
}

// mayFail reports whether status may be that of the first request that fails.
func (q *worldQP) mayFail(op *worldOp, status ibv.WCStatus) bool {
	if status == op.wrong {
		return true
	}
	switch status {
	case ibv.WCWRFlushErr:
		return q.stopped || q.refuses()
	case ibv.WCRetryExcErr:
		return q.reliable() && (!q.h.w.lossless() || q.peer.dead())
	case ibv.WCRNRRetryExcErr:
		return q.reliable() && q.rnrRetries != 7 && op.msg != nil
	case ibv.WCRemInvReqErr:
		return op.msg != nil && q.peer.spoiled == ibv.WCLocLenErr
	case ibv.WCRemOpErr:
		return op.msg != nil && q.peer.spoiled == ibv.WCLocProtErr
	default:
		return false
	}
}

// refuses reports whether it may have met a request that sends it to ERR.
func (q *worldQP) refuses() bool {
	if q.spoiled != ibv.WCSuccess {
		return true
	}
	for _, op := range q.peer.ops {
		if op.wrong == ibv.WCRemAccessErr || op.wrong == ibv.WCRemInvReqErr {
			return q.reliable()
		}
	}
	return false
}

// refusesWithImm reports whether one of these may be a WRITE with immediate.
func (q *worldQP) refusesWithImm() bool {
	for _, op := range q.peer.ops {
		if op.wrong == ibv.WCRemAccessErr && op.wqe.Opcode == ibv.WRRDMAWriteWithImm {
			return true
		}
	}
	return false
}

// recvDone checks a completion of a receive.
func (q *worldQP) recvDone(c *queue.CQE) {
	w := q.h.w
	r := q.recvs.complete(q, c.WRID)
	switch {
	case c.Status == ibv.WCSuccess && q.flushed:
		w.failf("%v: receive %#x succeeds after others were flushed", q, c.WRID)
	case c.Status == ibv.WCSuccess && q.reliable():
		if q.arrived == len(q.inbox) {
			w.failf("%v: a message too many: %+v", q, *c)
		}
		m := q.inbox[q.arrived]
		q.arrived++
		if why := q.matches(m, r, c); why != "" {
			w.failf("%v: message %d: %s", q, q.arrived-1, why)
		}
		if m.key != nil {
			m.key.state = keyFree
		}
	case c.Status == ibv.WCSuccess:
		q.someMessage(r, c)
	case c.Status == ibv.WCWRFlushErr:
		if q.qp.State() != ibv.QPStateErr {
			w.failf("%v: receive %#x was flushed", q, c.WRID)
		}
		q.flushed = true
	case c.Status == r.spoiled && r.spoiled != 0 && q.reliable() && q.spoiled == ibv.WCSuccess:
		q.spoiled = c.Status
	case c.Status == ibv.WCRemAccessErr && q.refusesWithImm() && q.spoiled == ibv.WCSuccess:
		q.spoiled = c.Status // of the receive that the WRITE would have taken
	default:
		w.failf("%v: receive %#x: %v", q, c.WRID, c.Status)
	}
	q.recvs.giveBack(r)
}

// someMessage finds the message of a service that loses them.
func (q *worldQP) someMessage(r *worldRecv, c *queue.CQE) {
	from := 0
	if q.h.w.ordered() {
		from = q.next
	}
	for i := from; i < len(q.inbox); i++ {
		if q.matches(q.inbox[i], r, c) == "" {
			q.next = i + 1
			q.arrived++
			return
		}
	}
	q.h.w.failf("%v: completion %+v is of none of %d messages from %d on", q, *c, len(q.inbox), from)
}

// matches compares what has come with a message.
func (q *worldQP) matches(m *worldMessage, r *worldRecv, c *queue.CQE) string {
	want := queue.CQE{WRID: c.WRID, Opcode: ibv.WCRecv, ByteLen: uint32(len(m.data)), Flags: m.flags, Imm: m.imm}
	skip := 0
	if q.typ == ibv.QPTypeUD {
		skip = 40
		want.ByteLen += 40
		want.Flags |= ibv.WCFlagGRH
		want.SrcQP = q.peer.qp.QPN()
	}
	if m.write {
		want.Opcode = ibv.WCRecvRDMAWithImm
	}
	if want != *c {
		return cmp.Diff(want, *c)
	}
	if m.write {
		if at := m.target.off; m.target.n > 0 && firstDiff(q.h.mem.bytes[at:at+m.target.n], m.data) >= 0 {
			return "the data of the WRITE is not there"
		}
		return ""
	}
	got := q.recvs.contents(r, skip+len(m.data))
	if at := firstDiff(got[skip:], m.data); at >= 0 {
		return fmt.Sprintf("byte %d of %d is wrong", at, len(m.data))
	}
	return ""
}

// keyAlias makes a key of the host.
func (h *worldHost) keyAlias(kind keyKind, size int) *memory.Alias {
	var a *memory.Alias
	var err error
	switch kind {
	case keyWindow1:
		a, err = h.env.Mem.AllocWindow(1, ibv.MWType1)
	case keyWindow2:
		a, err = h.env.Mem.AllocWindow(1, ibv.MWType2)
	default:
		a, err = h.env.Mem.AllocFast(1, uint64(size))
	}
	h.w.must(err)
	return a
}
