package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// A peer may be late and have lost nothing: its process did not get a CPU for longer
// than the local ACK timeout. When it goes on it answers, one after the other, what
// was sent before the timer expired. To repeat more with each of these answers would
// send all again that was outstanding, each packet just before its answer comes.
//
// An answer that comes promptly after the repetition shows that this was needed, and
// what follows is repeated too. At any other time it is the first of what comes
// late: then all that was ever sent counts as sent again, and answers to the rest
// are awaited. If none comes for as long as a prompt one takes, repeating goes on,
// with few packets, and the next answer is judged in the same way.
//
// A peer that has turned out late is given more time for a while, as the
// specification leaves room for (IBTA vol. 1, 9.7.6.1.3).

const (
	promptShare = 4   // part of the local ACK timeout that a prompt answer takes at most
	lateSpan    = 256 // local ACK timeouts for which a late peer is given more time
)

// lateState is what the requester makes of the last local ACK timeout.
type lateState uint8

const (
	lateCalm  lateState = iota // nothing
	lateDoubt                  // the oldest was repeated for want of any answer, and none has come
	lateHope                   // answers to what was not repeated are awaited
)

// lateness is what the requester knows of a peer that may be late.
type lateness struct {
	state lateState
	// lateHope: what lies before bare was repeated, what follows up to end was not.
	// Progress beyond bare is no answer to a repetition.
	bare, end psn.PSN

	doublings uint8     // of the local ACK timeout
	until     mono.Time // when those are over
	counted   bool      // one of them is for the last timeout
}

// backoff is how often the local ACK timeout that starts now is doubled.
func (r *requester) backoff(now mono.Time) uint8 {
	n := r.timeouts
	if now < r.late.until {
		n += r.late.doublings
	}
	return min(n, maxBackoff)
}

// reqPrompt is how long a prompt answer takes at most.
func (q *QP) reqPrompt() time.Duration {
	return min(q.req.repeatWait(), ackTimeout(q.attr.Timeout)/promptShare)
}

// reqSuspect decides, at the first progress after a timeout, what that says of the
// link. A peer that answers the repetition as fast as it answers always has missed
// what was repeated. One that was slow is slow at any other time.
func (q *QP) reqSuspect(now mono.Time) {
	r := &q.req
	f := &r.fix
	if f.link != linkSuspect {
		return
	}
	f.link = linkClean
	switch {
	case !r.rtt.known():
	case now <= f.when.Add(r.repeatWait()):
		f.link = linkLossy
	case r.late.state == lateDoubt:
		q.reqLate(now)
	}
}

// reqHope looks, after progress, at whether more may come without a repetition.
func (q *QP) reqHope(now mono.Time) {
	r := &q.req
	l := &r.late
	if l.state == lateHope {
		if l.bare.Less(r.una) {
			q.reqLate(now)
		}
		if !r.una.Less(l.end) {
			l.state = lateCalm
		}
		return
	}
	l.state = lateCalm
	if now <= r.fix.when.Add(q.reqPrompt()) {
		return
	}
	l.bare = r.nxt
	r.skip()
	if l.end = r.nxt; l.bare != l.end {
		l.state = lateHope
	}
}

// skip goes on behind everything that was ever sent, or to the first of it that is
// not to be sent again.
func (r *requester) skip() {
	for r.nxt != r.max {
		switch w := r.at(r.cur); {
		case w.status != ibv.WCSuccess:
			return
		case w.kind.local(): // it was executed before what was sent after it
			r.cur++
		default:
			r.pass(w, r.covers(w))
		}
	}
}

// reqDespair goes back: the answers that were awaited do not come.
func (q *QP) reqDespair(now mono.Time) {
	r := &q.req
	if r.probing == 0 || r.probing > probeWindow {
		r.probing = probeWindow
	}
	q.reqGoBack(now)
	r.late.state = lateDoubt
}

// reqLate notes that the last timeout was too early. It counts once, however many
// answers show it, and only where nothing was ever lost: a loss may look so.
func (q *QP) reqLate(now mono.Time) {
	l := &q.req.late
	if l.counted || q.req.fix.link == linkLossy {
		return
	}
	l.counted = true
	if now >= l.until {
		l.doublings = 0
	}
	l.doublings = min(l.doublings+1, maxBackoff)
	l.until = now.Add(lateSpan * ackTimeout(q.attr.Timeout))
}
