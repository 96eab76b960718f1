package session

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// workerBells are the doorbells that this session has with a worker.
type workerBells struct {
	bells *queue.Bells
	state *queue.States // of that worker alone
	event *shm.Eventfd
	keep  [2]*Mapping // the memory of both
}

// Bell is the doorbell of a queue pair.
type Bell struct {
	w    *workerBells
	slot int
}

// Bell is the doorbell in a slot of a worker.
func (s *Session) Bell(worker, slot uint32) (Bell, error) {
	if uint64(worker) >= uint64(len(s.bells)) || uint64(slot) >= uint64(s.open.BellSlots) {
		return Bell{}, fmt.Errorf("%w: doorbell %d of worker %d", ErrProtocol, slot, worker)
	}
	return Bell{s.bells[worker], int(slot)}, nil
}

// Ring says that something was published in the queue pair's queues. It is a system
// call only when the worker sleeps.
func (b *Bell) Ring() {
	b.w.bells.Ring(b.slot)
	if b.w.state.Asleep(0) {
		b.w.event.Signal()
	}
}

// TellCPU says to the device's workers on which CPU this program polls. It is a system
// call.
func (s *Session) TellCPU() {
	cpu := shm.CPU()
	for _, w := range s.bells {
		w.bells.SetCPU(cpu)
	}
}
