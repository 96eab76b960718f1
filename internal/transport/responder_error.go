package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respFailure is what an error does: the NAK to the peer, the status of the
// receive work request in use, and the local event.
type respFailure struct {
	nak    wire.Syndrome
	status ibv.WCStatus
	event  ibv.EventType
}

// Class C and E failures (IBTA vol. 1, 9.9.3.1): the NAK goes out, the queue
// pair goes to ERR.
var respFailures = [numRespStates]respFailure{
	respErrOpSeq:         {wire.NakInvalidRequest, ibv.WCRemInvReqErr, ibv.EventQPReqErr},
	respErrAccessFlags:   {wire.NakInvalidRequest, ibv.WCRemInvReqErr, ibv.EventQPReqErr},
	respErrTooManyRDAtom: {wire.NakInvalidRequest, ibv.WCRemInvReqErr, ibv.EventQPReqErr},
	respErrLength:        {wire.NakInvalidRequest, ibv.WCRemInvReqErr, ibv.EventQPReqErr},
	respErrBufferSize:    {wire.NakInvalidRequest, ibv.WCLocLenErr, ibv.EventQPReqErr},
	respErrMisaligned:    {wire.NakInvalidRequest, ibv.WCRemInvReqErr, ibv.EventQPReqErr},
	respErrXRCETH:        {wire.NakRemoteAccess, ibv.WCRemAccessErr, ibv.EventQPAccessErr},
	respErrRKey:          {wire.NakRemoteAccess, ibv.WCRemAccessErr, ibv.EventQPAccessErr},
	respErrMalformedWQE:  {wire.NakRemoteOp, ibv.WCLocQPOpErr, ibv.EventQPFatal},
	respErrLKey:          {wire.NakRemoteOp, ibv.WCLocProtErr, ibv.EventQPFatal},
	respErrOperational:   {wire.NakRemoteOp, ibv.WCRemOpErr, ibv.EventQPAccessErr},
}

// respAnswerError ends a request of a reliable connection in error state s.
func (q *QP) respAnswerError(s respState, x *respPacket) respState {
	switch s {
	case respErrRNR:
		return q.respDoRNR(x)
	case respErrInvalidate:
		return q.respFailInvalidate(x)
	case respErrCorrupt:
		return q.respFailCorrupt(x)
	default:
		return q.respFail(s, x)
	}
}

// respFail answers the request with the NAK of state s, which leaves although
// the queue pair goes to ERR.
func (q *QP) respFail(s respState, x *respPacket) respState {
	f := &respFailures[s]
	q.respOweNak(x, f.nak, x.psn)
	q.resp.st.flags |= lastWords
	q.respFailWQE(x.now, f.status)
	q.env.event(f.event, q)
	q.fail(x.now)
	return respDone
}

// respFailInvalidate ends a SEND whose key cannot be invalidated: its receive
// work request completes with an error and, as the specification has it for
// class J, the peer is told nothing.
func (q *QP) respFailInvalidate(x *respPacket) respState {
	q.env.count(DropInvalidate)
	q.respFailWQE(x.now, ibv.WCRemInvReqErr)
	q.env.event(ibv.EventQPReqErr, q)
	q.resp.st.flags |= lastWords // earlier requests are still answered
	q.fail(x.now)
	return respDone
}

// respFailCorrupt gives up on a receive queue whose producer index cannot be
// true.
func (q *QP) respFailCorrupt(x *respPacket) respState {
	if q.resp.srq != nil {
		q.resp.srq.corrupt(q.env)
	}
	q.respOweNak(x, wire.NakRemoteOp, x.psn)
	q.resp.st.flags |= lastWords
	q.env.event(ibv.EventQPFatal, q)
	q.fail(x.now)
	return respDone
}

// respFailWQE completes the receive work request in use with status.
func (q *QP) respFailWQE(now mono.Time, status ibv.WCStatus) {
	w := &q.resp.wqe
	if !w.held {
		return
	}
	if q.cfg.XRCD != nil && q.resp.srq.xrcd == nil {
		w.drop() // the queue is gone, and its receives with it
		return
	}
	q.respClaim()
	c := queue.CQE{WRID: w.wrid, Status: status, Opcode: ibv.WCRecv}
	q.respReleaseWQE()
	q.complete(now, q.resp.cq, &c, false)
}

// respFault is a READ response, with PSN p, whose memory went away before it was
// sent.
func (q *QP) respFault(now mono.Time, p psn.PSN) {
	if i, ok := q.respFind(p); ok {
		q.respReadFault(now, q.resp.slot(i), p)
	}
}

// respReadFault ends the READ s at its response p, whose memory is gone, with a
// NAK in place of that and all that would have followed. The NAK has the PSN of
// the response: the peer may have got those before, and then takes the PSN of
// the request for an old one. To a duplicate there is no answer (IBTA vol. 1,
// 9.7.5.1.5).
func (q *QP) respReadFault(now mono.Time, s *savedResult, p psn.PSN) {
	st := &q.resp.st
	if s.has(savedAgain) {
		q.respUnsave(s)
		q.respNextServe()
		return
	}
	// In ERR the last word may have been said, or be about an earlier response
	// of the same batch.
	if q.state == ibv.QPStateErr && (!st.has(lastWords) || st.has(nakDue) && st.nakPSN.LessEq(p)) {
		return
	}
	x := respPacket{now: now}
	q.respOweNak(&x, wire.NakRemoteAccess, p)
	q.respCancel()
	st.flags |= lastWords
	if q.state != ibv.QPStateErr {
		q.env.event(ibv.EventQPAccessErr, q)
		q.fail(now)
	}
}

// respFlush completes the receive work request in use and, if posted, those that are
// posted and not shared with others, with WR_FLUSH_ERR, in order, and lets go of
// everything else. It reports whether there are more of them. It may be called again:
// requests that are posted in ERR are flushed by the next Poll.
func (q *QP) respFlush(now mono.Time, posted bool) (more bool) {
	r := &q.resp
	q.respReleaseKept()
	r.gap.set = false
	r.st.op = opNone
	if !r.st.has(lastWords) {
		r.st.flags = 0
		q.respCancel()
	}
	q.respFailWQE(now, ibv.WCWRFlushErr)
	if q.cfg.RQ == nil || !posted {
		return false
	}
	n, ok := r.rq.Avail()
	if !ok {
		return false
	}
	for range min(n, flushBatch) {
		var h queue.RecvWQE
		queue.GetRecv(r.rq.Slot(0), &h)
		r.rq.Release(1)
		q.complete(now, q.cfg.RecvCQ, &queue.CQE{WRID: h.WRID, Status: ibv.WCWRFlushErr, Opcode: ibv.WCRecv}, false)
	}
	return n > flushBatch
}
