package chaos_test

import (
	"strings"
	"testing"
	"time"
)

// victimsAtATime run and are killed together: at other moments each.
const victimsAtATime = 4

// Programs are killed at random moments: of their start, of traffic, of making and
// destroying objects. Nothing of them is left in the daemons, and the traffic of another
// program goes on and stays correct.
func TestClientsKilled(t *testing.T) {
	r := newRandom(t)
	h := newHosts(t)
	steady := h.program(t, "steady", r.Uint64())
	steady.wait(t, "up")
	// What daemons make with the first of everything is theirs.
	for range 2 {
		v := h.program(t, "victim", r.Uint64())
		v.wait(t, "up")
		time.Sleep(200 * time.Millisecond)
		v.stop(t)
	}
	time.Sleep(200 * time.Millisecond)
	beforeA, beforeB := take(t, h.a), take(t, h.b)
	t.Logf("before: a %v, b %v", beforeA, beforeB)

	kills, up := soak(50, 1000), 0
	for killed := 0; killed < kills; killed += victimsAtATime {
		done := make(chan *child, victimsAtATime)
		for range victimsAtATime {
			v := h.program(t, "victim", r.Uint64())
			time.AfterFunc(between(r, 0, 500*time.Millisecond), func() {
				v.kill()
				done <- v
			})
		}
		for range victimsAtATime {
			said := (<-done).said()
			if f := failureIn(said); f != "" {
				t.Errorf("a program that was to be killed: %s", f)
			}
			if strings.HasPrefix(said, "up\n") {
				up++
			}
		}
		settle(t, h.a, beforeA)
		settle(t, h.b, beforeB)
		goesOn(t, steady)
	}
	t.Logf("after: a %v, b %v; %d of %d killed had been at work", take(t, h.a), take(t, h.b), up, kills)
	if up < kills/10 {
		t.Errorf("%d of %d programs had begun when they were killed: that tells little", up, kills)
	}
	steady.stop(t)
	h.stop(t)
}
