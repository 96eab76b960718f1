package transport

import "github.com/roce-xdp/roce-xdp/internal/queue"

// ResizeCQ moves a completion queue to ring with nothing between the steps, and reports
// whether an event is to be raised.
func ResizeCQ(cq *CQ, ring *queue.Ring, entries int) (raise bool, err error) {
	m, err := cq.StartMove(ring, entries)
	if err != nil {
		return false, err
	}
	m.Copy()
	return m.Finish(), nil
}

// ResizeSRQ does that with a shared receive queue.
func ResizeSRQ(s *SRQ, ring *queue.Ring) error {
	m, err := s.StartMove(ring)
	if err != nil {
		return err
	}
	m.Copy()
	return m.Finish()
}
