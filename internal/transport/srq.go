package transport

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// ErrResize says that a queue cannot get the ring that it was offered.
var ErrResize = errors.New("transport: queue cannot be resized")

// SRQ is the consuming side of a shared receive queue (IBTA vol. 1, 10.2.9). All
// queue pairs that take from it belong to one worker, so it has no lock: it is
// used by who drives that worker, control calls included.
type SRQ struct {
	// Owner is what the driver attaches; the engine does not look at it.
	Owner any

	pd     memory.PD
	cons   *queue.Consumer // stays the same for life; a new ring changes what it points to
	limit  int
	broken bool // SRQ_ERR was reported

	// Of a queue of an XRC domain; xrcd is nil of others, and when it was destroyed.
	xrcd *XRCD
	num  uint32
	cq   *CQ
}

// NewSRQ makes the consuming side of an empty ring of receive work queue
// entries. Their keys are those of pd, whatever the domain of a queue pair is.
func NewSRQ(ring *queue.Ring, pd memory.PD) *SRQ {
	return &SRQ{pd: pd, cons: queue.NewConsumer(ring)}
}

// SetLimit arms the limit event: SRQ_LIMIT_REACHED is reported once, when a
// message leaves or finds fewer than n posted receives, and then the limit is 0
// again. 0 disarms.
func (s *SRQ) SetLimit(n int) { s.limit = n }

// Limit is the armed limit, 0 when there is none.
func (s *SRQ) Limit() int { return s.limit }

// Posted is the number of receives that no message has taken.
func (s *SRQ) Posted() int {
	n, _ := s.cons.Avail()
	return n
}

// SRQMove moves all posted receives, in order, to another ring, in three steps. A queue
// may hold many, and the worker has others to serve: only StartMove and Finish are for
// who drives it.
type SRQMove struct {
	srq  *SRQ
	from queue.Consumer // as it was at the start
	ring *queue.Ring
	to   *queue.Producer
	n    int // receives that were posted then
}

// StartMove begins to move the queue into ring, which is empty and has elements of the same
// size, and from which it takes receives after Copy and Finish, which follow. The producer
// stands still meanwhile and goes on with queue.ResumeProducer. On an error of either
// step, which is ErrResize, nothing has changed.
func (s *SRQ) StartMove(ring *queue.Ring) (*SRQMove, error) {
	n, ok := s.cons.Avail()
	old := s.cons.Ring()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: its indices are corrupt: destroy it", ErrResize)
	case ring.ElemSize() != old.ElemSize():
		return nil, fmt.Errorf("%w: elements of %d bytes in place of %d", ErrResize, ring.ElemSize(), old.ElemSize())
	case n > ring.Entries():
		return nil, fmt.Errorf("%w: %d receives are posted, %d would fit", ErrResize, n, ring.Entries())
	}
	return &SRQMove{srq: s, from: *s.cons, ring: ring, to: queue.NewProducer(ring), n: n}, nil
}

// Copy copies the receives, also those that messages take meanwhile: the producer,
// which stands still, does not overwrite them.
func (m *SRQMove) Copy() {
	for i := range m.n {
		copy(m.to.Slot(i), m.from.Slot(i))
	}
}

// Finish has the queue go on in the new ring, behind what was taken since the start.
// It is ErrResize when more was posted.
func (m *SRQMove) Finish() error {
	left, ok := m.srq.cons.Avail()
	if !ok || left > m.n {
		return fmt.Errorf("%w: receives were posted meanwhile", ErrResize)
	}
	m.to.Publish(m.n)
	c := queue.NewConsumer(m.ring)
	c.Release(m.n - left)
	*m.srq.cons = *c
	return nil
}

// take gives the element of a receive that a queue pair has copied back.
func (s *SRQ) take(e *Env) {
	s.cons.Release(1)
	s.watch(e)
}

// watch reports that the receives run short, if somebody has asked for it.
func (s *SRQ) watch(e *Env) {
	if s.limit == 0 {
		return
	}
	if n, ok := s.cons.Avail(); ok && n < s.limit {
		s.limit = 0
		e.Events = append(e.Events, Event{Type: ibv.EventSRQLimitReached, SRQ: s})
	}
}

// corrupt reports, once, that the producer's index cannot be true.
func (s *SRQ) corrupt(e *Env) {
	if !s.broken {
		s.broken = true
		e.Events = append(e.Events, Event{Type: ibv.EventSRQErr, SRQ: s})
	}
}
