package transport

// flight counts the request packets that the queue pairs of a worker have
// unacknowledged. Each queue pair's part is in its requester; that of an earlier
// era does not count any more.
type flight struct {
	packets int
	era     uint32
}

// InFlight is how many request packets of all queue pairs are unacknowledged,
// response packets of READs included.
func (e *Env) InFlight() int { return e.flight.packets }

// Forget takes everything in flight for lost. Queue pairs whose peers are gone
// may wait for them long, or for ever with the timeout 0; others must not wait
// with them. Those of a queue pair that gets an answer after all count again.
func (e *Env) Forget() { e.flight = flight{era: e.flight.era + 1} }

// Throttled reports whether the last Poll stopped for the budget that all queue
// pairs share. The driver polls q again when there is room.
func (q *QP) Throttled() bool { return q.req.state == reqBudget }

// reqFlying is q's part of what is in flight now: without what was forgotten.
func (q *QP) reqFlying() int {
	if q.oneWay() {
		return 0
	}
	return max(0, q.req.inflight()-q.req.lost)
}

// reqCharged is what env.flight has of it.
func (q *QP) reqCharged() int {
	if q.req.era != q.env.flight.era {
		return 0
	}
	return q.req.charge
}

// reqCharge brings that up to date.
func (q *QP) reqCharge() {
	r, f := &q.req, &q.env.flight
	r.lost = min(r.lost, max(0, r.inflight()))
	n := q.reqFlying()
	if n == r.charge && r.era == f.era {
		return
	}
	f.packets += n - q.reqCharged()
	r.charge, r.era = n, f.era
}

// reqEra takes notice of what was forgotten before q sends more.
func (q *QP) reqEra() {
	r, f := &q.req, &q.env.flight
	if r.era != f.era {
		r.era, r.charge, r.lost = f.era, 0, max(0, r.inflight())
	}
}

// reqOverBudget reports whether the queue pairs have all in flight that they
// may. A packet is sent when there is any room: a READ of many responses would
// wait for ever behind packets that need little.
func (q *QP) reqOverBudget() bool {
	e := q.env
	return e.Budget != 0 && e.flight.packets-q.reqCharged()+q.reqFlying() >= e.Budget
}

// reqStopped reports whether the budget, or others that it stopped before, keep
// q from sending.
func (q *QP) reqStopped() bool { return q.env.Queued || q.reqOverBudget() }

// reqHeld reports whether that is what a work request in the ring waits for.
func (q *QP) reqHeld() bool {
	if q.oneWay() || !q.reqStopped() {
		return false
	}
	n, ok := q.req.posted()
	return ok && n > 0
}
