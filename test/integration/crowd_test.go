package integration_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// faults are the counters that stay 0 on a link that loses nothing, between hosts
// that keep up with it.
var faults = []string{
	"duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "implied_nak", "retry_exceeded_err",
	"duplicate_ack", "duplicate_read", "duplicate_atomic", "drop_stale_response", "icrc_errors",
	"xsk_rx_dropped", "xsk_rx_ring_full", "xsk_rx_fill_ring_empty", "flight_forgotten",
}

// tally has both devices' counters of faults.
type tally map[string]uint64

func faultsOf(t *testing.T, r *rig) tally {
	t.Helper()
	sum := tally{}
	for i, dev := range []*verbs.Context{r.a, r.b} {
		have := counters(t, dev)
		for _, name := range faults {
			v, ok := have[name]
			if !ok {
				t.Fatalf("no counter %q", name)
			}
			sum[fmt.Sprintf("%c %s", 'A'+i, name)] = v
		}
	}
	return sum
}

// since lists what has been counted since before, nothing if nothing was.
func (now tally) since(before tally) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if d := now[name] - before[name]; d != 0 {
			list = append(list, fmt.Sprintf("%s %d", name, d))
		}
	}
	return strings.Join(list, ", ")
}

// clean runs f until n times nothing was lost and nothing was sent twice.
func clean(t *testing.T, r *rig, what string, n int, f func() error) {
	t.Helper()
	undisturbed(t, what, n, func() string {
		before := faultsOf(t, r)
		must(t, f())
		return faultsOf(t, r).since(before)
	})
}

func newCrowd(t *testing.T, r *rig, o verbstest.CrowdOptions) *verbstest.Crowd {
	t.Helper()
	c, err := verbstest.NewCrowd(r.a, r.b, o)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// TestCleanLink: on a link without losses no packet is sent twice, with the usual
// local ACK timeout of 67 ms.
func TestCleanLink(t *testing.T) {
	const qps, depth, packets = 8, 16, 50_000 // in each part of a run
	for _, tt := range []struct {
		name string
		op   verbs.Opcode
		mtu  int
		size int
		per  int // packets of a message, acknowledgements aside
	}{
		{"small WRITEs", verbs.OpRDMAWrite, 1500, 64, 1},
		{"WRITEs of 16 packets", verbs.OpRDMAWrite, 9000, 16 * 4096, 16},
		{"READs of 16 packets", verbs.OpRDMARead, 1500, 16 * 1024, 17},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: tt.mtu}, nil)
			c := newCrowd(t, r, verbstest.CrowdOptions{Size: tt.size, Limit: qps, Timeout: 14})
			must(t, c.Connect(qps))
			parts := soak(2, 80)
			clean(t, r, tt.name, parts, func() error { return c.Run(t.Context(), tt.op, 0, qps, packets/tt.per/qps, depth, nil) })
			t.Logf("%d packets, and not one twice; with other parts %d frames from A, %d from B",
				parts*packets, count(t, r.a, "xsk_tx_frames"), count(t, r.b, "xsk_tx_frames"))
		})
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

// TestManyQueuePairs has work outstanding on thousands of queue pairs: nothing is
// lost or sent twice, none is left behind, and a message takes not much more CPU
// time at both ends, kernel included, than over one queue pair. One thread does all
// the work, so that what else the machine does has little part in that.
func TestManyQueuePairs(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := soak(2000, 10_000)
	const depth, messages = 16, 32 // of each
	r := newRig(t, netns.PairOptions{MTU: 1500}, &datapath.Options{NoBackground: true})
	one := newCrowd(t, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 128}, Limit: 1, Timeout: 14})
	all := newCrowd(t, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: depth}, Limit: n, Entries: n * depth, Timeout: 14})
	must(t, one.Connect(1))
	begin := time.Now()
	must(t, all.Connect(n))
	t.Logf("%d queue pairs a second, from RESET to RTS", int(float64(2*n)/time.Since(begin).Seconds()))

	run := func(c *verbstest.Crowd, op verbs.Opcode, count, depth int) (each time.Duration) {
		qps := len(c.A.QPs)
		clean(t, r, fmt.Sprintf("%v on %d queue pairs", op, qps), 1, func() error {
			begin := threadTime(t)
			err := c.Run(t.Context(), op, 0, qps, count, depth, func() { r.b.Progress() })
			each = (threadTime(t) - begin) / time.Duration(qps*count)
			return err
		})
		return each
	}
	best := 0.0
	for round := range soak(3, 10) {
		alone, crowded := run(one, verbs.OpRDMAWrite, n*messages/2, 128), run(all, verbs.OpRDMAWrite, messages, depth)
		best = max(best, float64(alone)/float64(crowded))
		t.Logf("round %d: a message takes %v on one queue pair, %v on %d; the slowest of these had moved %.2f of the average",
			round, alone, crowded, n, all.Laggard)
		if all.Laggard == 0 {
			t.Error("one queue pair had not moved at all at half time")
		}
	}
	// On a machine whose caches others fill all the time, less than half of what it
	// is on one that is left alone.
	if best < 0.4 {
		t.Errorf("%.2f of the rate of one queue pair: 0.4 at least", best)
	}
	run(all, verbs.OpRDMARead, messages, depth)
}
