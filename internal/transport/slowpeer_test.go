//go:build !race

package transport_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// slowRate is slow, so that simulations of long pauses have few packets.
const slowRate = 100_000_000

var slowOps = []ibv.WROpcode{ibv.WRRDMAWrite, ibv.WRSend, ibv.WRRDMARead}

// slowRun runs a flow of 200 messages of 4 KiB; disturb is called before each of
// them completes, with their number.
func slowRun(t *testing.T, op ibv.WROpcode, c simnet.Conditions, disturb func(*netSim, *simnet.Link, int)) *netSim {
	c.Rate, c.Delay = slowRate, goodputDelay
	link := simnet.NewLink(1, c, c)
	s := newNetSim(t, linkNetwork{link}, slowRate)
	a, b := s.addHost(DefaultWindow), s.addHost(DefaultWindow)
	f := s.addFlow(a, b, flowConfig{op: op, size: 4096, count: 200, mtu: ibv.MTU1024, timeout: goodputTimeout, slots: 4})
	seen := -1
	done := s.run(func() bool {
		if f.done != seen {
			seen = f.done
			disturb(s, link, seen)
		}
		return f.finished()
	})
	if !done || f.bad != ibv.WCSuccess || !f.same() {
		t.Errorf("%v: %d messages, %v", op, f.done, f.bad)
	}
	return s
}

// Where nothing is lost nothing is sent twice, however slow or bursty the peer is,
// as long as it answers within the local ACK timeout.
func TestSlowPeerIsNotLost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name    string
		disturb func(*netSim, *simnet.Link, int)
	}{
		{"pauses", func(s *netSim, _ *simnet.Link, n int) {
			if n%10 == 5 {
				s.hosts[1].pause(time.Duration(rnd.IntN(60)) * time.Millisecond)
			}
		}},
		{"pauses of the sender", func(s *netSim, _ *simnet.Link, n int) {
			if n%10 == 5 {
				s.hosts[0].pause(time.Duration(rnd.IntN(200)) * time.Millisecond)
			}
		}},
		{"a round trip ten times as long", func(_ *netSim, l *simnet.Link, n int) {
			delay := goodputDelay
			if n/50%2 == 1 {
				delay *= 10
			}
			for _, end := range []simnet.End{simnet.A, simnet.B} {
				l.SetConditions(end, simnet.Conditions{Rate: slowRate, Delay: delay})
			}
		}},
	} {
		for _, op := range slowOps {
			s := slowRun(t, op, simnet.Conditions{}, c.disturb)
			for _, h := range s.hosts {
				for _, n := range []Counter{RepeatedPkts, CompleterRetryErr, LocalAckTimeoutErr, TailProbes, RenewedNaks, DuplicateRequest, OutOfSeqRequest} {
					// A delay that becomes shorter lets packets overtake others.
					if got := h.env.Counters[n]; got != 0 && n != OutOfSeqRequest && c.name != "a round trip ten times as long" {
						t.Errorf("%s, %v: host %d: %v is %d", c.name, op, h.num, n, got)
					}
				}
			}
		}
	}
}

// On a link that loses packets a pause costs a few repetitions, and no retry.
func TestSlowPeerOnALossyLink(t *testing.T) {
	for _, op := range slowOps {
		pauses := uint64(0)
		s := slowRun(t, op, simnet.Conditions{}, func(s *netSim, l *simnet.Link, n int) {
			if n == 5 {
				l.Script = loseNext(l)
			}
			if n%20 == 15 && n > 20 { // long after the loss
				pauses++
				s.hosts[1].pause(60 * time.Millisecond)
			}
		})
		c := &s.hosts[0].env.Counters
		if c[LocalAckTimeoutErr] != 0 || c[RepeatedPkts] > 1+4*pauses {
			t.Errorf("%v: %d timeouts, %d packets repeated in %d pauses", op, c[LocalAckTimeoutErr], c[RepeatedPkts], pauses)
		}
		if c[TailProbes] == 0 {
			t.Errorf("%v: no pause was taken for a loss: the test tests nothing", op)
		}
	}
}

// loseNext loses the next frame of each end.
func loseNext(l *simnet.Link) func(simnet.End, uint64, []byte) simnet.Fate {
	at := [2]uint64{l.Stats(simnet.A).Sent, l.Stats(simnet.B).Sent}
	return func(from simnet.End, n uint64, _ []byte) simnet.Fate {
		if n == at[from] {
			return simnet.Lose
		}
		return simnet.Chance
	}
}

// The last packet or its acknowledgement is lost, again and again: each costs far
// less than a timeout, once the link is known to lose packets.
func TestTailLossIsCheap(t *testing.T) {
	const messages = 50
	for _, op := range slowOps {
		for _, from := range []simnet.End{simnet.A, simnet.B} {
			link := simnet.NewLink(1, simnet.Conditions{Rate: slowRate, Delay: goodputDelay}, simnet.Conditions{Rate: slowRate, Delay: goodputDelay})
			s := newNetSim(t, linkNetwork{link}, slowRate)
			a, b := s.addHost(DefaultWindow), s.addHost(DefaultWindow)
			f := s.addFlow(a, b, flowConfig{op: op, size: 3000, count: 1, mtu: ibv.MTU1024, timeout: goodputTimeout, slots: 1})
			// The last frame of this end for each message from the second on, whose
			// first sending is known by how much was sent before.
			lost, seen := 0, map[string]bool{}
			link.Script = func(end simnet.End, _ uint64, frame []byte) simnet.Fate {
				op, psn := frame[42], string(frame[50:54])
				last := op&0x1f == 0x08 || op&0x1f == 0x02 || op&0x1f == 0x0f || op&0x1f == 0x11 || op&0x1f == 0x0c
				if end != from || !last || seen[psn] || f.posted < 3 {
					return simnet.Chance
				}
				seen[psn] = true
				lost++
				return simnet.Lose
			}
			for f.cfg.count = 1; f.cfg.count <= messages; f.cfg.count++ { // one at a time
				f.collect()
				if !s.run(f.finished) {
					t.Fatalf("%v from %v: message %d does not end", op, from, f.cfg.count)
				}
			}
			took := s.now.Sub(simBegin)
			if limit := time.Duration(lost) * 67 * time.Millisecond / 4; lost < messages/2 || took > limit {
				t.Errorf("%v from %v: %d losses took %v, want at most %v", op, from, lost, took, limit)
			}
			if n := a.env.Counters[LocalAckTimeoutErr]; n > 1 {
				t.Errorf("%v from %v: %d timeouts", op, from, n)
			}
		}
	}
}
