package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Mapping is memory that is mapped as long as somebody has the Mapping.
type Mapping struct{ mem *shm.Memory }

// openMapping makes a Mapping of what an Open has returned.
func openMapping(mem *shm.Memory, err error) (*Mapping, error) {
	if err != nil {
		return nil, err
	}
	m := &Mapping{mem}
	runtime.AddCleanup(m, func(mem *shm.Memory) { _ = mem.Close() }, mem) // nobody is left to tell
	return m, nil
}

// Bytes are the memory. They do not keep it: m does.
func (m *Mapping) Bytes() []byte { return m.mem.Bytes() }

// segments are those that the session has mapped.
type segments struct {
	mu      sync.Mutex
	dropped bool
	mapped  map[uint32]*Mapping
	buffers map[uint32]bool // of them, those of buffers
}

// Memory is the memory that a span names, and what keeps it mapped; for memory of
// buffers that ends with Close. The segment is asked for when it is new.
func (s *Session) Memory(span *proto.Span, buffer bool) ([]byte, *Mapping, error) {
	m, err := s.segment(span.Segment, buffer)
	if err != nil {
		return nil, nil, err
	}
	b := m.Bytes()
	if size := uint64(len(b)); span.Size == 0 || span.Offset > size || span.Size > size-span.Offset {
		return nil, nil, fmt.Errorf("%w: %d bytes at %d of segment %d, which has %d", ErrProtocol, span.Size, span.Offset, span.Segment, size)
	}
	end := span.Offset + span.Size
	return b[span.Offset:end:end], m, nil
}

func (s *Session) segment(number uint32, buffer bool) (*Mapping, error) {
	g := &s.segments
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dropped {
		return nil, ErrClosed
	}
	m := g.mapped[number]
	if m == nil {
		var rep proto.MapSegmentReply
		fds, err := s.Call(context.Background(), proto.OpMapSegment, &proto.MapSegment{Segment: number}, &rep)
		if err != nil {
			return nil, err
		}
		defer fds.Close()
		if len(fds) != 1 {
			return nil, fmt.Errorf("%w: %d descriptors of a segment", ErrProtocol, len(fds))
		}
		if m, err = openMapping(shm.Open(fds.Take(0), rep.Size, false)); err != nil {
			return nil, err
		}
		if g.mapped == nil {
			g.mapped, g.buffers = map[uint32]*Mapping{}, map[uint32]bool{}
		}
		g.mapped[number] = m
	}
	if buffer {
		g.buffers[number] = true
	}
	return m, nil
}

// drop unmaps buffers, and leaves queues to who has them.
func (g *segments) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for number := range g.buffers {
		_ = g.mapped[number].mem.Close() // the memory is not needed any more, whatever becomes of it
	}
	g.dropped, g.mapped, g.buffers = true, nil, nil
}
