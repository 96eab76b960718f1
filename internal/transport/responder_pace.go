package transport

import (
	"math/bits"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// One request may ask for 2 GiB, and nothing in the protocol says how fast the
// requester takes the responses: they leave as fast as the link takes them. A peer
// whose receive queue runs over misses most of them. Some, rdma_rxe among them, ask
// again only when their timer runs out, receive as much as their queue holds, and
// miss the rest again.
//
// A duplicate READ shows that. When far more had been sent after what is missing
// than a window of requests would have asked for, and the peer was far slower over
// what it has than it was sent, responses are sent at a rate from then on. That it
// has got lies between the two speeds; where the queue ran over says more each time.
// It is raised again for a peer that gets all, and given up for one that gains
// nothing by it: that one has lost packets for other reasons. A peer that never asks
// twice is never slowed down.

const (
	paceMinGot    = 128                   // responses in a row that have come: fewer fill no queue
	paceMinBeyond = 2 * DefaultWindow     // responses sent after those
	paceMinRatio  = 8                     // of the time that they took to the time in which they were sent
	paceMaxGap    = time.Millisecond      // between two responses
	paceSlice     = time.Millisecond      // responses of this long are sent at once
	paceIdle      = 10 * time.Millisecond // without a response to send: queues are empty again
	paceMaxCuts   = 4                     // without any success
	paceMaxRun    = 1 << 20               // responses after which a run is counted anew
	paceCalm      = 8                     // times what the peer's queue takes: all of it came, so raise the rate
	paceMaxFails  = 6                     // doublings of that
)

// responsePace is the rate of READ responses to one peer.
type responsePace struct {
	// Responses sent one after another, all at the same rate.
	first, next psn.PSN
	began, last mono.Time

	gap    time.Duration // for each response, 0: no limit
	fast   time.Duration // the gap with which the peer was overrun first
	slow   time.Duration // and the time that it took then for each that it got
	holds  uint32        // responses that its queue takes at once
	calm   uint32        // responses sent since the rate has changed
	cuts   uint8         // of the rate since there was a success
	raises uint8         // of the rate since there was a cut
	fails  uint8         // raises that led to a cut
	helps  belief        // that to slow down helps
	ready  mono.Time     // when the next response may leave
}

// newPace bears one failure more than a belief does at first: a peer that waits for
// its timer loses so much by being overrun that two tries are worth their time.
func newPace() responsePace { return responsePace{helps: belief{trust: 1}} }

// until is when the next response may leave, at or before now when it may. Several
// leave together: a worker is not woken for each.
func (p *responsePace) until(now mono.Time) mono.Time {
	if p.gap == 0 || p.ready <= now {
		return now
	}
	return p.ready.Add(p.slice())
}

// slice is how much time's responses leave together: no more than a part of what
// the peer's queue holds.
func (p *responsePace) slice() time.Duration {
	return min(paceSlice, p.gap*time.Duration(p.holds/8))
}

// sent accounts for the response with PSN at.
func (p *responsePace) sent(now mono.Time, at psn.PSN) {
	if p.began == 0 || at != p.next || at.Sub(p.first) >= paceMaxRun {
		p.first, p.began = at, now
	}
	p.next, p.last = at.Next(), now
	if p.gap != 0 {
		p.calm++
		p.ready = max(p.ready, now.Add(-p.slice())).Add(p.gap)
	}
}

// again takes notice of a request for everything from PSN at on. It reports whether
// responses are sent more slowly for it.
func (p *responsePace) again(now mono.Time, at psn.PSN) (slower bool) {
	got, beyond := at.Sub(p.first), p.next.Sub(at)
	if p.began == 0 || got < 0 || beyond <= 0 {
		return false // not of this run, or one more of the requests that begin another
	}
	fast, slow := p.last.Sub(p.began)/time.Duration(got+beyond), now.Sub(p.began)/time.Duration(max(got, 1))
	p.began, p.next = 0, at
	switch {
	case p.gap != 0:
		return p.cut(uint32(got))
	case got < paceMinGot || beyond < paceMinBeyond || slow < paceMinRatio*fast:
		return false
	case !p.helps.try():
		p.helps.pass()
		return false
	}
	p.fast, p.slow, p.holds = max(fast, 1), slow, uint32(got)
	p.cuts, p.fails = 1, 0
	p.set(p.fast << (bits.Len64(uint64(slow/p.fast)) / 2)) // between the two
	return true
}

// cut lowers the rate: at the present one the peer's queue ran over after got
// responses. It took them at a rate lower by the share that its queue held.
func (p *responsePace) cut(got uint32) (slower bool) {
	if p.raises > 0 {
		p.fails = min(p.fails+1, paceMaxFails)
	}
	p.cuts++
	if got < p.holds/2 || p.cuts > paceMaxCuts {
		// It gets no more than it did at full speed.
		p.helps.no()
		p.gap = 0
		return false
	}
	gap := 4 * p.gap
	if more := got - min(p.holds, got); more > got/4 {
		gap = p.gap * time.Duration(got) / time.Duration(more)
	}
	p.set(gap + gap/16)
	return true
}

// fresh takes notice of a READ that is asked for the first time: the peer goes on.
// When everything before it was sent, idle, and some time ago, the peer's queue is
// empty.
func (p *responsePace) fresh(now mono.Time, idle bool) {
	if idle && now > p.last.Add(paceIdle) {
		p.began = 0
	}
	if p.gap == 0 || p.calm < paceCalm*p.holds<<p.fails {
		return
	}
	p.helps.yes()
	p.cuts = 0
	gap := p.gap - p.gap>>max(3-int(p.raises), 1)
	p.raises = min(p.raises+1, 3)
	if gap <= p.fast {
		p.gap, p.fails = 0, 0
		return
	}
	raises := p.raises
	p.set(gap)
	p.raises = raises
}

// set changes the rate.
func (p *responsePace) set(gap time.Duration) {
	// Below four times the speed that it had at full speed nothing is gained.
	p.gap = max(min(gap, p.slow/4, paceMaxGap), 1)
	p.calm, p.raises, p.began, p.ready = 0, 0, 0, 0
}

// respPaced reports whether the next response must wait, and what comes after it
// with it.
func (q *QP) respPaced(now mono.Time) bool {
	t := q.resp.pace.until(now)
	if t > now {
		q.resp.due = t
	}
	return t > now
}
