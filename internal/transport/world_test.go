package transport_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// TestWorld runs random programs of several queue pairs of all types on several
// hosts, over networks that lose, repeat, delay, reorder, corrupt, mark and refuse
// frames, while queue pairs drain, stop and start again, queues change size and
// keys change. What must hold is in checkEnd, tearDown and the checks of each
// completion.
func TestWorld(t *testing.T) {
	first, last := seedRange(1, 1000)
	total, failed, why := runWorlds(t, first, last)
	if why != nil {
		t.Fatalf("%v\n%s", why, captureWorld(t, failed))
	}
	if last-first >= 500 {
		total.check(t)
	}
}

// runWorlds runs simulations, as many at once as there are processors, up to one
// that fails, and says which and why.
func runWorlds(t *testing.T, first, last uint64) (total worldStats, failed uint64, why error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := first
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for why == nil && next <= last {
				seed := next
				next++
				mu.Unlock()
				w, err := runWorld(drawWorld(seed), traceOf(t))
				mu.Lock()
				if err == nil {
					total.add(w)
				} else if why == nil || seed < failed {
					failed, why = seed, err
				}
			}
		})
	}
	wg.Wait()
	return total, failed, why
}

// captureWorld runs a simulation that has failed again, recorded, and says where
// the capture is.
func captureWorld(t *testing.T, seed uint64) string {
	t.Helper()
	p, f := drawWorld(seed), captureFile(t, seed)
	c := newWorldCapture(f, len(p.hosts))
	w, err := runWorld(p, c)
	if err = errors.Join(c.end(w.now, fmt.Sprint(err)), f.Close()); err != nil {
		t.Error(err)
	}
	return howToReplay(t, seed, f.Name())
}

// worldStats are what happened in many simulations.
type worldStats struct {
	worlds, hosts        int
	flows, broken        int
	requests             int
	messages, keyChanges int
}

func (s *worldStats) add(w *world) {
	s.worlds++
	for _, h := range w.hosts {
		s.hosts++
		for _, q := range h.qps {
			s.flows++
			s.requests += len(q.ops)
			s.messages += q.arrived
			if q.failed != ibv.WCSuccess && q.failed != ibv.WCWRFlushErr {
				s.broken++
			}
			for _, op := range q.ops {
				if op.changes {
					s.keyChanges++
				}
			}
		}
	}
}

func (s *worldStats) String() string { return fmt.Sprintf("%+v", *s) }

// check wants that the simulations have tested something.
func (s *worldStats) check(t *testing.T) {
	t.Log(s)
	if s.requests < 20*s.worlds || s.messages < 5*s.worlds || s.keyChanges < s.worlds || s.broken < s.worlds/20 || s.broken > s.flows/3 {
		t.Errorf("%v: the conditions test little", s)
	}
}
