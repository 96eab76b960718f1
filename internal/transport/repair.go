package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Loss recovery. A sequence NAK, or a response that came without those before it,
// shows that something was lost. What is missing is repeated alone, if that does:
//
//   - Responses that come after a gap are kept, so only those in the gap are asked
//     for again.
//   - A responder that keeps requests after a gap acknowledges, once the gap is
//     filled, far more than what was repeated. One that keeps none acknowledges
//     exactly that, and then all that follows is repeated too (go-back-N). What a
//     responder does shows at its first gap and is remembered; one that keeps
//     nothing is asked again now and then, ever more rarely.
//
// A repetition may be lost as well. How long it may take is known from round trips
// that were measured; what is overdue is repeated without counting against
// retry_cnt, while the local ACK timeout, which does count, runs on. On a link that
// has shown losses the same is done for the last packets, whose loss nothing shows,
// with far more patience. Where nothing was ever lost only the timeout repeats.

const (
	firstRepeatWait = time.Millisecond       // before a round trip was measured
	minRepeatWait   = 100 * time.Microsecond // shorter is noise in software
	maxRepeats      = 6                      // doublings of the wait
	tailShare       = 8                      // of the local ACK timeout that the last packets wait at least
)

// progressBy is what has moved the oldest outstanding PSN.
type progressBy uint8

const (
	byAck      progressBy = iota // an ACKNOWLEDGE
	byResponse                   // a READ response or atomic result
)

// askWhy is why one packet was repeated alone.
type askWhy uint8

const (
	askNAK   askWhy = iota // a NAK says that it is missing
	askGuess               // the acknowledgement of a repetition ended there
	askProbe               // nothing but patience had run out
)

// linkState is what the requester has seen of the way to its peer.
type linkState uint8

const (
	linkClean   linkState = iota // nothing was lost
	linkSuspect                  // the timer has expired and nothing has come since
	linkLossy                    // something was lost
)

// repair is how the requester recovers from a loss.
type repair struct {
	// Packets that were sent and are known to be missing lie from at to end, and
	// una <= at <= end <= nxt; from una to at they were repeated. What of them was
	// answered meanwhile is skipped.
	at, end psn.PSN
	wqe     uint32 // at or before the work request of at

	// After one packet was repeated alone: what is acknowledged next tells whether
	// the peer has kept what follows askEnd, for up to recover all had been sent.
	asking          bool
	why             askWhy
	askEnd, recover psn.PSN

	link    linkState
	lost    bool      // a NAK or a gap says that una is lost, and there was no progress since
	repeats uint8     // of una since, by time
	when    mono.Time // of the last repetition of una
	again   mono.Time // when to repeat what is overdue, Never when nothing is

	keeps  belief // that the peer keeps requests that come after a gap
	ranges belief // that it answers requests for a part of a READ

	// A part of a READ was asked for, up to partEnd; see reqMayPart.
	part    bool
	partEnd psn.PSN
	chunk   psn.PSN // first PSN of the READ request of which a part was asked for last
	waits   bool    // what lies at at waits for una to come nearer
}

// startAt forgets everything: the first PSN is p.
func (f *repair) startAt(p psn.PSN) { *f = repair{at: p, end: p, chunk: noPSN, again: mono.Never} }

// reask begins anew with what is missing.
func (r *requester) reask() {
	r.fix.at, r.fix.wqe = r.una, r.head
	r.fix.chunk, r.fix.waits = noPSN, false
}

// rest ends all repairs: what comes next is sent from una on.
func (f *repair) rest(una psn.PSN) {
	f.at, f.end, f.asking = una, una, false
	f.part, f.chunk, f.waits = false, noPSN, false
	f.again = mono.Never
}

// evidence notes that something was lost.
func (f *repair) evidence() {
	f.link = linkLossy
	if !f.lost {
		f.lost = true
		f.again = mono.Never // sooner than that
	}
}

