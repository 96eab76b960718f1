package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Open opens a device for this session, which has one at most.
func (s *Session) Open(ctx context.Context, name string) error {
	if len(name) >= proto.Name {
		return &Error{Op: proto.OpOpen, Status: proto.StatusNoDevice, Text: fmt.Sprintf("no device has a name of %d bytes", len(name))}
	}
	var req proto.Open
	proto.PutText(req.Name[:], name)
	fds, err := s.Call(ctx, proto.OpOpen, &req, &s.open)
	if err != nil {
		return err
	}
	defer fds.Close()
	switch err := s.attach(fds); {
	case errors.Is(err, shm.ErrMissing):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// attach takes what came with the reply to Open: the socket of events, the workers'
// states, the doorbells, and an eventfd for each worker.
func (s *Session) attach(fds shm.FDs) error {
	r := &s.open
	if r.Workers == 0 || r.Workers > queue.MaxWorkers || len(fds) != int(3+r.Workers) {
		return fmt.Errorf("%d descriptors for %d workers", len(fds), r.Workers)
	}
	events, err := shm.FromFD(fds.Take(0))
	if err != nil {
		return err
	}
	s.events = events
	states, err := openMapping(shm.OpenWhole(fds.Take(1), true))
	if err != nil {
		return err
	}
	bells, err := openMapping(shm.OpenWhole(fds.Take(2), false))
	if err != nil {
		return err
	}
	for i := range int(r.Workers) {
		b, err := newWorkerBells(r, i, states, bells, fds.Take(3+i))
		if err != nil {
			return err
		}
		s.bells = append(s.bells, b)
	}
	return nil
}

// newWorkerBells is what rings worker i. It takes over its eventfd.
func newWorkerBells(r *proto.OpenReply, i int, states, bells *Mapping, fd int) (*workerBells, error) {
	event, err := shm.OpenEventfd(fd)
	if err != nil {
		return nil, err
	}
	b := &workerBells{event: event, keep: [2]*Mapping{states, bells}}
	state, serr := part(states.Bytes(), i, r.StateStride)
	bell, berr := part(bells.Bytes(), i, r.BellStride)
	if err := errors.Join(serr, berr); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	b.state, serr = queue.OpenStates(state, 1)
	b.bells, berr = queue.OpenBells(bell, int(r.BellSlots))
	if err := errors.Join(serr, berr); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return b, nil
}

// part is what mem has from the i-th multiple of stride on.
func part(mem []byte, i int, stride uint32) ([]byte, error) {
	if at := uint64(i) * uint64(stride); at < uint64(len(mem)) {
		return mem[at:], nil
	}
	return nil, fmt.Errorf("%d bytes of memory: part %d of %d bytes is not there", len(mem), i, stride)
}
