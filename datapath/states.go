package datapath

import (
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// PublishStates has the workers say in mem, which clients map, whether they sleep; see
// queue.States. mem has at least the queue.StatesSize of all workers. It is the device's
// until the end: release is called when no worker looks at it any more. Clients that come
// later look there. On an error mem stays the caller's.
func (d *Device) PublishStates(mem []byte, release func() error) error {
	s, err := queue.OpenStates(mem, len(d.workers))
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.closed.Load() {
		d.mu.Unlock()
		return ErrClosed
	}
	d.cleanup = append(d.cleanup, release)
	d.mu.Unlock()
	d.publishStates(s)
	return nil
}

// publishStates makes s the state words, or some of our own.
func (d *Device) publishStates(s *queue.States) {
	if s == nil {
		s, _ = queue.NewStates(len(d.workers)) // as many as there can be workers
	}
	d.states.Store(s)
	for _, w := range d.workers {
		w.wake() // one that sleeps has said so elsewhere
	}
}

// Workers is the number of workers.
func (d *Device) Workers() int { return len(d.workers) }
