package datapath

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

const (
	// hopLife is how long an answer of the kernel is used again, unless something
	// changes. It spares a program that connects thousands of queue pairs almost all
	// questions.
	hopLife = 10 * time.Millisecond
	// maxHops bounds the memory of a device that talks to very many peers.
	maxHops = 1024
)

// hopCache remembers next hops for a moment.
type hopCache struct {
	from resolver
	now  func() mono.Time

	mu     sync.Mutex
	epoch  uint64 // of the answers that count
	recent map[leg]recentHop
}

type recentHop struct {
	hop   nextHop
	until mono.Time
}

func newHopCache(from resolver) *hopCache {
	return &hopCache{from: from, now: clock, recent: map[leg]recentHop{}}
}

// resolve answers from memory, or asks. Failures are not remembered: the peer
// may be there the next time.
func (c *hopCache) resolve(ctx context.Context, key leg) (nextHop, error) {
	c.mu.Lock()
	known, ok := c.recent[key]
	epoch := c.epoch
	c.mu.Unlock()
	if ok && c.now() < known.until {
		return known.hop, nil
	}
	hop, err := c.from.resolve(ctx, key)
	if err != nil {
		return hop, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch == epoch { // nothing has changed while the kernel was asked
		if len(c.recent) >= maxHops {
			clear(c.recent)
		}
		c.recent[key] = recentHop{hop: hop, until: c.now().Add(hopLife)}
	}
	return hop, nil
}

// hop asks, for it is asked when something has changed.
func (c *hopCache) hop(l leg) (netip.Addr, error) { return c.from.hop(l) }

// forget has the kernel asked again: something has changed.
func (c *hopCache) forget() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.recent)
}
