package simnet

import (
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

const (
	minFrame = 60         // bytes that Ethernet pads a frame to
	overhead = 8 + 4 + 12 // bytes of preamble, frame check sequence and gap
)

// WireLen is the bytes that an Ethernet frame of n bytes, from its destination
// address to its payload's end, takes on a wire: with padding, preamble, frame
// check sequence and the gap to the next.
func WireLen(n int) int { return max(n, minFrame) + overhead }

// direction is one way of a link. It has random sources of its own, so that
// traffic one way does not change what happens to the other.
type direction struct {
	cond  Conditions
	rnd   *rand.Rand
	queue *rand.Rand // of marks and bursts, apart from the draws that every frame makes
	stats Stats

	free mono.Time // when all that was sent has left
	frac uint64    // of the nanosecond after free, in bits times 1e9
	bad  bool      // in a burst of losses
}

func newDirection(seed, stream uint64, c Conditions) direction {
	return direction{
		cond:  c,
		rnd:   rand.New(rand.NewPCG(seed, stream)),
		queue: rand.New(rand.NewPCG(seed, ^stream)),
	}
}

// send decides what becomes of a frame and puts what is left of it, as copies
// that nobody else has, into flight for to. The frame is not kept.
func (d *direction) send(now mono.Time, flight *arrivals, from, to int, frame []byte, fate Fate) {
	d.stats.Sent++
	// Every draw is made for every frame, so that changing one probability
	// leaves the fate of the frames that it does not hit as it was.
	drop, twice := d.chance(d.cond.Drop), d.chance(d.cond.Duplicate)
	late1, late2 := d.lateness(), d.lateness()
	flip, bit := d.chance(d.cond.Corrupt), d.rnd.Uint64()
	drop = d.burst() || drop
	switch fate {
	case Chance:
	case Lose:
		drop = true
	case Repeat:
		drop, twice = false, true
	case Delay:
		drop, late1 = false, late1+d.cond.ReorderBy
	}
	mark := d.chanceOf(d.queue, d.cond.Mark.probability(d.backlog(now)))
	left, ok := d.leave(now, len(frame))
	switch {
	case !ok:
		d.stats.Overflowed++
		return
	case drop: // on the way, so it has taken its time of the wire
		d.stats.Dropped++
		return
	}
	copied := append(make([]byte, 0, len(frame)), frame...)
	if mark && setCE(copied) {
		d.stats.Marked++
	}
	if flip && len(copied) > 0 {
		d.stats.Corrupted++
		bit %= uint64(8 * len(copied))
		copied[bit/8] ^= 1 << (bit % 8)
	}
	flight.push(left.Add(d.cond.Delay+late1), from, to, copied)
	if twice {
		d.stats.Duplicated++
		flight.push(left.Add(d.cond.Delay+late2), from, to, append(make([]byte, 0, len(copied)), copied...))
	}
}

// leave puts n bytes of frame behind what waits and says when their last bit is
// out. It refuses a frame that the queue has no room for.
func (d *direction) leave(now mono.Time, n int) (left mono.Time, ok bool) {
	if d.cond.Rate <= 0 {
		return now, true
	}
	waiting := d.backlog(now) + WireLen(n)
	if d.cond.Queue > 0 && waiting > d.cond.Queue {
		return 0, false
	}
	d.stats.MaxQueue = max(d.stats.MaxQueue, waiting)
	if d.free < now {
		d.free, d.frac = now, 0
	}
	// The remainder is carried on, so that a long run takes as long as its bits.
	hi, lo := bits.Mul64(uint64(WireLen(n)), 8*uint64(time.Second))
	lo, carry := bits.Add64(lo, d.frac, 0)
	ns, rest := bits.Div64(hi+carry, lo, uint64(d.cond.Rate))
	d.free, d.frac = d.free.Add(time.Duration(ns)), rest
	return d.free, true
}

// backlog is how many bytes have not left at now, rounded up.
func (d *direction) backlog(now mono.Time) int {
	if d.cond.Rate <= 0 || d.free <= now {
		return 0
	}
	const bitsPerByte = 8 * uint64(time.Second)
	hi, lo := bits.Mul64(uint64(d.free.Sub(now)), uint64(d.cond.Rate))
	lo, carry := bits.Add64(lo, bitsPerByte-1, 0)
	n, _ := bits.Div64(hi+carry, lo, bitsPerByte)
	return int(n)
}

func (d *direction) chance(p float64) bool { return d.chanceOf(d.rnd, p) }

func (d *direction) chanceOf(rnd *rand.Rand, p float64) bool { return rnd.Float64() < p }

// burst reports whether a run of losses takes the next frame.
func (d *direction) burst() bool {
	b := &d.cond.Burst
	if b.Begin == 0 && !d.bad {
		return false
	}
	turn := b.Begin
	if d.bad {
		turn = b.End
	}
	if d.chanceOf(d.queue, turn) {
		d.bad = !d.bad
	}
	return d.bad && d.chanceOf(d.queue, b.Drop)
}

// lateness draws how much later than the delay a frame comes.
func (d *direction) lateness() time.Duration {
	by := d.upTo(d.cond.Jitter)
	late := d.upTo(d.cond.ReorderBy)
	if d.chance(d.cond.Reorder) {
		d.stats.Reordered++
		by += late
	}
	return by
}

// upTo draws a duration from 0 to limit.
func (d *direction) upTo(limit time.Duration) time.Duration {
	return time.Duration(d.rnd.Float64() * float64(limit))
}
