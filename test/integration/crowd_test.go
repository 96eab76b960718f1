package integration_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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

// clean runs f and wants that nothing was lost and nothing was sent twice.
func clean(t *testing.T, r *rig, what string, f func() error) {
	t.Helper()
	undisturbed(t, what, func() string {
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
	const packets = 200_000
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
			const qps, depth = 8, 16
			c := newCrowd(t, r, verbstest.CrowdOptions{Size: tt.size, Limit: qps, Timeout: 14})
			must(t, c.Connect(qps))
			for range soak(1, 20) {
				clean(t, r, tt.name, func() error { return c.Run(t.Context(), tt.op, 0, qps, packets/tt.per/qps, depth, nil) })
			}
			t.Logf("%d frames from A, %d from B", count(t, r.a, "xsk_tx_frames"), count(t, r.b, "xsk_tx_frames"))
		})
	}
}

// TestManyQueuePairs has work outstanding on thousands of queue pairs: nothing is
// lost or sent twice, none is left behind, and together they are not much slower
// than one.
func TestManyQueuePairs(t *testing.T) {
	n := soak(2000, 10_000)
	const depth = 8
	r := newRig(t, netns.PairOptions{MTU: 1500}, nil)
	c := newCrowd(t, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 128}, Limit: n, Entries: n * depth, Timeout: 14})
	begin := time.Now()
	must(t, c.Connect(n))
	t.Logf("%d queue pairs a second, from RESET to RTS", int(float64(2*n)/time.Since(begin).Seconds()))

	// Other programs take their share of the machine now and then: the best of a few
	// rounds is compared.
	const messages = 25 // of each
	rate := func(end, count, depth int) (perSecond float64) {
		clean(t, r, fmt.Sprintf("WRITEs on %d queue pairs", end), func() error {
			begin := time.Now()
			err := c.Run(t.Context(), verbs.OpRDMAWrite, 0, end, count, depth, nil)
			perSecond = float64(end*count) / time.Since(begin).Seconds()
			return err
		})
		return perSecond
	}
	best := 0.0
	for round := range soak(4, 10) {
		one := rate(1, n*messages/10, 128)
		many := rate(n, messages, depth)
		best = max(best, many/one)
		t.Logf("round %d: %.0f messages a second over one queue pair, %.0f over %d; the slowest of these had moved %.2f of the average",
			round, one, many, n, c.Laggard)
		if c.Laggard < 0.4 {
			t.Errorf("one queue pair had moved %.2f of the average", c.Laggard)
		}
	}
	if best < 0.6 {
		t.Errorf("%.2f of the rate of one queue pair: 0.6 at least", best)
	}
	clean(t, r, "READs", func() error { return c.Run(t.Context(), verbs.OpRDMARead, 0, n, messages, depth, nil) })
}
