package chaos_test

import (
	"slices"
	"testing"
	"time"
)

// How long a program may take to learn that its daemon has been killed. The kernel
// tells it at once; the rest is what a busy machine does.
const fatalWithin = 5 * time.Second

// A daemon is killed under traffic: its programs learn it at once and hang nowhere,
// those of the other daemon do not notice, and when a daemon is back all begin again.
func TestDaemonsKilled(t *testing.T) {
	r := newRandom(t)
	h := newHosts(t)
	phoenix := h.program(t, "phoenix", r.Uint64())
	own := []*child{ // each at one daemon, both ends
		programAt(t, "phoenix", h.a, h.a, r.Uint64()), programAt(t, "phoenix", h.b, h.b, r.Uint64()),
	}
	for _, c := range append(own, phoenix) {
		c.wait(t, "up")
		goesOn(t, c)
	}
	time.Sleep(200 * time.Millisecond)
	daemons := []*server{h.a, h.b}
	before := []census{take(t, h.a), take(t, h.b)}
	t.Logf("before: a %v, b %v", before[0], before[1])

	var took []time.Duration
	for range soak(5, 100) {
		time.Sleep(between(r, 0, 300*time.Millisecond))
		dead := r.IntN(2)
		at := time.Now()
		daemons[dead].kill()
		for _, c := range []*child{phoenix, own[dead]} {
			i, when, err := fatalAt(c.wait(t, "fatal "))
			if err != nil {
				t.Fatal(err)
			}
			if c == phoenix && i != dead {
				t.Errorf("daemon %d was killed, and %d ended", dead, i)
			}
			took = append(took, when.Sub(at))
		}
		goesOn(t, own[1-dead])
		daemons[dead].begin(t)
		for _, c := range []*child{phoenix, own[dead]} {
			c.wait(t, "up")
			goesOn(t, c)
		}
		for i, s := range daemons {
			settle(t, s, before[i])
		}
	}
	slices.Sort(took)
	t.Logf("programs learned it after %v in the middle, %v at most", took[len(took)/2], took[len(took)-1])
	if slowest := took[len(took)-1]; slowest > fatalWithin {
		t.Errorf("a program learned of the end of its daemon after %v", slowest)
	}
	for _, c := range append(own, phoenix) {
		c.stop(t)
	}
	h.stop(t)
}
