package session

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

func TestOpen(t *testing.T) {
	d, s := start(t)
	d.offer()
	ok(t, s.Open(t.Context(), "eth0"))
	if s.ClientID() != 7 || s.Version() != proto.Version {
		t.Error(s.ClientID(), s.Version())
	}
	b, err := s.Bell(1, 63)
	ok(t, err)
	b.Ring()
	rung := make([]uint32, 64)
	if n := d.workerBells(1).Drain(rung); n != 1 || rung[0] != 63 {
		t.Errorf("rung: %v", rung[:n])
	}
	if d.workerBells(0).Rung() {
		t.Error("the other worker's doorbell rang")
	}
	for _, bad := range [][2]uint32{{2, 0}, {0, 64}, {1 << 31, 0}} {
		if _, err := s.Bell(bad[0], bad[1]); !errors.Is(err, ErrProtocol) {
			t.Errorf("doorbell %v: %v", bad, err)
		}
	}
	e := proto.AsyncEvent{Type: 3, Object: proto.ObjectQP, Handle: 9}
	packet, err := proto.Append(nil, proto.Header{}, &e)
	ok(t, err)
	ok(t, d.events.Send(packet[proto.HeaderSize:]))
	if got, err := s.NextEvent(); err != nil || got != e {
		t.Error(got, err)
	}
	ok(t, d.events.Send([]byte{1}))
	if _, err := s.NextEvent(); !errors.Is(err, ErrClosed) {
		t.Errorf("an event of one byte: %v", err)
	}
	s.Close()
	b.Ring() // harmless
	s.Close()
}

// A worker is woken when it sleeps, and only then.
// Every worker learns on which CPU the program polls.
func TestTellCPU(t *testing.T) {
	d, s := start(t)
	d.offer()
	ok(t, s.Open(t.Context(), "eth0"))
	for i := range 2 {
		if got := d.workerBells(i).CPU(); got != -1 {
			t.Errorf("worker %d was told CPU %d before", i, got)
		}
	}
	s.TellCPU()
	for i := range 2 {
		if got := d.workerBells(i).CPU(); got < 0 || got >= 1<<16 {
			t.Errorf("worker %d was told CPU %d", i, got)
		}
	}
}

func TestBellWakes(t *testing.T) {
	d, s := start(t)
	d.offer()
	ok(t, s.Open(t.Context(), "eth0"))
	states, err := queue.OpenStates(d.states.Bytes(), 2)
	ok(t, err)
	b, err := s.Bell(1, 0)
	ok(t, err)
	b.Ring()
	if n := count(t, d.event); n != 0 {
		t.Errorf("a worker that is awake was woken %d times", n)
	}
	states.Set(0, queue.WorkerAsleep)
	b.Ring()
	if n := count(t, d.event); n != 0 {
		t.Errorf("another worker sleeps, and it was woken %d times", n)
	}
	states.Set(1, queue.WorkerAsleep)
	b.Ring()
	if n := count(t, d.event); n != 1 {
		t.Errorf("woken %d times", n)
	}
	if got := testing.AllocsPerRun(100, b.Ring); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestOpenRefusesWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(r *proto.OpenReply, fds *[]int, d *daemon){
		"no worker":         func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.Workers = 0 },
		"many workers":      func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.Workers = 1 << 31 },
		"fewer descriptors": func(_ *proto.OpenReply, fds *[]int, _ *daemon) { *fds = (*fds)[:4] },
		"no socket":         func(_ *proto.OpenReply, fds *[]int, d *daemon) { (*fds)[0] = d.event.FD() },
		"no states":         func(_ *proto.OpenReply, fds *[]int, d *daemon) { (*fds)[1] = d.event.FD() },
		"no doorbells":      func(_ *proto.OpenReply, fds *[]int, d *daemon) { (*fds)[2] = d.event.FD() },
		"no eventfd":        func(_ *proto.OpenReply, fds *[]int, d *daemon) { (*fds)[4] = d.bells.FD() },
		"no doorbell slot":  func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.BellSlots = 0 },
		"too many of them":  func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.BellSlots = 1 << 31 },
		"far doorbells":     func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.BellStride = 1 << 31 },
		"odd doorbells":     func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.BellStride = 9 },
		"far states":        func(r *proto.OpenReply, _ *[]int, _ *daemon) { r.StateStride = 1 << 31 },
	} {
		d, s := start(t)
		d.offer()
		good := d.on[proto.OpOpen](proto.Header{}, nil)
		r, fds := *good.body.(*proto.OpenReply), slices.Clone(good.fds)
		change(&r, &fds, d)
		d.answers(proto.OpOpen, func(proto.Header, []byte) answer { return answer{body: &r, fds: fds} })
		if err := s.Open(t.Context(), "eth0"); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, s := start(t)
	if err := s.Open(t.Context(), strings.Repeat("x", proto.Name)); err == nil {
		t.Error("a long name was opened")
	}
	if _, err := s.NextEvent(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	d, s := start(t)
	m, err := shm.Create("test", 8192, shm.Options{})
	ok(t, err)
	defer m.Close()
	fd := m.FD()
	var asked atomic.Int32
	d.answers(proto.OpMapSegment, func(proto.Header, []byte) answer {
		asked.Add(1)
		return answer{body: &proto.MapSegmentReply{Size: 8192}, fds: []int{fd}}
	})
	b, mapping, err := s.Memory(&proto.Span{Segment: 1, Offset: 4096, Size: 100}, false)
	ok(t, err)
	m.Bytes()[4096] = 42
	if len(b) != 100 || cap(b) != 100 || b[0] != 42 {
		t.Errorf("%d bytes: %v", len(b), b)
	}
	for _, bad := range []proto.Span{{Segment: 1}, {Segment: 1, Offset: 8192, Size: 1}, {Segment: 1, Offset: 8000, Size: 193}, {Segment: 1, Offset: 1<<64 - 8, Size: 16}} {
		if _, _, err := s.Memory(&bad, false); !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the segment was asked for %d times", asked.Load())
	}
	if _, _, err := s.Memory(&proto.Span{Segment: 2, Size: 1}, true); err != nil {
		t.Error(err)
	}
	buffer := s.segments.mapped[2]
	s.Close()
	if b[0] != 42 {
		t.Error("a queue is gone with the session")
	}
	if buffer.Bytes() != nil {
		t.Error("a buffer is still mapped")
	}
	runtime.KeepAlive(mapping)
}

func TestSegmentsOfTheWrongKind(t *testing.T) {
	d, s := start(t)
	m, err := shm.Create("test", 4096, shm.Options{})
	ok(t, err)
	defer m.Close()
	e, err := shm.NewEventfd()
	ok(t, err)
	defer e.Close()
	for name, a := range map[string]answer{
		"none":            {body: &proto.MapSegmentReply{Size: 4096}},
		"two":             {body: &proto.MapSegmentReply{Size: 4096}, fds: []int{m.FD(), m.FD()}},
		"of another size": {body: &proto.MapSegmentReply{Size: 8192}, fds: []int{m.FD()}},
		"an eventfd":      {body: &proto.MapSegmentReply{Size: 4096}, fds: []int{e.FD()}},
	} {
		d.answers(proto.OpMapSegment, func(proto.Header, []byte) answer { return a })
		if _, _, err := s.Memory(&proto.Span{Segment: 1, Size: 1}, false); !errors.Is(err, ErrProtocol) && !errors.Is(err, shm.ErrDescriptor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
