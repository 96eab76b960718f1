package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	ackTimeoutUnit = 4096 * time.Nanosecond // of the local ACK timeout (IBTA vol. 1, 9.7.6.1.3)
	rnrForEver     = 7                      // rnr_retry without a limit
	maxBackoff     = 2                      // doublings of the timeout at most
	probeWindow    = AckInterval / 2        // PSNs that are sent again at first after a timeout
)

// reqAckDeadline is when the local ACK timeout ends that starts now; the
// timeout 0 never ends. Repeated timeouts without progress last longer, and those
// of a peer that was late not long ago, up to four times as long, as the
// specification leaves room for: a peer that is late because it is busy must not be
// buried under repetitions.
func (q *QP) reqAckDeadline(now mono.Time) mono.Time {
	if q.attr.Timeout == 0 {
		return mono.Never
	}
	return now.Add(ackTimeout(q.attr.Timeout) << q.req.backoff(now))
}

// ackTimeout is the local ACK timeout of a code that is not 0.
func ackTimeout(code uint8) time.Duration { return ackTimeoutUnit << (code & 31) }

// reqProgress notes that the oldest outstanding PSN has moved: retries begin
// anew, a pause for the PSN before is over, the timeout starts again.
func (q *QP) reqProgress(now mono.Time, by progressBy) {
	r := &q.req
	r.retries, r.timeouts, r.rnrTries, r.restarted = 0, 0, 0, false
	r.rnrUntil = mono.Never
	if r.probing != 0 {
		if r.probing *= 2; r.probing >= q.env.Window {
			r.probing = 0
		}
	}
	q.reqSuspect(now)
	if r.late.state != lateCalm {
		q.reqHope(now) // before the timer starts, for what counts as sent
	}
	r.redo = later(r.redo, r.una)
	r.due = now // the window has moved
	r.ackTimer = mono.Never
	if r.inflight() > 0 {
		r.ackTimer = q.reqAckDeadline(now)
	}
	if r.timing && r.rttPSN.Less(r.una) {
		r.timing = false
		r.rtt.sample(now.Sub(r.rttAt))
	}
	q.reqJudge(now, by)
}

// rewind makes the oldest outstanding PSN the next to send.
func (r *requester) rewind() {
	r.nxt, r.cur = r.una, r.head
	r.redo = r.max
	r.credits, r.unasked = 0, 0
	r.ackTimer = mono.Never
	r.timing = false
	r.fix.rest(r.una)
	r.late.state = lateCalm
}

// reqExpire runs the deadlines that have passed.
func (q *QP) reqExpire(now mono.Time) {
	r := &q.req
	if now >= r.rnrUntil {
		r.rnrUntil = mono.Never
		r.restarted = false
	}
	if now >= r.ackTimer {
		// Nobody answered: the peer or the way to it may be drowning in what was
		// sent before. A few packets show where the peer is, since it acknowledges a
		// duplicate with the newest PSN that it has executed; then the window grows
		// back with each sign of progress. Fewer each time, lest they fall into step
		// with losses that come at regular intervals.
		r.restarted = true
		r.probing = probeWindow >> r.timeouts
		if f := q.flight; 2*f.InFlight() > f.Budget && f.Budget != 0 {
			r.probing = 1 // all that others repeat at the same time must find room too
		}
		r.timeouts = min(r.timeouts+1, maxBackoff)
		r.fix.lost = false
		r.fix.link, r.fix.when = max(r.fix.link, linkSuspect), now
		// A responder that repeats READs to their end only needs to be asked so.
		q.releaseEnds()
		q.env.count(LocalAckTimeoutErr)
		q.reqRepeat(now)
		r.late.state, r.late.counted = lateDoubt, false
	}
	if now >= r.fix.again {
		q.reqOverdue(now)
	}
}

// reqRestart goes back after a NAK or a gap in the responses. Every packet of a
// burst behind one loss may report it: only the first report counts until there
// is progress or the timer expires. During an RNR pause the repetition is
// already due.
func (q *QP) reqRestart(now mono.Time) {
	r := &q.req
	if r.restarted || r.rnrUntil != mono.Never {
		return
	}
	r.restarted = true
	r.fix.ranges.pass()
	r.fix.evidence()
	r.fix.when = now
	q.reqRepeat(now)
}

// reqRepeat spends one of retry_cnt repetitions and goes back, or fails the oldest
// request.
func (q *QP) reqRepeat(now mono.Time) {
	if q.reqSpendRetry(now) {
		q.req.rewind()
		q.req.due = now
	}
}

// reqSpendRetry spends one of retry_cnt repetitions. When none is left it fails the
// oldest request and returns false.
func (q *QP) reqSpendRetry(now mono.Time) bool {
	r := &q.req
	if r.retries >= q.attr.RetryCnt {
		q.env.count(RetryExceededErr)
		q.reqFail(now, ibv.WCRetryExcErr)
		return false
	}
	r.retries++
	q.env.count(CompleterRetryErr)
	return true
}

// reqImpliedNak asks again for a READ or atomic whose response was lost.
func (q *QP) reqImpliedNak(now mono.Time) {
	q.env.count(ImpliedNak)
	q.reqRestart(now)
}

// reqRNRNak pauses for at least the time of the responder's timer code. It does
// not count against retry_cnt: the responder has just shown that it is there.
func (q *QP) reqRNRNak(now mono.Time, code uint8) {
	r := &q.req
	q.env.count(RcvdRNRErr)
	if r.rnrUntil != mono.Never {
		return // a copy of the NAK that this pause is for
	}
	if q.attr.RNRRetry != rnrForEver {
		if r.rnrTries >= q.attr.RNRRetry {
			q.env.count(RetryRNRExceededErr)
			q.reqFail(now, ibv.WCRNRRetryExcErr)
			return
		}
		r.rnrTries++
	}
	r.retries, r.timeouts = 0, 0
	r.fix.lost = false
	r.rewind()
	r.rnrUntil = now.Add(wire.RNRTimer(code))
}

// reqFault fails the message that PSN p belongs to: the memory of its payload
// has gone away, or the path of its datagram. It completes with status once it is
// the oldest; until then nothing from it on is sent.
func (q *QP) reqFault(now mono.Time, p psn.PSN, status ibv.WCStatus) {
	r := &q.req
	if !q.reqLive() || p.Less(r.una) || !p.Less(r.max) {
		return
	}
	for i := r.head; i != r.tail; i++ {
		w := r.at(i)
		if w.offset(p) >= w.packets {
			continue
		}
		w.status = status
		if i != r.head && w.first.Less(r.nxt) {
			r.nxt, r.cur = w.first, i
			r.fix.rest(r.una)
		}
		break
	}
	if q.oneWay() {
		q.reqSent(now)
	}
	q.reqSettle(now)
}
