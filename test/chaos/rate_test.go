package chaos_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// phase is how long a hostile program is of one mood.
const phase = 400 * time.Millisecond

const (
	// leastShare is what has to be left of an honest program's rate beside a hostile one,
	leastShare = 0.5
	// and busyShare what is asked for beside one that floods where the tests of other
	// packages want the CPUs too: see fairShare.
	busyShare = 0.3
	// On a busy machine rates vary by more than that from phase to phase. So there are some,
	// and more of them where few do not suffice.
	fewPhases, manyPhases = 4, 40
)

// fairShare is what has to be left beside one that floods: leastShare in the long
// tests, which have the machine to themselves.
func fairShare() float64 { return soak(busyShare, leastShare) }

// beside has a hostile program change its mood until it has done so many rounds, and
// checks that the rate of the honest one does not drop below a share of what it is
// beside the same program while that is quiet.
func beside(t *testing.T, honest, hostile *child, rounds int, share float64) {
	t.Helper()
	var steps [2]int
	var took [2]time.Duration
	rate := func(mood int) float64 { return float64(steps[mood]) / took[mood].Seconds() }
	enough := func() bool { return steps[0] > 0 && rate(1) >= share*rate(0) }
	done, progress := 0, time.Now()
	for turn := 0; turn < fewPhases || done < rounds || turn%2 == 1 || turn < manyPhases && !enough(); turn++ {
		mood := turn % 2 // the hostile one comes second
		hostile.ask(t, []string{"quiet", "hostile"}[mood])
		before, begin := honest.steps(t), time.Now()
		time.Sleep(phase)
		steps[mood] += honest.steps(t) - before
		took[mood] += time.Since(begin)
		honest.alive(t)
		if n := number(t, hostile.ask(t, "rounds")); n > done {
			done, progress = n, time.Now()
		} else if time.Since(progress) > 2*patience {
			hostile.dump()
			t.Fatalf("the hostile program hangs after %d rounds: %s", done, hostile.said())
		}
	}
	says := fmt.Sprintf("%d rounds; the honest program did %.0f steps a second beside them and %.0f otherwise: %.2f of it", done, rate(1), rate(0), rate(1)/rate(0))
	t.Log(says)
	if !enough() {
		t.Error(says)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
