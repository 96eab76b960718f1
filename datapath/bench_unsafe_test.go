package datapath_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func word(b []byte) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b[0])) }

// BenchmarkNetnsWriteLatency is a 64-byte WRITE ping-pong in which both programs
// spin on memory: an operation is one round trip.
func BenchmarkNetnsWriteLatency(b *testing.B) {
	netns.Require(b)
	hosts := netns.PairForTest(b, netns.PairOptions{MTU: 9000})
	p := benchPair(b, hosts, verbstest.Options{})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var seen uint64
		for {
			v := word(p.B.Buf[4096:]).Load()
			if v != seen {
				seen = v
				reply(p.B, v)
				drain(p.B)
				continue
			}
			p.B.Dev.Progress()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	rtt := make([]time.Duration, b.N)
	b.ResetTimer()
	for i := range b.N {
		begin := time.Now()
		reply(p.A, uint64(i+1))
		for word(p.A.Buf[4096:]).Load() != uint64(i+1) {
			p.A.Dev.Progress()
		}
		rtt[i] = time.Since(begin)
		drain(p.A)
	}
	b.StopTimer()
	slices.Sort(rtt)
	b.ReportMetric(float64(rtt[0]), "min-ns")
	b.ReportMetric(float64(rtt[len(rtt)/10]), "p10-ns")
	b.ReportMetric(float64(rtt[len(rtt)/2]), "p50-ns")
	close(stop)
	<-done
	for _, name := range []string{"xsk_kicks", "background_rounds", "sent_acks", "xsk_tx_frames"} {
		b.ReportMetric(float64(counterOf(b, p.B.Dev, name))/float64(b.N), name+"/op")
	}
}

func reply(e *verbstest.End, v uint64) {
	word(e.Buf).Store(v)
	peer := peers[e]
	err := e.QP.PostSend(&verbs.SendWR{WRID: v, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{e.MR.SGE(0, 64)},
		RemoteAddr: peer.MR.Addr() + 4096, RKey: peer.MR.RKey()})
	if err != nil {
		panic(err)
	}
}

var peers = map[*verbstest.End]*verbstest.End{}

func drain(e *verbstest.End) {
	var wcs [8]verbs.WC
	for _, wc := range wcs[:e.CQ.Poll(wcs[:])] {
		if wc.Err() != nil {
			panic(wc.Err())
		}
	}
}

func benchPair(b *testing.B, hosts *netns.Pair, o verbstest.Options) *verbstest.Pair {
	b.Helper()
	a, bb := openBench(b, hosts.A), openBench(b, hosts.B)
	p := verbstest.RCPair(b, a, bb, o)
	peers[p.A], peers[p.B] = p.B, p.A
	return p
}

func openBench(b *testing.B, e *netns.End) *verbs.Context {
	var dev *verbs.Context
	if err := e.NS.Do(func() (err error) { dev, err = datapath.Open(e.Ifname, nil); return err }); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := dev.Close(); err != nil {
			b.Error(err)
		}
	})
	return dev
}

func counterOf(b testing.TB, dev *verbs.Context, name string) uint64 {
	list, err := dev.Counters()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	b.Fatalf("no counter %s", name)
	return 0
}

// BenchmarkNetnsWriteBandwidth has 16 WRITEs of 64 KiB outstanding.
func BenchmarkNetnsWriteBandwidth(b *testing.B) { benchStream(b, verbs.OpRDMAWrite, 64<<10) }

// BenchmarkNetnsReadBandwidth has 16 READs of 64 KiB outstanding.
func BenchmarkNetnsReadBandwidth(b *testing.B) { benchStream(b, verbs.OpRDMARead, 64<<10) }

// BenchmarkNetnsWriteRate has 16 WRITEs of 64 bytes outstanding.
func BenchmarkNetnsWriteRate(b *testing.B) { benchStream(b, verbs.OpRDMAWrite, 64) }

func benchStream(b *testing.B, op verbs.Opcode, size int) {
	netns.Require(b)
	hosts := netns.PairForTest(b, netns.PairOptions{MTU: 9000})
	p := benchPair(b, hosts, verbstest.Options{})
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ended.Load() {
			p.B.Dev.Progress()
		}
	}()
	wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, size)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
	var wcs [16]verbs.WC
	b.SetBytes(int64(size))
	b.ResetTimer()
	for posted, completed := 0, 0; completed < b.N; {
		for posted < b.N && posted-completed < len(wcs) {
			if err := p.A.QP.PostSend(&wr); err != nil {
				b.Fatal(err)
			}
			posted++
		}
		n := p.A.CQ.Poll(wcs[:])
		for _, wc := range wcs[:n] {
			if err := wc.Err(); err != nil {
				b.Fatal(err)
			}
		}
		completed += n
	}
	b.StopTimer()
	ended.Store(true)
	<-done
	for _, name := range []string{"xsk_kicks", "completer_retry_err", "sent_pkts"} {
		b.ReportMetric(float64(counterOf(b, p.A.Dev, name))/float64(b.N), name+"/op")
	}
}
