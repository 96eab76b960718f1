//go:build !race

package transport_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

const (
	lateRate    = 1_000_000_000
	lateTimeout = 4096 * time.Nanosecond << goodputTimeout // local ACK timeout
	lateStalls  = 8
)

// lateRun runs a flow of messages of size bytes whose receiver stands still for stall
// now and then, and afterwards takes what has waited for it packet by packet.
func lateRun(t *testing.T, op ibv.WROpcode, size int, stall time.Duration, disturb func(*simnet.Link)) *netSim {
	t.Helper()
	c := simnet.Conditions{Rate: lateRate, Delay: goodputDelay}
	link := simnet.NewLink(1, c, c)
	s := newNetSim(t, linkNetwork{link}, lateRate)
	a, b := s.addHost(DefaultWindow), s.addHost(DefaultWindow)
	b.each = 5 * time.Microsecond
	count := max(200, 2<<20/size)
	f := s.addFlow(a, b, flowConfig{op: op, size: size, count: count, mtu: ibv.MTU1024, timeout: goodputTimeout, slots: 4})
	disturb(link)
	stalls := 0
	done := s.run(func() bool {
		if f.done >= (2*stalls+1)*count/(2*lateStalls) {
			stalls++
			b.pause(stall)
		}
		return f.finished()
	})
	if !done || f.bad != ibv.WCSuccess || !f.same() || stalls != lateStalls {
		t.Fatalf("%d messages, %d stalls, %v", f.done, stalls, f.bad)
	}
	return s
}

func eachLate(t *testing.T, f func(t *testing.T, op ibv.WROpcode, size int)) {
	for _, op := range slowOps {
		for _, size := range []int{512, 4096, 64 << 10} {
			t.Run(fmt.Sprintf("%v of %d bytes", op, size), func(t *testing.T) { f(t, op, size) })
		}
	}
}

// A peer that gets no CPU for longer than the local ACK timeout has lost nothing. When
// it goes on and acknowledges packet by packet, no more is repeated than what the
// timer did, however much was outstanding. After the first time it is waited for,
// if four timeouts are enough.
func TestLatePeerIsNotBuried(t *testing.T) {
	const most = 16 // packets that are repeated after one timeout
	for _, c := range []struct {
		tenths   time.Duration // of the timeout that a stall lasts
		timeouts uint64        // at most
	}{{15, 1}, {25, 2}, {50, 2 * lateStalls}} {
		t.Run(fmt.Sprintf("%v timeouts", float64(c.tenths)/10), func(t *testing.T) {
			eachLate(t, func(t *testing.T, op ibv.WROpcode, size int) {
				s := lateRun(t, op, size, lateTimeout*c.tenths/10, func(*simnet.Link) {})
				n := &s.hosts[0].env.Counters
				if n[LocalAckTimeoutErr] == 0 || n[LocalAckTimeoutErr] > c.timeouts || n[RepeatedPkts] > most*n[LocalAckTimeoutErr] {
					t.Errorf("%d timeouts, want 1 to %d; %d packets repeated, want at most %d for each", n[LocalAckTimeoutErr], c.timeouts, n[RepeatedPkts], most)
				}
				for _, h := range s.hosts {
					for _, c := range []Counter{OutOfSeqRequest, RcvdSeqErr, ImpliedNak, TailProbes} {
						if h.env.Counters[c] != 0 {
							t.Errorf("host %d: %v is %d", h.num, c, h.env.Counters[c])
						}
					}
				}
			})
		})
	}
}

// A link that has lost something once does not make a late peer look like one that
// loses packets. It is given no more time: losses may come again.
func TestLatePeerOnALossyLink(t *testing.T) {
	const most = 48 // packets that are repeated in one stall: probes of the tail, a timeout, and what follows those
	eachLate(t, func(t *testing.T, op ibv.WROpcode, size int) {
		s := lateRun(t, op, size, lateTimeout*3/2, func(l *simnet.Link) { l.Script = loseNext(l) })
		n := &s.hosts[0].env.Counters
		if n[LocalAckTimeoutErr] != lateStalls || n[RepeatedPkts] > most*lateStalls {
			t.Errorf("%d timeouts, %d packets repeated in %d stalls, want at most %d in each", n[LocalAckTimeoutErr], n[RepeatedPkts], lateStalls, most)
		}
	})
}
