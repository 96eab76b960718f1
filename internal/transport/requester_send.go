package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqPoll runs the deadlines that have passed and appends request packets to tx
// until something stops it. It reports whether that was the batch's room.
func (q *QP) reqPoll(now mono.Time, tx *Batch) (more bool) {
	r := &q.req
	if q.oneWay() {
		q.reqSent(now)
	} else if !q.env.Behind {
		q.reqExpire(now)
	}
	r.due, r.operated = mono.Never, 0
	for r.state = reqSending; r.state == reqSending; {
		r.state = q.reqStep(now, tx)
	}
	if r.ackTimer == mono.Never && r.inflight() > 0 {
		r.ackTimer = q.reqAckDeadline(now)
	}
	if r.fix.again == mono.Never && !q.oneWay() {
		r.fix.again = q.reqAgain(now)
	}
	q.reqSettle(now)
	if r.head == r.tail {
		r.idle(&q.env.copies)
	}
	if r.state == reqRoom || q.oneWay() && r.inflight() > 0 {
		r.due = now
		return true
	}
	if r.state == reqPaced {
		r.due = mono.Min(r.due, q.cc.next)
	}
	return false
}

// reqStep sends one packet, or says what is in the way.
func (q *QP) reqStep(now mono.Time, tx *Batch) reqState {
	r := &q.req
	switch {
	case !q.reqLive():
		return reqDead
	case r.rnrUntil != mono.Never:
		return reqRNR
	case q.held(now):
		return reqPaced
	case r.fix.at != r.fix.end && !r.fix.waits:
		return q.reqMend(now, tx)
	case r.cur != r.tail:
	case q.state == ibv.QPStateSQD:
		return reqDrain
	case q.reqHeld():
		return reqBudget // before it takes memory for a copy
	default:
		loaded, ok := q.reqLoad()
		if !ok {
			q.env.event(ibv.EventQPFatal, q)
			q.fail(now)
			return reqDead
		}
		if !loaded {
			return reqIdle
		}
	}
	w := r.at(r.cur)
	if r.nxt != r.max { // going over what was sent before
		if n := r.settled(w, r.nxt); n > 0 {
			r.pass(w, n)
			return reqSending
		}
	}
	if s := q.reqMay(w); s != reqSending {
		return s
	}
	if w.kind.local() {
		return q.reqExecute(now, w)
	}
	if tx.full(r.maxSGE) {
		return reqRoom
	}
	first := r.nxt == r.max
	n := r.covers(w)
	in := q.reqEmit(tx, r.cur, r.nxt, n)
	if in == nil {
		return reqFailed
	}
	r.pass(w, n)
	q.paced(now, in)
	if !q.oneWay() {
		asked := r.ask(in, r.inflight() >= q.reqWindowNow() || tx.full(r.maxSGE) || q.reqOverBudget())
		if asked && first && !r.timing {
			r.timing, r.rttPSN, r.rttAt = true, in.PSN, now
		}
	}
	return reqSending
}

// pass moves on over the next n PSNs, which are of w and, of a READ, of one chunk.
func (r *requester) pass(w *sendWQE, n int) {
	end := w.offset(r.nxt) + uint32(n)
	r.nxt = r.nxt.Add(n)
	if r.max.Less(r.nxt) {
		r.max = r.nxt
	}
	if w.kind.answered() && (end%w.chunk == 0 || end == w.packets) {
		r.credits++
	}
	if end == w.packets {
		r.cur++
	}
}

