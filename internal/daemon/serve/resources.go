package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// resources are what a client has on the device that it has opened.
type resources struct {
	dev    *device
	ns     *datapath.Client
	owner  *session
	limits *Limits

	mem    *shm.Segments
	rings  *rings
	doors  *doors
	events *shm.Conn // asynchronous ones go out here

	buffers *table[proto.Span]
	mrs     *table[region]
	mws     *table[verbs.ProviderMW]
	fast    *table[verbs.ProviderMR]
	cqs     *table[*completions]
	srqs    *table[srq]
	qps     *table[queuePair]
	objects objects
	numbers numbers

	mu     sync.Mutex
	proc   *datapath.ProcessMemory // the client's, nil before SET_MEMORY
	procFD int
}

// openDevice makes a namespace on a device for the session.
func openDevice(s *session, q *request, m *proto.Open) (any, error) {
	if s.opened() != nil {
		return nil, fmt.Errorf("%w: a device is open already: connect again for another", errProtocol)
	}
	dev, err := s.srv.find(proto.Text(m.Name[:]), &s.limits)
	if err != nil {
		return nil, err
	}
	r, theirs, err := newResources(s, dev)
	if err != nil {
		return nil, err
	}
	q.give(theirs)
	q.lend(dev.states.FD())
	q.lend(r.doors.fds()...)
	s.mu.Lock()
	s.res = r
	s.mu.Unlock()
	// The server may have begun to end the device's sessions without seeing this one.
	if s.srv.isClosing() || dev.removed.Load() {
		return nil, fmt.Errorf("device %s: %w", dev.name, verbs.ErrClosed)
	}
	s.pumps.Go(func() { r.pump(s) })
	s.say(slog.LevelInfo, "device opened", "client", s.id, "device", dev.name)
	return &proto.OpenReply{
		Workers: uint32(dev.workers), BellStride: uint32(r.doors.stride), StateStride: queue.StateSize, BellSlots: uint32(r.doors.slots), ClientID: s.id,
	}, nil
}

// newResources makes the namespace and all that it needs, and the client's end of the
// socket of events.
func newResources(s *session, dev *device) (_ *resources, theirs *os.File, err error) {
	r := &resources{
		dev: dev, owner: s, limits: &s.limits,
		buffers: newTable[proto.Span](kindBuffer, "buffer"),
		mrs:     newTable[region](kindMR, "memory region"),
		mws:     newTable[verbs.ProviderMW](kindMW, "memory window"),
		fast:    newTable[verbs.ProviderMR](kindFast, "fast region"),
		cqs:     newTable[*completions](kindCQ, "completion queue"),
		srqs:    newTable[srq](kindSRQ, "shared receive queue"),
		qps:     newTable[queuePair](kindQP, "queue pair"),
	}
	defer func() {
		if err != nil {
			r.free()
		}
	}()
	// Pages that the system has set aside for others are not for clients to take.
	huge, _ := dev.dev.HugePages()
	r.mem = shm.NewSegments(shm.SegmentsConfig{Name: fmt.Sprintf("roce-xdp client %d", s.id), Limit: int64(s.limits.Memory), Huge: huge})
	r.rings = newRings(r.mem, s.log)
	if r.doors, err = newDoors(dev.workers, s.limits.QPs); err != nil {
		return nil, nil, err
	}
	if r.events, theirs, err = shm.Pair(); err != nil {
		return nil, nil, err
	}
	if r.ns, err = dev.open(s, r); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return r, theirs, nil
}

// shut ends the namespace: when it returns no worker touches the client's memory
// any more, and nobody waits for its events.
func (r *resources) shut() {
	_ = r.events.Close() // the pump may wait for room
	if err := r.ns.Close(); err != nil {
		r.owner.log.Error("end of a client", "device", r.dev.name, "err", err)
	}
	if r.limits.Privileged {
		r.dev.gsi.back(r.owner.log)
	}
}

// free gives back what is left when nobody uses it any more.
func (r *resources) free() {
	var errs []error
	r.cqs.each(func(_ uint64, c *completions) { errs = append(errs, r.endNotices(c)) })
	if r.doors != nil {
		errs = append(errs, r.doors.close())
	}
	if r.events != nil {
		errs = append(errs, r.events.Close())
	}
	if r.proc != nil {
		errs = append(errs, unix.Close(r.procFD))
	}
	errs = append(errs, r.mem.Close())
	if err := errors.Join(errs...); err != nil {
		r.owner.log.Error("memory of a client", "device", r.dev.name, "err", err)
	}
}

// find is a device that limits let a client open: that of the name, or else the one whose
// interface has it by now.
func (s *Server) find(name string, l *Limits) (*device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[name]
	if d == nil {
		d = s.onInterface(name)
	}
	switch {
	case d != nil && l.allows(d.name):
		return d, nil
	case d != nil:
		return nil, fmt.Errorf("%w: the daemon's policy does not let this user open %s", verbs.ErrPermission, name)
	}
	return nil, fmt.Errorf("%w: this daemon has no device %q", verbs.ErrNoDevice, name)
}

// onInterface is the device whose interface was renamed to name. The lock is held.
func (s *Server) onInterface(name string) *device {
	for _, d := range s.devices {
		if d.ctx.Name() == name {
			return d
		}
	}
	return nil
}
