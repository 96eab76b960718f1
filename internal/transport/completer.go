package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqHandle runs one response through the requester (IBTA vol. 1, 9.7.5.1.1,
// 9.7.6), and after it the kept responses that were waiting for it.
func (q *QP) reqHandle(now mono.Time, p *wire.Packet) (v Verdict) {
	r := &q.req
	at := psnOf(p)
	// The PSN before the oldest outstanding one is that of a repeated
	// acknowledgement; what lies outside is a ghost of an earlier life.
	ahead := at.Sub(r.una)
	syn := wire.SynACK(wire.NoCredits)
	if p.Info.AETH != 0 {
		syn = p.AETH().Syndrome()
	}
	switch {
	case p.Opcode.Operation() == wire.Acknowledge && q.reqEndsRead(at, syn):
		q.reqNak(now, syn)
	case ahead < -1 || at.Sub(r.max) >= 0:
		q.env.count(DropStaleResponse)
	case syn.Kind() == wire.KindReserved:
		q.env.count(DropSyndrome)
	case p.Opcode.Operation() == wire.Acknowledge:
		q.reqAcknowledge(now, syn, ahead)
	case ahead < 0:
		q.env.count(DropStaleResponse)
	default:
		v = q.reqResponse(now, p, syn, at)
	}
	q.reqSettle(now)
	return v
}

// reqEndsRead reports whether an error NAK with PSN at ends the oldest request
// because that is a READ and at is one of its PSNs: the responder could not go
// on. Some send the PSN of the response that is missing, rdma_rxe that of the
// request, whose responses may be here in part.
func (q *QP) reqEndsRead(at psn.PSN, syn wire.Syndrome) bool {
	r := &q.req
	if syn.Kind() != wire.KindNAK || syn == wire.NakPSNSeq || r.head == r.tail {
		return false
	}
	w := r.oldest()
	return w.kind == kindRead && w.status == ibv.WCSuccess && w.offset(at) < w.packets && at.Less(r.max)
}

// reqAcknowledge handles an ACKNOWLEDGE. A NAK acknowledges all PSNs before its
// own, an ACK its own too.
func (q *QP) reqAcknowledge(now mono.Time, syn wire.Syndrome, ahead int) {
	r := &q.req
	covers := ahead
	if syn.Kind() == wire.KindACK {
		covers++
	}
	switch {
	case covers < 0: // a NAK of what has been acknowledged since
		q.env.count(DropStaleResponse)
		return
	case ahead < 0:
		q.env.count(DuplicateAck)
		return
	}
	end := r.una.Add(covers)
	r.acked = later(r.acked, end)
	all := q.reqAckNext(now, covers, byAck)
	switch {
	case !q.reqLive():
	case !all && syn.Kind() == wire.KindACK:
		q.reqGap(now, end)
	case !all && syn == wire.NakPSNSeq:
		q.reqGapNak(now, end)
	case !all:
		q.reqImpliedNak(now)
	case r.head != r.tail && r.oldest().status != ibv.WCSuccess:
		// It failed here before the responder could refuse it; see reqSettle.
	case syn.Kind() == wire.KindRNR:
		q.reqRNRNak(now, syn.Code())
	case syn.Kind() == wire.KindNAK:
		q.reqNak(now, syn)
	}
}

// reqNak handles a NAK of the oldest outstanding PSN.
func (q *QP) reqNak(now mono.Time, syn wire.Syndrome) {
	switch syn {
	case wire.NakPSNSeq:
		q.reqSeqNak(now)
	case wire.NakInvalidRequest:
		q.reqFail(now, ibv.WCRemInvReqErr)
	case wire.NakRemoteAccess:
		q.reqFail(now, ibv.WCRemAccessErr)
	default:
		// NAK_REMOTE_OPERATIONAL_ERROR, and codes that no one has assigned: the
		// responder will not execute the request.
		q.reqFail(now, ibv.WCRemOpErr)
	}
}

// reqAckNext takes the n oldest outstanding PSNs as acknowledged and completes
// the messages that end among them. It stops at a READ or atomic and returns
// false: the responder has executed it, but its response was lost (IBTA vol. 1,
// 9.7.5.1.1, implied NAK).
func (q *QP) reqAckNext(now mono.Time, n int, by progressBy) (all bool) {
	r := &q.req
	if n == 0 {
		return true
	}
	all = true
	before := r.una
	for n > 0 {
		w := r.oldest()
		if w.status != ibv.WCSuccess {
			break // it was never sent as a whole; reqSettle fails it
		}
		if w.kind.answered() {
			all = false
			break
		}
		k := min(n, int(w.packets-w.offset(r.una)))
		n -= k
		r.advance(k)
		if !q.reqRetireIfDone(now, w) {
			return false
		}
	}
	if r.una != before {
		q.reqProgress(now, by)
	}
	return all
}

// advance moves the oldest outstanding PSN over n of the oldest message. When
// responses to an earlier sending overtake the repetition, that goes on from
// there; it has no credits out then.
func (r *requester) advance(n int) {
	r.una = r.una.Add(n)
	if r.nxt.Less(r.una) {
		r.nxt, r.cur = r.una, r.head
	}
	r.acked, r.spilled = later(r.acked, r.una), later(r.spilled, r.una)
	r.fix.at, r.fix.end = later(r.fix.at, r.una), later(r.fix.end, r.una)
	r.fix.waits = false
}

// reqRetireIfDone completes w, the oldest, if all of it is acknowledged. It
// returns false when that has ended the requester.
func (q *QP) reqRetireIfDone(now mono.Time, w *sendWQE) (live bool) {
	r := &q.req
	if w.offset(r.una) != w.packets {
		return true
	}
	if w.kind == kindSend {
		q.env.count(RDMASends)
	}
	return q.reqRetire(now, w) && q.reqRetireExecuted(now)
}

// reqRetire completes w, the oldest. It returns false when that has ended the
// requester.
func (q *QP) reqRetire(now mono.Time, w *sendWQE) (live bool) {
	r := &q.req
	signaled := q.cfg.SigAll || w.is(ibv.SendSignaled)
	q.reqPop()
	if !signaled {
		return true
	}
	c := queue.CQE{WRID: w.wrid, Opcode: r.ops[w.op].wc, Status: ibv.WCSuccess}
	switch w.kind {
	case kindRead:
		c.ByteLen = w.length
	case kindAtomic:
		c.ByteLen = wordLen
	default: // the others report no length
	}
	q.complete(now, q.cfg.SendCQ, &c, false)
	return q.reqLive()
}

// reqPop gives the oldest work request's place in the ring back. Its private
// copy stays readable until the next reqLoad.
func (q *QP) reqPop() {
	r := &q.req
	if r.cur == r.head {
		r.cur++
	}
	r.head++
	r.sq.Release(1)
}

// reqFail completes the oldest work request with an error and flushes the
// others (IBTA vol. 1, 10.3.1.5): of a reliable connection in ERR, of UC and UD,
// whose receive queue has no part in it, in SQE.
func (q *QP) reqFail(now mono.Time, status ibv.WCStatus) {
	r := &q.req
	if r.head != r.tail {
		w := r.oldest()
		q.reqPop()
		c := queue.CQE{WRID: w.wrid, Opcode: r.ops.of(w.op).wc, Status: status}
		q.complete(now, q.cfg.SendCQ, &c, false)
	}
	if !q.oneWay() {
		q.fail(now)
		return
	}
	q.failSends(now)
}

// reqFlush completes everything in the send queue with WR_FLUSH_ERR, in order:
// what is outstanding, and what is or will be posted while in ERR or SQE.
func (q *QP) reqFlush(now mono.Time) (more bool) {
	r, state := &q.req, q.state
	q.releaseAllKept(&r.kept)
	for r.head != r.tail {
		id := r.oldest().wrid
		q.reqPop()
		q.reqFlushed(now, id)
	}
	r.startAt(r.max)
	r.unread, r.unflushed, r.stale = 0, false, 0
	n, ok := r.posted()
	if !ok {
		return false
	}
	q.reqFlushPosted(now, n)
	r.unflushed = n > flushBatch && q.state == state
	return r.unflushed
}

// reqFlushPosted flushes the next n requests of the ring, but no more than a batch, and
// returns how many. A completion queue that overflows leads to ERR, where the rest is
// flushed.
func (q *QP) reqFlushPosted(now mono.Time, n int) (done int) {
	r, state := &q.req, q.state
	for done < min(n, flushBatch) && q.state == state {
		var h queue.SendWQE
		queue.GetSend(r.sq.Slot(0), &h)
		r.sq.Release(1)
		done++
		q.reqFlushed(now, h.WRID)
	}
	return done
}

// reqLeaveSQE has what is posted now flushed, before anything is sent again. What is
// more than a batch of it the next calls of Poll flush: a program can post as fast as
// that, and would keep the worker from the others.
func (q *QP) reqLeaveSQE(now mono.Time) {
	r := &q.req
	if !q.reqFlush(now) {
		return
	}
	r.unflushed = false
	r.stale, _ = r.posted()
}

// reqFlushStale flushes a batch of these. The queue pair may be in ERR afterwards.
func (q *QP) reqFlushStale(now mono.Time) {
	r := &q.req
	n, ok := r.posted()
	if n = min(n, r.stale); !ok || n == 0 {
		r.stale = 0
		return
	}
	left := r.stale - q.reqFlushPosted(now, n)
	if q.reqLive() {
		r.stale = left
	}
}

// flushBatch is how many posted work requests of a queue are flushed at a time: who
// posts to a queue pair in error does not keep the worker from the others.
const flushBatch = 256

func (q *QP) reqFlushed(now mono.Time, wrid uint64) {
	c := queue.CQE{WRID: wrid, Status: ibv.WCWRFlushErr}
	q.complete(now, q.cfg.SendCQ, &c, false)
}