// reqMay says whether the next packet of w may be sent now.
func (q *QP) reqMay(w *sendWQE) reqState {
	r := &q.req
	switch {
	case w.status != ibv.WCSuccess:
		return reqFailed
	case q.state == ibv.QPStateSQD && w.first == r.max:
		return reqDrain
	case w.is(ibv.SendFence) && r.credits > 0 && r.nxt == w.first:
		// Before w begins all credits are those of earlier requests.
		return reqFence
	}
	if w.kind.local() {
		return q.reqMayExecute(w)
	}
	if w.kind.answered() {
		limit := int(q.attr.MaxRDAtomic)
		if limit == 0 {
			// Lowered in SQD: it could never be sent.
			w.status = ibv.WCLocQPOpErr
			return reqFailed
		}
		if r.credits >= limit {
			return reqCredit
		}
		if r.una.Less(r.spilled) && r.nxt == r.max {
			return reqWindow // more responses would find no room either
		}
	}
	if q.oneWay() {
		return q.reqMayOneWay(w)
	}
	// A request that is larger than the window goes alone.
	if n := r.inflight(); n > 0 && n+r.covers(w) > q.reqWindowNow() {
		return reqWindow
	}
	if q.reqStopped() {
		return reqBudget
	}
	return reqSending
}

// covers is the number of PSNs of the next packet of w: of a READ request to the end
// of its chunk, whatever is here of that.
func (r *requester) covers(w *sendWQE) int {
	if w.kind != kindRead {
		return 1
	}
	off := w.offset(r.nxt)
	return int(w.chunkEnd(off) - off)
}

// takes is the number of PSNs of the packet of w with PSN p, where that is repeated
// alone: of a READ request up to the end of its chunk, or to the next response that
// is here.
func (r *requester) takes(w *sendWQE, p psn.PSN) int {
	if w.kind != kindRead {
		return 1
	}
	off := w.offset(p)
	n := int(w.chunkEnd(off) - off)
	return 1 + r.kept.wanting(p.Next(), n-1)
}

// reqEmit appends the packet with PSN p, which takes n PSNs, of the i-th work
// request. It returns nil, and notes why, when the payload's memory is gone.
func (q *QP) reqEmit(tx *Batch, i uint32, p psn.PSN, n int) *Intent {
	r := &q.req
	w := r.at(i)
	off := w.offset(p)
	info := r.ops[w.op].packet[position(w, off)]
	in := tx.next(q, info, p)
	if info.Payload && !q.reqGather(tx, in, i, off) {
		tx.drop()
		w.status = ibv.WCLocProtErr
		return nil
	}
	in.finish()
	q.reqHeaders(in, w, off, off+uint32(n))
	if p.Less(r.max) {
		q.env.count(RepeatedPkts)
	}
	q.env.count(SentPkts)
	q.env.Counters[SentBytes] += uint64(in.Len)
	return in
}

// position is where in its message the packet at offset off is.
func position(w *sendWQE, off uint32) wire.Position {
	if w.kind != kindSend && w.kind != kindWrite {
		return wire.Only
	}
	pos := wire.Middle
	if off == 0 {
		pos |= wire.First
	}
	if off+1 == w.packets {
		pos |= wire.Last
	}
	return pos
}

// ask sets the AckReq bit where an acknowledgement is needed to go on: at the
// end of a message, and before the sender stops. Inside a long message every
// AckInterval-th packet asks, so that the window moves steadily.
func (r *requester) ask(in *Intent, stalls bool) (asked bool) {
	r.unasked++
	if in.Info.Pos&wire.Last == 0 && r.unasked < AckInterval && !stalls {
		return false
	}
	r.unasked = 0
	wire.BTHAt(in.Hdr[:]).SetAckReq(true)
	return true
}

// reqSettle completes a request that failed locally once it is the oldest, and
// reports that the queue has drained.
func (q *QP) reqSettle(now mono.Time) {
	r := &q.req
	if !q.reqLive() {
		return
	}
	if r.head != r.tail && r.oldest().status != ibv.WCSuccess {
		q.reqFail(now, r.oldest().status)
		return
	}
	if q.draining && q.reqDrained() {
		q.draining = false
		if q.attr.EnSQDAsyncNotify {
			q.env.event(ibv.EventSQDrained, q)
		}
	}
}
