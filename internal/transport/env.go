package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
)

// Event is an asynchronous event of the one object that is not nil.
type Event struct {
	Type ibv.EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// Env is what the queue pairs of one worker share: the memory table, limits,
// counters, and the lists of things that happened, which the driver empties
// after each batch.
type Env struct {
	Mem *memory.Table

	// Window is how many request packets a queue pair may have unacknowledged.
	Window int
	// Flight is that of queue pairs that have no other.
	Flight
	// Queued says that others were stopped by the budget before the queue pair
	// that is polled next: it does not begin to send.
	Queued bool
	// Behind says that packets may have arrived which the engine has not been
	// given: no timer runs out, for what it waits for may be among them.
	Behind bool
	// KeepBudget is how many out-of-order packets a queue pair may keep; 0 keeps
	// none.
	KeepBudget int
	// CNPInterval is the least time between two congestion notifications of a
	// queue pair; 0 or less sends none.
	CNPInterval time.Duration

	Counters Counters

	Woken    []*CQ    // completion queues whose armed event is due
	Events   []Event  // asynchronous events
	Released []uint64 // Refs of kept packets that are no longer needed

	copies   copyPool   // of send work requests
	heldBack heldEvents // completion queues whose events wait for Expire
	keeps    keptPool
	patches  slicePool[savedResult]
}

// DefaultWindow is the window of request packets of a queue pair.
const DefaultWindow = 256

// AckInterval is the largest number of request packets between two that ask
// for an acknowledgement.
const AckInterval = 32

// NewEnv makes an Env with default limits.
func NewEnv(mem *memory.Table) *Env {
	return &Env{
		Mem:         mem,
		Window:      DefaultWindow,
		CNPInterval: DefaultCNPInterval,
		Woken:       make([]*CQ, 0, 64),
		Events:      make([]Event, 0, 64),
		Released:    make([]uint64, 0, 256),
		heldBack:    make(heldEvents, 0, 64),
	}
}

func (e *Env) count(c Counter) { e.Counters[c]++ }

func (e *Env) event(t ibv.EventType, q *QP) { e.Events = append(e.Events, Event{Type: t, QP: q}) }
