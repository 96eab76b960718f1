package shm

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// Kind says what a segment holds. Regions are made of buffers alone.
type Kind uint8

// Kinds of segments.
const (
	Queues Kind = iota
	Buffers
	kinds
)

// Sizes of segments: a client begins with small ones, and each is twice as large as
// the last of its kind. A larger piece gets a segment of its own.
const (
	firstSegment = 256 << 10
	lastSegment  = 64 << 20
	maxSegments  = 4096
	cacheLine    = 128 // two lines of 64, which processors fetch together
)

// SegmentsConfig says what Segments are like.
type SegmentsConfig struct {
	Name  string // of the files, for who looks into /proc
	Limit int64  // bytes of all segments together; 0: no limit
	Huge  bool   // buffers from 2 MiB on lie in huge pages, as long as there are some
}

// Segments is the shared memory of one client: the daemon makes it and gives it out
// in pieces. The client can reach all of a segment, used or not, so the limit counts
// segments and not pieces.
type Segments struct {
	cfg SegmentsConfig

	mu     sync.Mutex
	closed bool
	list   []*segment // a segment's number is its index and 1
	next   [kinds]int // size of the next segment

	// Who asks does not wait for memory to come or go. Written with the lock held.
	total atomic.Int64 // bytes of segments
	used  atomic.Int64 // bytes of pieces
}

// Piece is a part of a segment: as messages name it, and mapped.
type Piece struct {
	Span proto.Span
	Mem  []byte
}

// NewSegments makes the memory of a client, of which there is none at first.
func NewSegments(cfg SegmentsConfig) *Segments {
	return &Segments{cfg: cfg, next: [kinds]int{firstSegment, firstSegment}}
}

// Alloc gives out n zeroed bytes at a multiple of align, a power of two up to the
// page size. Errors: ErrLimit, ErrInvalid, ErrClosed, and those of the system.
func (s *Segments) Alloc(kind Kind, n, align int) (Piece, error) {
	if kind >= kinds || n <= 0 || n > 1<<46 || align <= 0 || align&(align-1) != 0 || align > pageSize {
		return Piece{}, fmt.Errorf("%w: %d bytes aligned to %d", ErrInvalid, n, align)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Piece{}, ErrClosed
	}
	if s.cfg.Huge && kind == Buffers && n >= HugePage {
		if p, err := s.alloc(kind, n, align, true); err == nil {
			return p, nil
		}
		// There are not enough, or others have them: ordinary pages do.
	}
	return s.alloc(kind, n, align, false)
}

// alloc finds room in segments of huge or of ordinary pages, or makes one more. What is
// small has no place where it would take a huge page.
func (s *Segments) alloc(kind Kind, n, align int, huge bool) (Piece, error) {
	for i, g := range s.list {
		if g.kind != kind || g.mem.Huge() != huge {
			continue
		}
		if off, ok := g.alloc(n, align); ok {
			return s.piece(i, off, n), nil
		}
	}
	if err := s.grow(kind, n, huge); err != nil {
		return Piece{}, err
	}
	i := len(s.list) - 1
	off, ok := s.list[i].alloc(n, align)
	if !ok {
		return Piece{}, fmt.Errorf("%w: a new segment has no room for %d bytes", ErrInvalid, n)
	}
	return s.piece(i, off, n), nil
}

func (s *Segments) piece(i, off, n int) Piece {
	g := s.list[i]
	s.used.Add(int64(g.pieces[off]))
	return Piece{
		Span: proto.Span{Segment: uint32(i + 1), Offset: uint64(off), Size: uint64(n)},
		Mem:  g.mem.Bytes()[off : off+n : off+n],
	}
}

// grow adds a segment with room for n bytes: of huge pages for them alone.
func (s *Segments) grow(kind Kind, n int, huge bool) error {
	if len(s.list) >= maxSegments {
		return fmt.Errorf("%w: %d segments", ErrLimit, maxSegments)
	}
	need, left := n, math.MaxInt
	if huge {
		need = roundUp(n, HugePage)
	}
	if s.cfg.Limit != 0 {
		left = int(s.cfg.Limit-s.total.Load()) / pageSize * pageSize
		if left < need {
			return fmt.Errorf("%w: %d bytes wanted, %d of %d are left", ErrLimit, need, left, s.cfg.Limit)
		}
	}
	size := need
	if !huge {
		size = min(max(s.next[kind], roundUp(n, pageSize)), left)
	}
	g, err := newSegment(s.cfg.Name, kind, size, huge)
	if err != nil {
		return err
	}
	if !huge {
		s.next[kind] = min(2*s.next[kind], lastSegment)
	}
	s.list = append(s.list, g)
	s.total.Add(int64(len(g.mem.Bytes())))
	return nil
}

// Free takes a piece back, and its pages away.
func (s *Segments) Free(span proto.Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segment(span.Segment)
	if g == nil {
		return fmt.Errorf("%w: segment %d", ErrInvalid, span.Segment)
	}
	n, ok := g.pieces[int(span.Offset)]
	if !ok || span.Offset > 1<<46 {
		return fmt.Errorf("%w: no piece at %d of segment %d", ErrInvalid, span.Offset, span.Segment)
	}
	s.used.Add(-int64(n))
	return g.release(int(span.Offset))
}

// At is the memory of n bytes at an offset of a segment of buffers: what a region is
// made of that a client names.
func (s *Segments) At(segment uint32, offset, n uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segment(segment)
	if g == nil || g.kind != Buffers {
		return nil, fmt.Errorf("%w: no segment of buffers %d", ErrInvalid, segment)
	}
	size := uint64(len(g.mem.Bytes()))
	if n == 0 || offset > size || n > size-offset {
		return nil, fmt.Errorf("%w: %d bytes at %d of segment %d, which has %d", ErrInvalid, n, offset, segment, size)
	}
	return g.mem.Bytes()[offset : offset+n : offset+n], nil
}

// FD is the descriptor of a segment, to pass on, and its size in bytes.
func (s *Segments) FD(segment uint32) (fd int, size uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segment(segment)
	if g == nil {
		return -1, 0, fmt.Errorf("%w: segment %d", ErrInvalid, segment)
	}
	return g.mem.FD(), uint64(len(g.mem.Bytes())), nil
}

// Bytes are those of pieces, and of segments.
func (s *Segments) Bytes() (used, total int64) {
	return s.used.Load(), s.total.Load()
}

// segment is nil if there is none of that number.
func (s *Segments) segment(number uint32) *segment {
	if s.closed || number == 0 || uint64(number) > uint64(len(s.list)) {
		return nil
	}
	return s.list[number-1]
}

// Close gives all memory back. Nobody may touch any of it afterwards. Closing twice
// is no error.
func (s *Segments) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, g := range s.list {
		errs = append(errs, g.mem.Close())
	}
	s.list = nil
	s.total.Store(0)
	s.used.Store(0)
	return errors.Join(errs...)
}
