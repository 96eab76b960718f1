package datapath

import (
	"context"
	"runtime"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func newCrowd(t testing.TB, r *rig, o verbstest.CrowdOptions) *verbstest.Crowd {
	t.Helper()
	c, err := verbstest.NewCrowd(r.ca, r.cb, o)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// driveB moves the far end of a rig without background goroutines.
func (r *rig) driveB() { r.b.Progress() }

// heap is what is in use of the heap.
func heap() int64 {
	var m runtime.MemStats
	for range 2 { // the second collects what finalizers of the first have let go
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIdleQPMemory: an idle queue pair takes at most 4 KiB besides its rings,
// which are the memory that a program asks for by its capacities.
func TestIdleQPMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 1000
	for _, tt := range []struct {
		name string
		cap  verbs.QPCap
	}{
		{"small", verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}},
		{"defaults", verbs.QPCap{}},
		{"large", verbs.QPCap{MaxSendWR: 1024, MaxRecvWR: 1024, MaxSendSGE: 16, MaxRecvSGE: 16, MaxInline: 256}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
			c := newCrowd(t, r, verbstest.CrowdOptions{Cap: tt.cap, Limit: n + 10, Entries: 1 << 14})
			must(t, c.Connect(10))
			before := heap()
			must(t, c.Connect(n))
			all := (heap() - before) / (2 * n)

			cp := c.A.QPs[0].Cap()
			rings := make([]*queue.Ring, 0, 2*n)
			before = heap()
			for range n {
				for _, size := range [][2]int{
					{cp.MaxSendWR, queue.SendElemSize(cp.MaxSendSGE, cp.MaxInline)}, {cp.MaxRecvWR, queue.RecvElemSize(cp.MaxRecvSGE)},
				} {
					ring, err := queue.New(size[0], size[1])
					if err != nil {
						t.Fatal(err)
					}
					rings = append(rings, ring)
				}
			}
			own := all - (heap()-before)/n
			runtime.KeepAlive(rings)

			// A connection that was used keeps what it answers duplicates with.
			before = heap()
			for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
				must(t, c.Run(t.Context(), op, 10, n+10, 8, min(8, cp.MaxSendWR), r.driveB))
			}
			used := own + (heap()-before)/(2*n)
			t.Logf("a queue pair takes %d bytes, %d besides its rings when new, %d when idle after use", all, own, used)
			if own > 4096 || used > 4096 {
				t.Error("a queue pair takes at most 4096 bytes besides its rings")
			}
			runtime.KeepAlive(c)
		})
	}
}

// TestCrowd has work outstanding on thousands of queue pairs, many times as much
// as a ring holds. Nothing is lost by overrun, nothing is sent twice, and no
// queue pair is left behind.
func TestCrowd(t *testing.T) {
	n := 2000
	if raceEnabled {
		n = 300
	}
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
			c := newCrowd(t, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 4}, Limit: n, Entries: 4 * n, Timeout: 22})
			must(t, c.Connect(n))
			must(t, c.Run(t.Context(), op, 0, n, 20, 4, r.driveB))
			if c.Laggard < 0.5 {
				t.Errorf("one connection had moved %.2f of the average", c.Laggard)
			}
			for _, d := range []*Device{r.a, r.b} {
				for _, name := range []string{
					"completer_retry_err", "duplicate_request", "out_of_seq_request", "rcvd_seq_err", "implied_nak",
					"xsk_rx_dropped", "xsk_rx_ring_full", "xsk_rx_fill_ring_empty",
				} {
					if v := counterOf(t, d, name); v != 0 {
						t.Errorf("%s: %s is %d", d.Name(), name, v)
					}
				}
			}
			t.Logf("the slowest had moved %.2f of the average at half time", c.Laggard)
		})
	}
}

// TestSilentPeersHoldNobodyUp: queue pairs whose requests nobody answers, and
// which never time out, do not keep the budget from those that are alive.
func TestSilentPeersHoldNobodyUp(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	dead := newCrowd(t, r, verbstest.CrowdOptions{Limit: 10, Timeout: 31})
	must(t, dead.Connect(3))
	for i, qp := range dead.B.QPs {
		must(t, qp.Destroy())
		for range 100 { // more than fit in flight
			must(t, dead.A.QPs[i].PostSend(&verbs.SendWR{
				Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{dead.A.MR.SGE(0, 8)}, RemoteAddr: dead.B.MR.Addr(), RKey: dead.B.MR.RKey(),
			}))
		}
	}
	if limit := limitsOf(t, r.a, 0).budget; r.a.workers[0].env.InFlight() < limit {
		t.Fatalf("%d packets in flight do not reach the limit of %d", r.a.workers[0].env.InFlight(), limit)
	}
	alive := newCrowd(t, r, verbstest.CrowdOptions{})
	must(t, alive.Connect(1))
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	must(t, alive.Run(ctx, verbs.OpRDMAWrite, 0, 1, 100, 10, r.driveB))
	if counterOf(t, r.a, "flight_forgotten") == 0 {
		t.Error("the requests without an answer were not forgotten")
	}
}
