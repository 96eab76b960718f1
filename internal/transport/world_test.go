package transport_test

import (
	"errors"
	"fmt"
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
	var total worldStats
	for seed := first; seed <= last && !t.Failed(); seed++ {
		total.add(checkWorld(t, seed))
	}
	if last-first >= 500 && !t.Failed() {
		total.check(t)
	}
}

// checkWorld runs a simulation. One that fails runs again, recorded.
func checkWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w, err := runWorld(drawWorld(seed), traceOf(t))
	if err != nil {
		f := captureFile(t, seed)
		c := newWorldCapture(f, len(drawWorld(seed).hosts))
		again, _ := runWorld(drawWorld(seed), c)
		if err := errors.Join(c.end(again.now, err.Error()), f.Close()); err != nil {
			t.Error(err)
		}
		t.Fatalf("%v\n%s", err, howToReplay(t, seed, f.Name()))
	}
	return w
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
