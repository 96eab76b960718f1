package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// DCQCN are the parameters of a sender that lowers its rate when its peer reports
// congestion (Zhu et al., Congestion Control for Large-Scale RDMA Deployments,
// SIGCOMM 2015). Rates are in bit/s, of all that is on the wire.
type DCQCN struct {
	LineRate int64 // of the link: where a queue pair begins and what it returns to
	MinRate  int64 // the lowest rate, above 0

	// AlphaShift is -log2 of g, the weight of one report in alpha, 1 to 16: a
	// report cuts the rate by alpha/2.
	AlphaShift  uint8
	AlphaPeriod time.Duration // without a report alpha decays once in this

	RatePeriod  time.Duration // the rate rises once in this
	ByteCounter int64         // and once for so many bytes
	Threshold   int           // rises that only restore; later ones go beyond

	AdditiveIncrease int64 // of the target for each later rise
	HyperIncrease    int64 // when both time and bytes are past the threshold, times by how much
}

// DefaultDCQCN has the values of the paper for a link of some bit/s, at least
// 1 Mbit/s.
func DefaultDCQCN(lineRate int64) DCQCN {
	lineRate = max(lineRate, 1_000_000)
	return DCQCN{
		LineRate: lineRate, MinRate: max(lineRate/1000, 1),
		AlphaShift: 8, AlphaPeriod: 55 * time.Microsecond,
		RatePeriod: 55 * time.Microsecond, ByteCounter: 10_000_000, Threshold: 5,
		AdditiveIncrease: 40_000_000, HyperIncrease: 200_000_000,
	}
}

const (
	alphaOne = 1 << 20 // 1 as a value of alpha

	// catchUp is how much of the time that a sender was late it may make up for:
	// so it keeps its rate although it is not woken to the nanosecond.
	catchUp = 50 * time.Microsecond
)

// reactionPoint is the rate of one queue pair. It has no limit until the first
// report, and none again when the rate has come back to that of the line. Its
// arithmetic is that of integers, so that it is the same everywhere.
type reactionPoint struct {
	p *DCQCN

	limited      bool
	rate, target int64
	alpha        uint32 // in 1/alphaOne
	next         mono.Time

	alphaAt, rateAt      mono.Time
	bytes                int64 // to the next rise by bytes
	timeRises, byteRises int   // since the last report
}

// reset forgets all reports.
func (c *reactionPoint) reset() { *c = reactionPoint{p: c.p} }

// ready reports whether a packet may be sent now.
func (c *reactionPoint) ready(now mono.Time) bool {
	if !c.limited {
		return true
	}
	c.advance(now)
	return now >= c.next
}

// sent accounts for a packet of n bytes on the wire.
func (c *reactionPoint) sent(now mono.Time, n int) {
	if !c.limited {
		return
	}
	if c.bytes -= int64(n); c.bytes <= 0 {
		c.bytes += c.p.ByteCounter
		c.byteRises++
		c.rise()
	}
	took := (int64(n)*8*int64(time.Second) + c.rate - 1) / c.rate
	c.next = max(c.next, now.Add(-catchUp)).Add(time.Duration(took))
}

// congested takes a report.
func (c *reactionPoint) congested(now mono.Time) {
	c.advance(now)
	if !c.limited {
		c.limit(now)
	}
	c.target = c.rate
	c.rate = max(c.rate-c.rate*int64(c.alpha)/(2*alphaOne), min(c.p.MinRate, c.rate))
	c.alpha += (alphaOne - c.alpha) >> c.p.AlphaShift
	c.alphaAt, c.rateAt = now.Add(c.p.AlphaPeriod), now.Add(c.p.RatePeriod)
	c.bytes, c.timeRises, c.byteRises = c.p.ByteCounter, 0, 0
}

// limit begins to limit, at the rate of the line. alpha is 1 at the first time, and
// has decayed since at a later one.
func (c *reactionPoint) limit(now mono.Time) {
	c.limited, c.rate, c.next = true, c.p.LineRate, now
	if c.alpha == 0 {
		c.alpha = alphaOne
		return
	}
	const enough = 16 // times 1/g: nothing worth counting is left
	n := min(now.Sub(c.alphaAt)/c.p.AlphaPeriod+1, enough<<c.p.AlphaShift)
	for ; n > 0; n-- {
		c.alpha -= c.alpha >> c.p.AlphaShift
	}
}

// advance makes the steps of time up to now.
func (c *reactionPoint) advance(now mono.Time) {
	for c.limited {
		switch {
		case c.alphaAt <= now && c.alphaAt <= c.rateAt:
			c.alpha -= c.alpha >> c.p.AlphaShift
			c.alphaAt = c.alphaAt.Add(c.p.AlphaPeriod)
		case c.rateAt <= now:
			c.rateAt = c.rateAt.Add(c.p.RatePeriod)
			c.timeRises++
			c.rise()
		default:
			return
		}
	}
}

// rise raises the rate by one step.
func (c *reactionPoint) rise() {
	low, high := min(c.timeRises, c.byteRises), max(c.timeRises, c.byteRises)
	switch f := c.p.Threshold; {
	case high < f: // back to where it was before the report
	case low > f:
		c.target += int64(low-f) * c.p.HyperIncrease
	default:
		c.target += c.p.AdditiveIncrease
	}
	c.target = min(c.target, c.p.LineRate)
	// Rounded up, lest the two never meet.
	if c.rate = (c.rate + c.target + 1) / 2; c.rate >= c.p.LineRate {
		c.limited = false
	}
}
