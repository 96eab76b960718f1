package transport_test

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// simNetwork is a simulated network of numbered hosts.
type simNetwork interface {
	Next() mono.Time
	Backlog(now mono.Time, host int) int
	Send(now mono.Time, from, to int, frame []byte)
	Receive(now mono.Time) (to int, frame []byte, ok bool)
}

// linkNetwork is a link as a network of two hosts.
type linkNetwork struct{ *simnet.Link }

func (l linkNetwork) Backlog(now mono.Time, host int) int {
	return l.Link.Backlog(now, simnet.End(host))
}

func (l linkNetwork) Send(now mono.Time, from, _ int, frame []byte) {
	l.Link.Send(now, simnet.End(from), frame)
}

func (l linkNetwork) Receive(now mono.Time) (to int, frame []byte, ok bool) {
	end, frame, ok := l.Link.Receive(now)
	return int(end), frame, ok
}

// simBegin is when simulations of a network begin.
const simBegin = mono.Time(1_000_000)

// netSim is hosts, the network between them, and the time.
type netSim struct {
	testing.TB
	net   simNetwork
	rate  int64 // bit/s of the hosts' links
	now   mono.Time
	hosts []*simHost
	steps int
	until mono.Time // the simulation may not take longer
	trace bool
}

// simMaxSteps ends a simulation in which nothing moves.
const simMaxSteps = 20_000_000

func newNetSim(t testing.TB, net simNetwork, rate int64) *netSim {
	return &netSim{TB: t, net: net, rate: rate, now: simBegin, until: simBegin.Add(2 * time.Minute)}
}

// run goes on until done is true. It reports false when time was up first.
func (s *netSim) run(done func() bool) bool {
	s.Helper()
	for !done() {
		next := s.net.Next()
		for _, h := range s.hosts {
			next = mono.Min(next, h.next())
		}
		s.steps++
		switch {
		case next == mono.Never:
			s.Fatalf("deadlock after %v: nothing is due", s.now.Sub(simBegin))
		case s.steps > simMaxSteps:
			s.Fatalf("no end after %v and %d steps", s.now.Sub(simBegin), s.steps)
		case next > s.until:
			return false
		}
		s.now = later(s.now, next)
		s.deliver()
		for _, h := range s.hosts {
			if h.next() <= s.now {
				h.wake()
				h.transmit()
			}
		}
	}
	return true
}

// deliver hands over what has arrived.
func (s *netSim) deliver() {
	for {
		to, frame, ok := s.net.Receive(s.now)
		if !ok {
			return
		}
		s.hosts[to].receive(frame)
	}
}

func later(a, b mono.Time) mono.Time { return max(a, b) }

// logf writes a line of the trace.
func (s *netSim) logf(format string, args ...any) {
	s.Logf("%12v "+format, append([]any{s.now.Sub(simBegin)}, args...)...)
}