// reqSeqNak answers a sequence NAK of the oldest outstanding PSN.
func (q *QP) reqSeqNak(now mono.Time) {
	r := &q.req
	f := &r.fix
	q.env.count(RcvdSeqErr)
	if r.rnrUntil != mono.Never || !r.una.Less(r.nxt) {
		return // it is sent next in any case
	}
	if r.restarted || r.una.Less(f.at) {
		// The responder sends its NAK again when the repetition is overdue there.
		if r.rtt.known() && now >= f.when.Add(r.rtt.mean) {
			q.reqRepeatLost(now)
		}
		return
	}
	f.evidence()
	if !q.reqSpendRetry(now) {
		return
	}
	r.restarted = true
	f.when = now
	if !f.keeps.try() {
		f.keeps.pass()
		q.reqGoBack(now)
		return
	}
	q.reqAsk(now, askNAK)
}

// reqAsk repeats the oldest packet alone; what is acknowledged then tells more.
func (q *QP) reqAsk(now mono.Time, why askWhy) {
	r := &q.req
	f := &r.fix
	w := r.oldest()
	if !r.una.Less(f.at) {
		r.reask()
	}
	f.end = later(f.end, r.una.Add(r.takes(w, r.una)))
	f.asking, f.why, f.askEnd, f.recover = true, why, f.end, r.nxt
	r.repeated(now)
}

// repeated notes that something is about to be sent again.
func (r *requester) repeated(now mono.Time) {
	r.redo = later(r.redo, r.nxt)
	r.timing = false
	r.due = now
}

// reqGap notes that responses before end are missing although what was sent after
// them is here.
func (q *QP) reqGap(now mono.Time, end psn.PSN) {
	r := &q.req
	f := &r.fix
	if r.nxt.Less(end) {
		end = r.nxt
	}
	if r.rnrUntil != mono.Never || !f.end.Less(end) {
		return
	}
	q.env.count(ImpliedNak)
	if r.restarted && !f.asking {
		return // all of it is being repeated
	}
	if !q.reqKeeps(end) {
		q.reqRestart(now)
		return
	}
	f.evidence()
	f.when = now
	f.end = end
	r.repeated(now)
}

// reqGapNak is reqGap with a sequence NAK of PSN p, which comes after the missing
// responses.
func (q *QP) reqGapNak(now mono.Time, p psn.PSN) {
	r := &q.req
	f := &r.fix
	q.env.count(RcvdSeqErr)
	if !f.keeps.try() {
		q.reqImpliedNak(now)
		return
	}
	before := f.end
	q.reqGap(now, p.Next())
	if f.end != before && !f.asking {
		f.asking, f.why, f.askEnd, f.recover = true, askNAK, f.end, r.nxt
	}
}

// reqGoBack repeats everything from the oldest outstanding PSN on. Unlike a
// timeout it leaves the timer alone.
func (q *QP) reqGoBack(now mono.Time) {
	r := &q.req
	timer := r.ackTimer
	r.rewind()
	r.ackTimer, r.fix.when, r.due = timer, now, now
}

// reqRepeatLost repeats what was repeated before and is overdue.
func (q *QP) reqRepeatLost(now mono.Time) {
	r := &q.req
	f := &r.fix
	f.repeats = min(f.repeats+1, maxRepeats)
	f.when, f.again = now, mono.Never
	if r.una.Less(f.end) && !q.reqPartRefused() {
		r.reask()
		r.repeated(now)
		return
	}
	// Little at a time: this may go on until the timeout.
	r.probing = probeWindow
	q.reqGoBack(now)
}

// reqOverdue is called when the wait for an answer is over.
func (q *QP) reqOverdue(now mono.Time) {
	r := &q.req
	f := &r.fix
	f.again = mono.Never
	switch {
	case r.rnrUntil != mono.Never || r.head == r.tail || r.oldest().status != ibv.WCSuccess:
	case f.asking && r.una == f.askEnd:
		q.reqDistrust(now)
	case f.lost || r.una.Less(f.end):
		q.reqRepeatLost(now)
	case r.late.state == lateHope:
		q.reqDespair(now)
	case r.una.Less(r.nxt):
		q.env.count(TailProbes)
		f.repeats = min(f.repeats+1, maxRepeats)
		f.when = now
		q.reqAsk(now, askProbe)
	}
}

