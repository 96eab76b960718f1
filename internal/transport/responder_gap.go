package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A sequence NAK, or what it made the peer repeat, may be lost in turn. The peer
// learns that from its timer only, which is long. So the NAK is sent again when
// the repetition is overdue: what measures that is how long earlier repetitions
// took.

const (
	gapFirstWait = time.Millisecond // while no repetition has been measured
	gapMinWait   = 100 * time.Microsecond
	gapMaxNaks   = 6 // repetitions of a NAK: after these the peer's timer must do
)

// gapWatch is what the responder knows of its oldest gap.
type gapWatch struct {
	rtt   rttMeter
	since mono.Time // when the NAK was owed
	again mono.Time // when to send it again, valid while set
	naks  uint8     // repetitions of the NAK
	set   bool
}

// deadline is when the NAK is to be sent again.
func (g *gapWatch) deadline() mono.Time {
	if !g.set {
		return mono.Never
	}
	return g.again
}

// open begins to wait for what a NAK that is owed from now on asks for.
func (g *gapWatch) open(now mono.Time, request *rttMeter) {
	g.since, g.naks, g.set = now, 0, true
	g.again = now.Add(g.wait(request))
}

// wait is how long a repetition may take: what the gaps before took, or else the
// round trips of our own requests.
func (g *gapWatch) wait(request *rttMeter) time.Duration {
	d := gapFirstWait
	switch {
	case g.rtt.known():
		d = max(g.rtt.timeout(), gapMinWait)
	case request.known():
		d = max(request.timeout(), gapMinWait)
	}
	return d << g.naks
}

// close ends the wait: the missing packet has come. Which of several NAKs has
// brought it nobody knows, so only the first is measured.
func (g *gapWatch) close(now mono.Time) {
	if g.set && g.naks == 0 {
		g.rtt.sample(now.Sub(g.since))
	}
	g.set = false
}

// respRenewNak owes the NAK again whose answer is overdue.
func (q *QP) respRenewNak(now mono.Time) {
	st, g := &q.resp.st, &q.resp.gap
	if !g.set || now < g.again {
		return
	}
	if g.naks >= gapMaxNaks || !st.has(gapOpen) || st.has(rnrWait) {
		g.set = false
		return
	}
	g.naks++
	g.again = now.Add(g.wait(&q.req.rtt))
	q.env.count(RenewedNaks)
	q.respOweNak(&respPacket{now: now}, wire.NakPSNSeq, st.ePSN)
}

// respNextGap owes the NAK for the next gap at once, when the one before has been
// filled and packets behind the next are here already.
func (q *QP) respNextGap(now mono.Time) {
	if q.resp.kept.count != 0 && !q.resp.st.has(gapOpen) {
		q.respOpenGap(now)
	}
}
