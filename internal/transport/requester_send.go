package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
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
	r.due = mono.Never
	for r.state = reqSending; r.state == reqSending; {
		r.state = q.reqStep(now, tx)
	}
	if r.ackTimer == mono.Never && r.inflight() > 0 {
		r.ackTimer = q.reqAckDeadline(now)
	}
	q.reqSettle(now)
	if r.head == r.tail {
		r.idle(&q.env.copies)
	}
	if r.state == reqRoom || q.oneWay() && r.inflight() > 0 {
		r.due = now
		return true
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
	if s := q.reqMay(w); s != reqSending {
		return s
	}
	if w.kind.local() {
		return q.reqExecute(now, w)
	}
	if tx.full(r.maxSGE) {
		return reqRoom
	}
	return q.reqEmit(tx, w)
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
	}
	if q.oneWay() {
		return q.reqMayOneWay(w)
	}
	// A request that is larger than the window goes alone.
	if n := r.inflight(); n > 0 && n+r.takes(w) > q.reqWindowNow() {
		return reqWindow
	}
	if q.reqStopped() {
		return reqBudget
	}
	return reqSending
}

// takes is the number of PSNs of the next packet of w.
func (r *requester) takes(w *sendWQE) int {
	if w.kind != kindRead {
		return 1
	}
	off := w.offset(r.nxt)
	return int(w.chunkEnd(off) - off)
}

// reqEmit appends the packet of w at nxt.
func (q *QP) reqEmit(tx *Batch, w *sendWQE) reqState {
	r := &q.req
	off := w.offset(r.nxt)
	info := r.ops[w.op].packet[position(w, off)]
	in := tx.next(q, info, r.nxt)
	if info.Payload && !q.reqGather(tx, in, w, off) {
		tx.drop()
		w.status = ibv.WCLocProtErr
		return reqFailed
	}
	in.finish()
	q.reqHeaders(in, w, off)

	n := r.takes(w)
	r.nxt = r.nxt.Add(n)
	if r.max.Less(r.nxt) {
		r.max = r.nxt
	}
	if w.kind.answered() {
		r.credits++
	}
	if off+uint32(n) == w.packets {
		r.cur++
	}
	if !q.oneWay() {
		r.ask(in, r.inflight() >= q.reqWindowNow() || tx.full(r.maxSGE) || q.reqOverBudget())
	}
	q.env.count(SentPkts)
	q.env.Counters[SentBytes] += uint64(in.Len)
	return reqSending
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
func (r *requester) ask(in *Intent, stalls bool) {
	r.unasked++
	if in.Info.Pos&wire.Last == 0 && r.unasked < AckInterval && !stalls {
		return
	}
	r.unasked = 0
	wire.BTHAt(in.Hdr[:]).SetAckReq(true)
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
