package datapath_test

import (
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// BenchmarkNetnsOneThread has one goroutine be both programs, in turn: the CPU
// time of all that a WRITE and its acknowledgement take, the kernel included.
func BenchmarkNetnsOneThread(b *testing.B) {
	for _, size := range []int{64, 4096, 64 << 10} {
		b.Run(map[int]string{64: "64", 4096: "4096", 64 << 10: "65536"}[size], func(b *testing.B) {
			netns.Require(b)
			hosts := netns.PairForTest(b, netns.PairOptions{MTU: 9000})
			p := benchPair(b, hosts, verbstest.Options{})
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, size)},
				RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
			var wcs [1]verbs.WC
			times := make([]time.Duration, b.N)
			for i := range b.N {
				begin := time.Now()
				if err := p.A.QP.PostSend(&wr); err != nil {
					b.Fatal(err)
				}
				for p.A.CQ.Poll(wcs[:]) == 0 {
					p.B.Dev.Progress()
				}
				times[i] = time.Since(begin)
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/100]), "p1-ns")
			b.ReportMetric(float64(times[len(times)/10]), "p10-ns")
			b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
		})
	}
}
