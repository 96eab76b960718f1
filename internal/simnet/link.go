package simnet

import (
	"math/rand/v2"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

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

// Conditions are what happens to the frames of one direction. Probabilities run
// from 0 to 1 and are independent of each other.
type Conditions struct {
	Delay     time.Duration // from Send to arrival
	Jitter    time.Duration // more delay, drawn for each frame, up to this
	Drop      float64       // probability that a frame is lost
	Duplicate float64       // probability that a frame comes twice
	Reorder   float64       // probability that a frame is late by up to ReorderBy
	ReorderBy time.Duration
	Corrupt   float64 // probability that one bit is flipped
}

// Fate is what a script decides for one frame.
type Fate uint8

// Fates.
const (
	Chance Fate = iota // as the conditions have it
	Lose               // lost
	Repeat             // comes twice
	Delay              // comes late by the whole of ReorderBy
)

// Stats count the frames of one direction.
type Stats struct {
	Sent, Dropped, Duplicated, Reordered, Corrupted, Delivered uint64
}

// Link joins two ends. It is used by one goroutine at a time.
type Link struct {
	// Script, when set, is asked for every frame: from is the sender, n counts
	// its frames from 0.
	Script func(from End, n uint64, frame []byte) Fate

	dirs   [2]direction // by sending end
	flight arrivals
}

// direction is one way of a link. It has a random source of its own, so that
// traffic one way does not change what happens to the other.
type direction struct {
	cond  Conditions
	rnd   *rand.Rand
	stats Stats
}

// NewLink makes a link with the conditions of frames from A and from B.
func NewLink(seed uint64, fromA, fromB Conditions) *Link {
	l := &Link{}
	for i, c := range []Conditions{fromA, fromB} {
		l.dirs[i] = direction{cond: c, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	return l
}

// SetConditions changes what happens to frames that from sends later.
func (l *Link) SetConditions(from End, c Conditions) { l.dirs[from].cond = c }

// Stats are the counts of frames sent by from.
func (l *Link) Stats(from End) Stats { return l.dirs[from].stats }

// Send puts a copy of frame on the link. What becomes of it is decided now.
func (l *Link) Send(now mono.Time, from End, frame []byte) {
	d := &l.dirs[from]
	fate := Chance
	if l.Script != nil {
		fate = l.Script(from, d.stats.Sent, frame)
	}
	d.stats.Sent++
	// Every draw is made for every frame, so that changing one probability
	// leaves the fate of the frames that it does not hit as it was.
	drop, twice := d.chance(d.cond.Drop), d.chance(d.cond.Duplicate)
	first, second := d.arrival(now), d.arrival(now)
	flip, bit := d.chance(d.cond.Corrupt), d.rnd.Uint64()
	switch fate {
	case Chance:
	case Lose:
		drop = true
	case Repeat:
		drop, twice = false, true
	case Delay:
		drop, first = false, first.Add(d.cond.ReorderBy)
	}
	if drop {
		d.stats.Dropped++
		return
	}
	copied := append(make([]byte, 0, len(frame)), frame...)
	if flip && len(copied) > 0 {
		d.stats.Corrupted++
		bit %= uint64(8 * len(copied))
		copied[bit/8] ^= 1 << (bit % 8)
	}
	l.flight.push(first, from.Other(), copied)
	if twice {
		d.stats.Duplicated++
		l.flight.push(second, from.Other(), append(make([]byte, 0, len(copied)), copied...))
	}
}

func (d *direction) chance(p float64) bool { return d.rnd.Float64() < p }

// arrival draws when a frame that is sent now comes out.
func (d *direction) arrival(now mono.Time) mono.Time {
	at := now.Add(d.cond.Delay + d.upTo(d.cond.Jitter))
	late := d.upTo(d.cond.ReorderBy)
	if d.chance(d.cond.Reorder) {
		d.stats.Reordered++
		at = at.Add(late)
	}
	return at
}

// upTo draws a duration from 0 to limit.
func (d *direction) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.rnd.Float64() * float64(limit))
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
	l.dirs[a.to.Other()].stats.Delivered++
	return a.to, a.frame, true
}

// InFlight is the number of frames under way.
func (l *Link) InFlight() int { return len(l.flight.heap) }
