package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// requester is the half of a queue pair that sends requests and completes them
// by their responses (IBTA vol. 1, 9.7.3 to 9.7.6), or, where there are none, by
// their having been sent (9.8).
//
// Work requests are numbered by free-running indices:
//
//	head            oldest that has not completed
//	head <= cur     the one whose packet is sent next
//	cur  <= tail    the next one to copy from the ring
//
// and their packets by PSN:
//
//	una             oldest PSN whose response is missing; it belongs to head
//	una <= nxt      the PSN sent next; it belongs to cur
//	nxt <= max      the PSN after the highest ever sent
//
// Going back to repeat packets is always to una: nxt becomes una, cur becomes
// head. Responses to what was sent before may still come, up to max. What is
// missing may also be repeated alone; see repair.
type requester struct {
	sq  *queue.Consumer // nil: the queue pair has no send queue
	ops *sendOps        // what the transport service has
	sendCopies

	head, cur, tail uint32
	unread          int  // seen in the ring, not copied
	corrupt         bool // the ring's producer index was impossible

	una, nxt, max psn.PSN
	assign        psn.PSN // first PSN of the next work request to be copied
	redo          psn.PSN // PSNs from una up to here were asked for twice
	acked         psn.PSN // every request before it has been executed
	spilled       psn.PSN // after the newest response for which there was no room

	state     reqState
	credits   int    // READs and atomics sent since the last going back, not answered
	unasked   int    // packets sent since the last that asks for an acknowledgement
	probing   int    // after a timeout: the window until it has grown back, else 0
	retries   uint8  // restarts since the last progress
	timeouts  uint8  // those of the restarts that were timeouts, up to maxBackoff
	rnrTries  uint8  // RNR NAKs since the last progress
	unflushed bool   // more is posted than the last flush has flushed
	stale     int    // posted in SQE, and to be flushed before anything is sent again
	operated  int    // operations on keys in this Poll
	charge    int    // what the flight has of ours
	lost      int    // what was forgotten of it, until there is an answer
	era       uint32 // to which era of the flight that belongs
	restarted bool   // a NAK or gap caused a restart and there was no progress since

	fix    repair
	late   lateness
	kept   keptList // responses that came after a gap
	rtt    rttMeter
	timing bool // of rttPSN, sent at rttAt
	rttPSN psn.PSN
	rttAt  mono.Time

	word [wordLen]byte // an atomic's result on its way to memory

	ackTimer mono.Time // local ACK timeout, Never when nothing is outstanding
	rnrUntil mono.Time // end of an RNR wait, Never when there is none
	due      mono.Time // Poll can send something new: at once
}

// sgeLen is the size of a scatter/gather entry in a ring's element, whose place
// inline data may take.
const sgeLen = 16

// reqInit makes the requester of a new queue pair.
func (q *QP) reqInit() {
	r := &q.req
	*r = requester{ops: sendOpsOf(q.service), ackTimer: mono.Never, rnrUntil: mono.Never, due: mono.Never}
	r.fix.startAt(0)
	ring := q.cfg.SQ
	if ring == nil || ring.ElemSize() < queue.SendElemSize(1, 0) {
		return
	}
	// The element size is rounded up: what was asked for is the limit.
	room := queue.SendMaxSGE(ring.ElemSize())
	r.maxSGE = min(max(q.cfg.Cap.MaxSendSGE, 1), room)
	r.maxInline = min(max(q.cfg.Cap.MaxInline, 0), room*sgeLen)
	r.sq = queue.NewConsumer(ring)
	r.limit = ring.Entries()
}

// reqReset empties the send queue without completions.
func (q *QP) reqReset() {
	r := &q.req
	if r.sq != nil {
		if n, ok := r.sq.Avail(); ok {
			r.sq.Release(n)
		}
	}
	q.releaseAllKept(&r.kept)
	r.head, r.cur, r.tail, r.unread, r.corrupt, r.unflushed, r.stale = 0, 0, 0, 0, false, false, 0
	r.rtt = rttMeter{}
	r.drop(&q.env.copies)
	r.startAt(0)
}

// reqStart begins sending at SQ_PSN: the queue pair has entered RTS.
func (q *QP) reqStart(now mono.Time) {
	q.req.startAt(psn.Of(q.attr.SQPSN))
	q.req.due = now
}

func (r *requester) startAt(p psn.PSN) {
	r.una, r.nxt, r.max, r.assign, r.redo = p, p, p, p, p
	r.acked, r.spilled = p, p
	r.fix.startAt(p)
	r.late = lateness{}
	r.timing = false
	r.state = reqIdle
	r.credits, r.unasked, r.probing = 0, 0, 0
	r.retries, r.timeouts, r.rnrTries, r.restarted = 0, 0, 0, false
	r.ackTimer, r.rnrUntil, r.due = mono.Never, mono.Never, mono.Never
}

// reqDeadline is the time by which reqPoll must run again.
func (q *QP) reqDeadline() mono.Time {
	r := &q.req
	return mono.Min(mono.Min(r.due, r.fix.again), mono.Min(r.ackTimer, r.rnrUntil))
}

// reqDrained reports whether every message that was begun has completed, and nothing
// is to be flushed.
func (q *QP) reqDrained() bool {
	r := &q.req
	return r.stale == 0 && (r.head == r.tail || r.oldest().first == r.max)
}

// reqLive reports whether the requester sends and completes: it stops for good
// when a completion or a response has moved the queue pair to ERR.
func (q *QP) reqLive() bool { return q.state == ibv.QPStateRTS || q.state == ibv.QPStateSQD }

// reqWindow is how many PSNs may be outstanding: request packets, and packets of
// READ responses, which need room in our own receive ring.
func (q *QP) reqWindow() int { return min(max(q.env.Window, 1), psn.Half/2) }

// reqWindowNow is reqWindow, or less while the requester recovers from a timeout.
func (q *QP) reqWindowNow() int {
	if p := q.req.probing; p != 0 {
		return min(p, q.reqWindow())
	}
	return q.reqWindow()
}

func (r *requester) oldest() *sendWQE { return r.at(r.head) }

// sent is the number of PSNs ever sent that lack a response.
func (r *requester) sent() int { return r.max.Sub(r.una) }

// inflight is the number of PSNs sent since the last going back that lack a
// response.
func (r *requester) inflight() int { return r.nxt.Sub(r.una) }
