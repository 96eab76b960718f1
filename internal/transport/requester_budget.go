package transport

// Flight counts and bounds the request packets that queue pairs of one worker have
// unacknowledged together. Each queue pair's part is in its requester; that of an
// earlier era does not count any more.
type Flight struct {
	// Budget is how many may be, give or take the packets of one READ; 0 is no
	// limit. A queue pair that it stops says so by Throttled.
	Budget int

	packets int
	landed  uint64 // packets that do not count any more, because they were answered or their queue pair has failed
	era     uint32
}

// InFlight is how many request packets of all queue pairs are unacknowledged,
// response packets of READs included.
func (f *Flight) InFlight() int { return f.packets }

// Landed is how many packets are no longer in flight, in all.
func (f *Flight) Landed() uint64 { return f.landed }

// Forget takes everything in flight for lost. Queue pairs whose peers are gone
// may wait for them long, or for ever with the timeout 0; others must not wait
// with them. Those of a queue pair that gets an answer after all count again.
func (f *Flight) Forget() {
	f.packets = 0
	f.era++
}

// Throttled reports whether the last Poll stopped for the budget that all queue
// pairs share. The driver polls q again when there is room.
func (q *QP) Throttled() bool { return q.req.state == reqBudget }

// reqFlying is q's part of what is in flight now, without what was forgotten.
// Going back to repeat packets does not lessen it: the peer may yet have to
// receive the first of them, and the repetition needs no more room than they.
func (q *QP) reqFlying() int {
	if q.oneWay() {
		return 0
	}
	return q.req.sent() - q.req.lost
}

// reqCharged is what the flight has of it.
func (q *QP) reqCharged() int {
	if q.req.era != q.flight.era {
		return 0
	}
	return q.req.charge
}

// reqCharge brings that up to date.
func (q *QP) reqCharge() {
	r, f := &q.req, q.flight
	r.lost = min(r.lost, r.sent())
	n := q.reqFlying()
	if n == r.charge && r.era == f.era {
		return
	}
	more := n - q.reqCharged()
	f.packets += more
	if more < 0 {
		f.landed += uint64(-more)
	}
	r.charge, r.era = n, f.era
}

// reqEra takes notice of what was forgotten before q sends more.
func (q *QP) reqEra() {
	r, f := &q.req, q.flight
	if r.era != f.era {
		r.era, r.charge, r.lost = f.era, 0, r.sent()
	}
}

// reqOverBudget reports whether the queue pairs have all in flight that they
// may. A packet is sent when there is any room: a READ of many responses would
// wait for ever behind packets that need little.
func (q *QP) reqOverBudget() bool {
	f := q.flight
	return f.Budget != 0 && f.packets-q.reqCharged()+q.reqFlying() >= f.Budget
}

// reqStopped reports whether the budget, or others that it stopped before, keep
// q from sending a packet for the first time.
func (q *QP) reqStopped() bool {
	return q.req.nxt == q.req.max && (q.env.Queued || q.reqOverBudget())
}

// reqHeld reports whether that is what a work request in the ring waits for.
func (q *QP) reqHeld() bool {
	if q.oneWay() || !q.reqStopped() {
		return false
	}
	n, ok := q.req.posted()
	return ok && n > 0
}
