package transport

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// CQMove moves the completions that nobody has taken, in order, to another ring, in three
// steps. A queue may hold millions of them, and workers that complete to it wait for its
// lock: StartMove and Finish hold it for a moment, Copy does without.
type CQMove struct {
	cq   *CQ
	from queue.Producer // as it was at the start
	to   queue.Producer // before the beginning of the new ring
	n    int            // completions to copy
}

// StartMove has the queue go on in ring, which is empty and has elements of the same size,
// behind room for the completions that nobody has taken. These are the consumer's to read
// after Copy and Finish, which follow: it stands still meanwhile and then reads ring from
// its beginning. A request for an event moves along. entries is what the caller is
// promised, at most what ring holds. On an error, which is ErrResize, nothing has changed.
func (cq *CQ) StartMove(ring *queue.Ring, entries int) (*CQMove, error) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	old := cq.prod.Ring()
	n, ok := cq.prod.Pending()
	switch {
	case cq.overflowed:
		return nil, fmt.Errorf("%w: it has overflowed: make another", ErrResize)
	case !ok:
		return nil, fmt.Errorf("%w: its indices are corrupt: destroy it", ErrResize)
	case ring.ElemSize() != old.ElemSize():
		return nil, fmt.Errorf("%w: elements of %d bytes in place of %d", ErrResize, ring.ElemSize(), old.ElemSize())
	case n > min(entries, ring.Entries()):
		return nil, fmt.Errorf("%w: %d completions are queued, %d would fit: poll them first", ErrResize, n, min(entries, ring.Entries()))
	}
	p := queue.NewProducer(ring)
	m := &CQMove{cq: cq, from: *cq.prod, to: *p, n: n}
	p.Publish(n)
	ring.Arm().Store(old.Arm().Swap(queue.ArmNone))
	cq.prod = p
	return m, nil
}

// Copy copies the completions. Nobody writes to the old ring any more, and to the new
// one behind them only: whatever a consumer does that does not stand still, it spoils
// no more than what it reads.
func (m *CQMove) Copy() {
	for i := range m.n {
		copy(m.to.Slot(i), m.from.PendingSlot(i))
	}
}

// Finish takes along what the consumer has asked for in the old ring since the start,
// and reports whether the caller raises an event: what it is for may have come.
func (m *CQMove) Finish() (raise bool) {
	late := m.from.Ring().Arm().Swap(queue.ArmNone)
	if late == queue.ArmNone {
		return false
	}
	m.cq.mu.Lock()
	defer m.cq.mu.Unlock()
	if m.cq.prod.FreeNow() != m.to.Ring().Entries()-m.n {
		return true
	}
	m.cq.prod.Ring().Arm().Store(late)
	return false
}
