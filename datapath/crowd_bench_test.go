package datapath

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// threadTime is the CPU time of the calling thread, which programs that share
// the machine do not lengthen, caches aside.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkMemoryCrowd is what a message costs both ends together, kernel aside,
// over one queue pair and over ten thousand, and how many times as much that is
// over one.
func BenchmarkMemoryCrowd(b *testing.B) {
	const n, rounds = 10_000, 20
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := newRig(b, rigOptions{opts: Options{NoBackground: true, RingSize: defaultRing}})
	alone := newCrowd(b, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 128}, Limit: 1, Timeout: 22})
	must(b, alone.Connect(1))
	c := newCrowd(b, r, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 1}, Limit: n, Entries: 8 * n, Timeout: 22})
	must(b, c.Connect(n))
	cost := func(c *verbstest.Crowd, count, depth int) float64 {
		end := len(c.A.QPs)
		begin := threadTime(b)
		must(b, c.Run(b.Context(), verbs.OpRDMAWrite, 0, end, count, depth, r.driveB))
		return float64(threadTime(b)-begin) / float64(end*count)
	}
	cost(c, 8, 8)
	var one, deep, shallow float64
	for b.Loop() {
		one += cost(alone, n*rounds, 128)
		deep += cost(c, rounds, 8)
		shallow += cost(c, rounds, 1)
	}
	b.ReportMetric(one/float64(b.N), "ns/msg-1qp")
	b.ReportMetric(deep/float64(b.N), "ns/msg-10k-deep")
	b.ReportMetric(shallow/float64(b.N), "ns/msg-10k-shallow")
	b.ReportMetric(one/deep, "rate-10k-deep/1")
	b.ReportMetric(one/shallow, "rate-10k-shallow/1")
	b.ReportMetric(0, "ns/op")
}
