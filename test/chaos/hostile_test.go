package chaos_test

import (
	"testing"
	"time"
)

// rig is two daemons with an honest program, and what they had before a hostile one
// came.
type rig struct {
	*hosts
	honest           *child
	beforeA, beforeB census
}

func newRig(t *testing.T, seed uint64) *rig {
	t.Helper()
	h := newHosts(t)
	g := &rig{hosts: h, honest: h.program(t, "steady", seed)}
	g.honest.wait(t, "up")
	// What daemons make with the first of everything is theirs.
	v := h.program(t, "victim", seed+1)
	v.wait(t, "up")
	time.Sleep(200 * time.Millisecond)
	v.stop(t)
	time.Sleep(200 * time.Millisecond)
	g.beforeA, g.beforeB = take(t, h.a), take(t, h.b)
	return g
}

// unharmed checks that nothing of the hostile program is left, and ends all else,
// which has to go well.
func (g *rig) unharmed(t *testing.T) {
	t.Helper()
	settle(t, g.a, g.beforeA)
	settle(t, g.b, g.beforeB)
	goesOn(t, g.honest)
	g.honest.stop(t)
	g.stop(t)
}

// A program writes over all the memory that it shares with daemons: its queues, its
// doorbells, its buffers.
func TestScribbledPages(t *testing.T) {
	r := newRandom(t)
	g := newRig(t, r.Uint64())
	hostile := g.program(t, "scribbler", r.Uint64())
	hostile.wait(t, "up")
	beside(t, g.honest, hostile, soak(300, 10_000))
	hostile.stop(t)
	g.unharmed(t)
}