// reqAgain is when reqOverdue is due if nothing comes from now on.
func (q *QP) reqAgain(now mono.Time) mono.Time {
	r := &q.req
	f := &r.fix
	if r.inflight() == 0 {
		return mono.Never
	}
	probing := f.asking && f.why == askProbe && r.una.Less(f.askEnd)
	if f.lost || !probing && (f.asking || r.una.Less(f.end)) {
		return now.Add(r.repeatWait() << f.repeats)
	}
	if r.late.state == lateHope {
		return now.Add(q.reqPrompt())
	}
	if f.link != linkLossy || !r.rtt.known() || q.attr.Timeout == 0 {
		return mono.Never
	}
	d := max(r.rtt.patience(), ackTimeout(q.attr.Timeout)/tailShare)
	return now.Add(d << f.repeats)
}

// repeatWait is how long an answer may take that is known to be lost unless it has
// come by then.
func (r *requester) repeatWait() time.Duration {
	if !r.rtt.known() {
		return firstRepeatWait
	}
	return max(r.rtt.timeout(), minRepeatWait)
}

// reqJudge looks, after progress, at what it says about repairs; by tells that it
// was an acknowledgement, which says how much the responder has and not more.
func (q *QP) reqJudge(now mono.Time, by progressBy) {
	r := &q.req
	f := &r.fix
	f.lost, f.repeats, f.again = false, 0, mono.Never
	if !f.asking || r.una.Less(f.askEnd) {
		return
	}
	mayLack := by == byAck && r.head != r.tail && !r.oldest().kind.answered()
	switch {
	case !r.una.Less(f.recover):
		f.asking = false // nothing was sent that it could have kept
	case f.why == askProbe:
		f.askEnd = r.una // a peer that was slow goes on in a moment
	case f.askEnd.Less(r.una):
		if f.why == askNAK {
			f.keeps.yes()
		}
		f.asking = false
		if mayLack {
			q.reqAskNext(now)
		}
	case mayLack && f.why == askNAK:
		q.reqDistrust(now)
	default: // of a READ the responses may follow; a guess may be wrong
	}
}

// reqAskNext repeats the packet at which an acknowledgement ended that the
// repetition before has brought: everything before f.recover had been sent by then,
// so this was lost too.
func (q *QP) reqAskNext(now mono.Time) {
	r := &q.req
	f := &r.fix
	f.evidence()
	f.when = now
	f.end = later(f.end, r.una.Next())
	f.asking, f.why, f.askEnd = true, askGuess, r.una.Next()
	r.repeated(now)
}

// reqDistrust goes back: the responder has not kept what follows the packet that
// was repeated.
func (q *QP) reqDistrust(now mono.Time) {
	r := &q.req
	f := &r.fix
	if f.why == askNAK {
		f.keeps.no()
	}
	f.lost, r.restarted = true, true
	q.reqGoBack(now)
}

// reqMend sends the next packet that is to be repeated.
func (q *QP) reqMend(now mono.Time, tx *Batch) reqState {
	r := &q.req
	f := &r.fix
	if int32(f.wqe-r.head) < 0 {
		f.wqe = r.head
	}
	for f.at.Less(f.end) {
		w := r.at(f.wqe)
		if w.offset(f.at) >= w.packets {
			f.wqe++
			continue
		}
		if w.status != ibv.WCSuccess {
			break // it fails once it is the oldest
		}
		n := r.settled(w, f.at)
		if n == 0 {
			if tx.full(r.maxSGE) {
				return reqRoom
			}
			if n = r.takes(w, f.at); r.executed(w, f.at) {
				n = min(n, f.end.Sub(f.at))
				if !r.mayPart(w, f.at, n) {
					f.waits = true
					return reqSending
				}
			}
			in := q.reqEmit(tx, f.wqe, f.at, n)
			if in == nil {
				break
			}
			wire.BTHAt(in.Hdr[:]).SetAckReq(true)
			q.paced(now, in)
			f.at = f.at.Add(n)
			f.end = later(f.end, f.at)
			return reqSending
		}
		f.at = f.at.Add(min(n, f.end.Sub(f.at)))
	}
	f.at = f.end
	return reqSending
}

// settled is how many PSNs of w from p on need no repetition: their requests are
// acknowledged, or their responses are here.
func (r *requester) settled(w *sendWQE, p psn.PSN) int {
	switch {
	case !w.kind.answered():
		return max(0, min(int(w.packets-w.offset(p)), r.acked.Sub(p)))
	case r.kept.has(p):
		return 1
	}
	return 0
}
