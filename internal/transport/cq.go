package transport

import (
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// CQ is the producing side of a completion queue. Queue pairs of several
// workers may complete to it: the lock keeps one producer index.
type CQ struct {
	// Owner is what the driver attaches; the engine does not look at it.
	Owner any

	mu         sync.Mutex
	prod       *queue.Producer
	mod        moderation
	overflowed bool
}

// NewCQ makes the producing side of ring, whose elements are queue.CQESize.
func NewCQ(ring *queue.Ring) *CQ { return &CQ{prod: queue.NewProducer(ring)} }

// push appends c. A full queue is an overflow: the completion is lost, the queue
// stays unusable, and the consumer gets CQ_ERR once (IBTA vol. 1, 11.2.8).
func (cq *CQ) push(e *Env, c *queue.CQE, solicited bool) bool {
	cq.mu.Lock()
	if cq.overflowed || cq.prod.Free() == 0 {
		first, held := !cq.overflowed, cq.mod.release(cq)
		cq.overflowed = true
		cq.mu.Unlock()
		if first {
			e.Events = append(e.Events, Event{Type: ibv.EventCQErr, CQ: cq})
		}
		if held { // no more completions come to make it due
			e.Woken = append(e.Woken, cq)
		}
		return false
	}
	queue.PutCQE(cq.prod.Slot(0), c)
	cq.prod.Publish(1)
	// The arm word is read after the index is published: a consumer arms first
	// and then looks at the index, so one of the two sees the other.
	arm := cq.prod.Ring().Arm()
	fire := false
	switch arm.Load() {
	case queue.ArmNext:
		fire = true
	case queue.ArmSolicited:
		fire = solicited || c.Status != ibv.WCSuccess
	}
	if fire = fire && cq.mod.ripe(cq, e, mono.Time(c.Timestamp)); fire {
		arm.Store(queue.ArmNone)
	}
	cq.mu.Unlock()
	if fire {
		e.Woken = append(e.Woken, cq)
	}
	return true
}

// Abandon gives the queue up, to which nobody completes any more: its ring is not
// touched from now on.
func (cq *CQ) Abandon() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.overflowed, cq.mod.held = true, 0
}

// Overflowed reports whether a completion was lost.
func (cq *CQ) Overflowed() bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.overflowed
}
