//go:build !race

package transport_test

import (
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

const (
	incastSenders = 32
	incastKmin    = 50 << 10
	incastKmax    = 400 << 10
	incastQueue   = 16 << 20
	incastSize    = 16 << 10
)

// incast has many hosts send to one through a switch that marks.
type incast struct {
	*netSim
	star  *simnet.Star
	flows []*simQP
	recv  *simHost
}

func newIncast(t *testing.T, op ibv.WROpcode, p *DCQCN) *incast {
	link := simnet.Conditions{Rate: goodputRate, Delay: 5 * time.Microsecond}
	star := simnet.NewStar(1, incastSenders+1, link, link)
	down := link
	down.Queue = incastQueue
	down.Mark = simnet.Marking{Kmin: incastKmin, Kmax: incastKmax, Pmax: 0.1}
	star.SetDown(incastSenders, down)
	x := &incast{netSim: newNetSim(t, star, goodputRate), star: star}
	for range incastSenders + 1 {
		x.addHost(DefaultWindow)
	}
	x.recv = x.hosts[incastSenders]
	c := flowConfig{op: op, size: incastSize, mtu: ibv.MTU1024, timeout: goodputTimeout, slots: 1, tos: 2, dcqcn: p}
	for _, h := range x.hosts[:incastSenders] {
		if op == ibv.WRRDMARead {
			x.flows = append(x.flows, x.addFlow(x.recv, h, c))
		} else {
			x.flows = append(x.flows, x.addFlow(h, x.recv, c))
		}
	}
	return x
}

// pass runs for some time and returns how many messages each flow has completed.
func (x *incast) pass(d time.Duration) (done []int) {
	before := make([]int, len(x.flows))
	for i, f := range x.flows {
		before[i] = f.done
	}
	x.until = x.now.Add(d)
	if x.run(func() bool { return false }) {
		x.Fatal("flows without an end have ended")
	}
	x.now = x.until
	for i, f := range x.flows {
		if f.bad != ibv.WCSuccess {
			x.Fatalf("flow %d: %v", i, f.bad)
		}
		done = append(done, f.done-before[i])
	}
	return done
}

// Many senders to one: those that lower their rate keep the switch's queue short,
// share the link, and lose nothing. Marks on READ responses slow the responder.
func TestIncast(t *testing.T) {
	const mark = incastKmax
	for _, op := range []ibv.WROpcode{ibv.WRRDMAWrite, ibv.WRRDMARead} {
		p := DefaultDCQCN(goodputRate)
		x := newIncast(t, op, &p)
		x.pass(10 * time.Millisecond) // all begin at line rate, with full windows
		longest := 0
		done := make([]int, incastSenders)
		for range 60 {
			for i, n := range x.pass(time.Millisecond) {
				done[i] += n
			}
			longest = max(longest, x.star.Queue(x.now, incastSenders))
		}
		lo, hi, sum := slices.Min(done), slices.Max(done), 0
		for _, n := range done {
			sum += n
		}
		mean := float64(sum) / incastSenders
		if float64(lo) < 0.8*mean || float64(hi) > 1.2*mean {
			t.Errorf("%v: flows completed %d to %d messages, %.1f on average", op, lo, hi, mean)
		}
		if rate := float64(sum*incastSize*8) / (60 * time.Millisecond).Seconds(); rate < 0.7*goodputRate {
			t.Errorf("%v: %.2f Gbit/s in all", op, rate/1e9)
		}
		if longest > 5*mark {
			t.Errorf("%v: the queue grew to %d bytes, from %d on every packet is marked", op, longest, mark)
		}
		down := x.star.Down(incastSenders)
		marked := x.recv.env.Counters[EcnMarkedPkts]
		if down.Overflowed != 0 || marked == 0 || marked > down.Marked {
			t.Errorf("%v: %+v, %d marks received", op, down, marked)
		}
		sent, handled, repeated := x.recv.env.Counters[SentCNPs], uint64(0), uint64(0)
		for _, h := range x.hosts {
			handled += h.env.Counters[HandledCNPs]
			repeated += h.env.Counters[RepeatedPkts]
		}
		if sent == 0 || handled > sent || handled+incastSenders < sent || repeated != 0 {
			t.Errorf("%v: %d CNPs sent, %d handled, %d packets repeated", op, sent, handled, repeated)
		}
	}
	// Without the reaction all windows wait in the queue.
	x := newIncast(t, ibv.WRRDMAWrite, nil)
	x.pass(15 * time.Millisecond)
	if n := x.star.Queue(x.now, incastSenders); n < 20*mark {
		t.Errorf("the queue has %d bytes: the test tests nothing", n)
	}
}
