package serve

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// lineSize is what rings are aligned to, as their indices are.
const lineSize = 128

// rings makes the rings of a client in its shared memory and remembers where each
// is.
type rings struct {
	mem *shm.Segments
	log *slog.Logger

	mu sync.Mutex
	at map[*queue.Ring]proto.Span
}

func newRings(mem *shm.Segments, log *slog.Logger) *rings {
	return &rings{mem: mem, log: log, at: map[*queue.Ring]proto.Span{}}
}

// make is datapath.ClientConfig.NewRing.
func (r *rings) make(entries, elem int) (*queue.Ring, error) {
	n, _, err := queue.Size(entries, elem)
	if err != nil {
		return nil, err
	}
	p, err := r.mem.Alloc(shm.Queues, n, lineSize)
	if err != nil {
		return nil, fmt.Errorf("memory of a queue: %w", err)
	}
	ring, err := queue.Format(p.Mem, entries, elem)
	if err != nil {
		r.give(p.Span)
		return nil, err
	}
	r.mu.Lock()
	r.at[ring] = p.Span
	r.mu.Unlock()
	return ring, nil
}

// free is datapath.ClientConfig.FreeRing.
func (r *rings) free(ring *queue.Ring) {
	r.mu.Lock()
	span, ok := r.at[ring]
	delete(r.at, ring)
	r.mu.Unlock()
	if ok {
		r.give(span)
	}
}

// give gives memory back. When that fails the client has less from then on, and
// nobody else is concerned.
func (r *rings) give(span proto.Span) {
	if err := r.mem.Free(span); err != nil {
		r.log.Error("memory of a queue is lost to its client", "err", err)
	}
}

// span is where a ring is, of no ring nowhere.
func (r *rings) span(ring *queue.Ring) proto.Span {
	if ring == nil {
		return proto.Span{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[ring]
}
