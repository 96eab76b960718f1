package verbs

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// CQAttr is what a completion queue is like now.
type CQAttr struct {
	Entries    int           // completions that it holds
	Count      int           // moderation, as Modify has set it
	Period     time.Duration // likewise
	Overflowed bool          // a completion was lost: the queue is useless
}

// Resize gives the queue room for at least entries completions (ibv_resize_cq).
// Those that are in it stay, in order, and none is lost or doubled, whatever queue
// pairs complete and whoever polls meanwhile. It is ErrInvalid when more than
// entries are queued and ErrOverflow when one was lost before; then nothing has
// changed.
func (cq *CQ) Resize(entries int) error {
	if entries < 1 || entries > MaxCQE {
		return opErr("resize", cq.name(), invalid("%d entries: 1 to %d are possible", entries, MaxCQE))
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	switch {
	case cq.gone.Load():
		return opErr("resize", cq.name(), ErrClosed)
	case cq.broken:
		return opErr("resize", cq.name(), ErrCorrupted)
	}
	if err := cq.p.Resize(entries); err != nil {
		return opErr("resize", cq.name(), err)
	}
	cq.cons = queue.NewConsumer(cq.p.Ring())
	cq.ring.Store(cq.p.Ring())
	return nil
}

// Modify moderates the queue's events (ibv_modify_cq): one that ReqNotify has asked
// for waits until count completions that ask for it have come since, or until
// period after the first of them, whichever is first. A count of 0 does not limit
// the number, a period of 0 the time, and both at 0, as at first, or a count of 1
// raise each event at once. With a period of 0 fewer than count completions raise
// none, and Wait sleeps on although they are there. The period is kept as closely as
// a sleeping thread is woken, never shortened.
//
// An event that is being held back comes at once. Errors: ErrInvalid for what is out
// of range (0 to MaxCQCount, 0 to MaxCQPeriod), ErrClosed.
func (cq *CQ) Modify(count int, period time.Duration) error {
	switch {
	case count < 0 || count > MaxCQCount:
		return opErr("modify", cq.name(), invalid("count is %d: 0 to %d are possible", count, MaxCQCount))
	case period < 0 || period > MaxCQPeriod:
		return opErr("modify", cq.name(), invalid("period is %v: 0 to %v are possible", period, MaxCQPeriod))
	case cq.gone.Load():
		return opErr("modify", cq.name(), ErrClosed)
	}
	return opErr("modify", cq.name(), cq.p.Modify(count, period))
}

// Query tells size, moderation and whether the queue has overflowed.
func (cq *CQ) Query() (CQAttr, error) {
	if cq.gone.Load() {
		return CQAttr{}, opErr("query", cq.name(), ErrClosed)
	}
	a, err := cq.p.Query()
	return a, opErr("query", cq.name(), err)
}
