package datapath

import (
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// posture says to clients in other processes which workers sleep.
type posture struct {
	mu      sync.Mutex // guards what follows, and the memory of it
	words   *queue.States
	release func() error // nil: the words are the device's own
}

// set is for worker i.
func (p *posture) set(i int, state uint32) {
	p.mu.Lock()
	p.words.Set(i, state)
	p.mu.Unlock()
}

// PublishStates has the workers say in mem, which clients map, whether they sleep; see
// queue.States. mem has at least the queue.StatesSize of all workers. It is the device's
// until release is called: when the device has ended, or other memory takes its place.
// nil is memory of the device's own. On an error mem stays the caller's.
func (d *Device) PublishStates(mem []byte, release func() error) error {
	var s *queue.States
	var err error
	if mem == nil {
		s, err = queue.NewStates(len(d.workers))
	} else {
		s, err = queue.OpenStates(mem, len(d.workers))
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return ErrClosed
	}
	return d.posture.move(s, release)
}

// move makes s the words and releases those before.
func (p *posture) move(s *queue.States, release func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range s.Workers() {
		state := uint32(queue.WorkerAwake)
		if p.words.Asleep(i) {
			state = queue.WorkerAsleep
		}
		s.Set(i, state)
	}
	before := p.release
	p.words, p.release = s, release
	if before == nil {
		return nil
	}
	return before()
}

// close releases the words of a device whose workers have ended.
func (p *posture) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release == nil {
		return nil
	}
	return p.release()
}

// Workers is the number of workers.
func (d *Device) Workers() int { return len(d.workers) }
