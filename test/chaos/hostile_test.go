package chaos_test

import (
	"fmt"
	"strings"
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

// unharmed checks that nothing is left of a hostile program and that the honest one is
// well.
func (g *rig) unharmed(t *testing.T) {
	t.Helper()
	settle(t, g.a, g.beforeA)
	settle(t, g.b, g.beforeB)
	goesOn(t, g.honest)
}

// Programs do with daemons what they like. No daemon dies of it, nothing is left of them,
// and the honest program beside them has correct traffic at its rate.
func TestHostilePrograms(t *testing.T) {
	r := newRandom(t)
	g := newRig(t, r.Uint64())
	for _, tt := range []struct {
		name, role string
		rounds     int
		more       string
		share      float64
	}{
		{"it writes over all memory that it shares", "scribbler", soak(300, 10_000), "", leastShare},
		{"it says what no program should", "babbler", soak(60, 3000), "", leastShare},
		{"it floods with work and takes no completions", "flooder", soak(6, 300), "work", fairShare()},
		{"it floods with requests", "flooder", soak(6, 300), "requests", fairShare()},
		{"it reads no events", "flooder", soak(6, 300), "events", fairShare()},
		{"it takes memory away to which messages go", "vanisher", soak(30, 1000), "", leastShare},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hostile := g.program(t, tt.role, r.Uint64(), tt.more)
			hostile.wait(t, "up")
			beside(t, g.honest, hostile, tt.rounds, tt.share)
			hostile.stop(t)
			g.unharmed(t)
		})
	}
	limits := []string{"descriptors 8", "descriptors 13", "descriptors 20", "descriptors 40", "memory 300000", "memory 80000000"}
	for range soak(1, 100) {
		limits = append(limits, fmt.Sprintf("memory %d", uint64(1)<<(16+r.IntN(11))+r.Uint64N(1<<16)))
	}
	for _, limit := range limits {
		t.Run("it may have only "+limit, func(t *testing.T) {
			c := g.program(t, "poor", r.Uint64(), limit)
			select {
			case <-c.ended:
			case <-time.After(2 * patience):
				t.Error("the program does not end")
				c.kill()
			}
			checkPoor(t, limit, c)
			g.unharmed(t)
		})
	}
	g.honest.stop(t)
	g.stop(t)
}

// checkPoor: a program that may have next to nothing gets an error that says so.
func checkPoor(t *testing.T, limit string, c *child) {
	t.Helper()
	said := c.said()
	reason, ok := strings.CutPrefix(said, "poor: ")
	kind, _, _ := strings.Cut(limit, " ")
	switch {
	case kind == "descriptors" && ok && strings.Contains(reason, "RLIMIT_NOFILE"):
	case kind == "memory" && ok && strings.Contains(reason, "cannot allocate memory"):
	case kind == "memory" && !ok && gaveUp(said):
	default:
		t.Errorf("it ended with %v: %s", c.err, said)
	}
}

// gaveUp reports whether the runtime of a program, of Go or C, has ended it for want of
// address space, which may be before the library meets it.
func gaveUp(said string) bool {
	for _, text := range []string{
		"out of memory", "cannot allocate memory", "failed to reserve page summary memory",
		"memory reservation exceeds address space limit", "pthread_create failed",
	} {
		if strings.Contains(said, text) && !strings.Contains(said, "panic: ") {
			return true
		}
	}
	return false
}
