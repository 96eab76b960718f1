package verbstest_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// What a WRITE of 64 bytes costs through each provider, alone and with 32 under way:
// the ratios show what the way through a daemon adds. The daemons run in this process.
func BenchmarkWrite(b *testing.B) {
	for _, p := range providers() {
		for _, depth := range []int{1, 32} {
			name := map[int]string{1: "latency", 32: "rate"}[depth]
			b.Run(p.name+"/"+name, func(b *testing.B) {
				x, y := p.pair(b, datapathtest.Options{})
				benchmarkWrite(b, verbstest.RCPair(b, x, y, verbstest.Options{}), depth)
			})
		}
	}
}

func benchmarkWrite(b *testing.B, p *verbstest.Pair, depth int) {
	wr := verbs.SendWR{
		Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, 64)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
	}
	var wcs [32]verbs.WC
	b.ReportAllocs()
	b.ResetTimer()
	for posted, done := 0, 0; done < b.N; {
		for posted < b.N && posted-done < depth {
			if err := p.A.QP.PostSend(&wr); err != nil {
				b.Fatal(err)
			}
			posted++
		}
		n := p.A.CQ.Poll(wcs[:])
		for i := range wcs[:n] {
			if err := wcs[i].Err(); err != nil {
				b.Fatal(err)
			}
		}
		done += n
	}
}
