package datapath

import (
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// PublishStates has the workers say in mem, which clients map, whether they sleep; see
// queue.States. mem has at least the queue.StatesSize of all workers and stays mapped
// until the device is closed. Clients that come later look there.
func (d *Device) PublishStates(mem []byte) error {
	s, err := queue.OpenStates(mem, len(d.workers))
	if err != nil {
		return err
	}
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
