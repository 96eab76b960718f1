package datapath

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// limitsOf are the limits that worker i of a device works with.
func limitsOf(t *testing.T, d *Device, i int) limits {
	t.Helper()
	w := d.workers[i]
	must(t, w.acquire())
	defer w.release(controller)
	return limits{window: w.env.Window, budget: w.env.Budget, keep: w.env.KeepBudget}
}

// TestLimits: what all connections have in flight fits half a ring of the peer,
// in the buffers that full packets take.
func TestLimits(t *testing.T) {
	r := newRig(t, rigOptions{mtu: 1500, opts: Options{RingSize: 512}})
	check := func(when string, want limits) {
		t.Helper()
		if d := cmp.Diff(want, limitsOf(t, r.a, 0), cmp.AllowUnexported(limits{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	small := limits{window: 256, budget: 256, keep: 256}
	check("no connection", small)
	for range 5 {
		r.pair(verbstest.Options{})
	}
	check("an idle connection takes nothing from the others", small)
	link := r.a.link
	link.mtu = 9000
	r.a.setLink(link)
	check("full packets take two buffers", limits{window: 128, budget: 128, keep: 128})
}

// TestLimitsOfWorkers: workers share what the peer can take by the connections
// that they have.
func TestLimitsOfWorkers(t *testing.T) {
	r := newRig(t, rigOptions{queues: 4, mtu: 1500, opts: Options{RingSize: 256}})
	for range 6 { // two workers have two, two have one
		r.pair(verbstest.Options{})
	}
	sum := 0
	for i, w := range r.a.workers {
		r.a.mu.Lock()
		want := 128 * w.connected / 6
		r.a.mu.Unlock()
		got := limitsOf(t, r.a, i)
		if got.budget != want || got.window != want {
			t.Errorf("worker %d with %d connections: %+v, want %d", i, w.connected, got, want)
		}
		sum += got.budget
	}
	if sum < 120 || sum > 128 {
		t.Errorf("%d packets in flight in all, of 128", sum)
	}
}
