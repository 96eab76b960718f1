package simnet

import "github.com/roce-xdp/roce-xdp/internal/mono"

// Star joins hosts by one switch. Each host has a link up to the switch and one
// down from it; the conditions of the way down are those of the switch's output
// queue for that port, where frames of many hosts to one meet. It is used by one
// goroutine at a time.
type Star struct {
	up, down []direction
	toSwitch arrivals
	toHost   arrivals
}

// NewStar makes a star of n hosts, numbered from 0, with the conditions of each
// way up and of each way down.
func NewStar(seed uint64, n int, up, down Conditions) *Star {
	s := &Star{}
	for i := range uint64(n) {
		s.up = append(s.up, newDirection(seed, 2*i, up))
		s.down = append(s.down, newDirection(seed, 2*i+1, down))
	}
	return s
}

// SetUp changes what happens to frames that a host sends later.
func (s *Star) SetUp(host int, c Conditions) { s.up[host].cond = c }

// SetDown changes what happens to frames that the switch sends to a host later.
func (s *Star) SetDown(host int, c Conditions) { s.down[host].cond = c }

// Up are the counts of frames that a host has sent.
func (s *Star) Up(host int) Stats { return s.up[host].stats }

// Down are the counts of frames that the switch has sent to a host.
func (s *Star) Down(host int) Stats { return s.down[host].stats }

// Backlog is how many bytes that a host has sent wait at now for their turn to
// leave it.
func (s *Star) Backlog(now mono.Time, host int) int { return s.up[host].backlog(now) }

// Queue is how many bytes wait at now in the switch's output queue to a host, of
// the frames that have reached the switch and that Receive has seen.
func (s *Star) Queue(now mono.Time, host int) int { return s.down[host].backlog(now) }

// Send puts a copy of frame on its way from one host to another.
func (s *Star) Send(now mono.Time, from, to int, frame []byte) {
	s.up[from].send(now, &s.toSwitch, from, to, frame, Chance)
}

// Next is when Receive must be called next, Never when no frame is under way. A
// frame may then only have reached the switch: Receive reports nothing.
func (s *Star) Next() mono.Time { return mono.Min(s.toSwitch.next(), s.toHost.next()) }

// Receive takes the next frame that has arrived at a host by now. It must be
// called, until it reports nothing, no later than Next says, since the order in
// which frames meet in the switch's queues follows from it. The frame is the
// caller's.
func (s *Star) Receive(now mono.Time) (to int, frame []byte, ok bool) {
	for s.toSwitch.next() <= now && s.toSwitch.next() <= s.toHost.next() {
		a := s.toSwitch.pop()
		s.up[a.from].stats.Delivered++
		s.down[a.to].send(a.at, &s.toHost, a.from, a.to, a.frame, Chance)
	}
	if s.toHost.next() > now {
		return 0, nil, false
	}
	a := s.toHost.pop()
	s.down[a.to].stats.Delivered++
	return a.to, a.frame, true
}

// InFlight is the number of frames under way.
func (s *Star) InFlight() int { return len(s.toSwitch.heap) + len(s.toHost.heap) }
