package simnet

import "github.com/roce-xdp/roce-xdp/internal/mono"

// End is one end of a link.
type End uint8

// The ends.
const (
	A End = 0
	B End = 1
)

// Other is the end across the link.
func (e End) Other() End { return e ^ 1 }

// String is "A" or "B".
func (e End) String() string {
	if e == A {
		return "A"
	}
	return "B"
}

// Link joins two ends. It is used by one goroutine at a time.
type Link struct {
	// Script, when set, is asked for every frame: from is the sender, n counts
	// its frames from 0.
	Script func(from End, n uint64, frame []byte) Fate

	dirs   [2]direction // by sending end
	flight arrivals
}

// NewLink makes a link with the conditions of frames from A and from B.
func NewLink(seed uint64, fromA, fromB Conditions) *Link {
	return &Link{dirs: [2]direction{newDirection(seed, 0, fromA), newDirection(seed, 1, fromB)}}
}

// SetConditions changes what happens to frames that from sends later.
func (l *Link) SetConditions(from End, c Conditions) { l.dirs[from].cond = c }

// Stats are the counts of frames sent by from.
func (l *Link) Stats(from End) Stats { return l.dirs[from].stats }

// Backlog is how many bytes that from has sent wait at now for their turn to
// leave. A sender that waits while they are many has what a network adapter's
// transmit ring has: not everything is on the wire at once.
func (l *Link) Backlog(now mono.Time, from End) int { return l.dirs[from].backlog(now) }

// Send puts a copy of frame on the link. What becomes of it is decided now.
func (l *Link) Send(now mono.Time, from End, frame []byte) {
	d := &l.dirs[from]
	fate := Chance
	if l.Script != nil {
		fate = l.Script(from, d.stats.Sent, frame)
	}
	d.send(now, &l.flight, int(from), int(from.Other()), frame, fate)
}

// Next is when the next frame arrives, Never when none is under way.
func (l *Link) Next() mono.Time { return l.flight.next() }

// Receive takes the next frame that has arrived by now. Frames come in the order
// of their arrival, those of one instant in the order in which they were sent.
// The frame is the caller's.
func (l *Link) Receive(now mono.Time) (to End, frame []byte, ok bool) {
	if l.flight.next() > now {
		return 0, nil, false
	}
	a := l.flight.pop()
	to = End(a.to)
	l.dirs[to.Other()].stats.Delivered++
	return to, a.frame, true
}

// InFlight is the number of frames under way.
func (l *Link) InFlight() int { return len(l.flight.heap) }
