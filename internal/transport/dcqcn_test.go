package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

const gbit = 1_000_000_000

// reacting is a reaction point on a line of 10 Gbit/s.
func reacting() (*reactionPoint, *DCQCN) {
	p := DefaultDCQCN(10 * gbit)
	return &reactionPoint{p: &p}, &p
}

// near reports whether a rate is want within a thousandth.
func near(got, want int64) bool { return got > want-want/1000 && got < want+want/1000 }

func TestDCQCNCuts(t *testing.T) {
	c, p := reacting()
	if !c.ready(0) || c.limited {
		t.Error("limited before any report")
	}
	c.sent(0, 1<<30)
	if !c.ready(0) {
		t.Error("a sender without a limit waits")
	}
	// alpha is 1 at first: half the rate, and so on, down to the least.
	for i, want := range []int64{5 * gbit, 2_500_000_000, 1_250_000_000} {
		before := c.rate
		c.congested(1000)
		if !near(c.rate, want) || i > 0 && c.target != before {
			t.Errorf("report %d: rate %d, want %d; target %d", i+1, c.rate, want, c.target)
		}
	}
	for range 100 {
		c.congested(1000)
	}
	if c.rate != p.MinRate {
		t.Errorf("rate %d after many reports, want %d", c.rate, p.MinRate)
	}
}

// Five rises restore the rate before the report, later ones go beyond it.
func TestDCQCNRises(t *testing.T) {
	c, p := reacting()
	c.congested(0)
	c.congested(0) // 2.5 Gbit/s, from 5
	now := mono.Time(0)
	for i, want := range []int64{3_750_000_000, 4_375_000_000, 4_687_500_000, 4_843_750_000} {
		now = now.Add(p.RatePeriod)
		c.ready(now)
		if !near(c.rate, want) {
			t.Errorf("rise %d: %d, want %d", i+1, c.rate, want)
		}
	}
	target := c.target
	for i := range 10 {
		now = now.Add(p.RatePeriod)
		c.ready(now)
		if want := target + int64(i+1)*p.AdditiveIncrease; c.target != want {
			t.Errorf("rise %d: target %d, want %d", i+5, c.target, want)
		}
	}
	// Bytes past their threshold as well: more each time.
	for range p.Threshold + 1 {
		c.sent(now, int(p.ByteCounter))
	}
	before := c.target
	c.sent(now, int(p.ByteCounter))
	if d := c.target - before; d != 2*p.HyperIncrease {
		t.Errorf("the target rose by %d, want %d", d, 2*p.HyperIncrease)
	}
	// At the rate of the line there is no limit, and no timer is run for it.
	now = now.Add(time.Hour)
	if !c.ready(now) || c.limited {
		t.Errorf("limited to %d after an hour", c.rate)
	}
}

// alpha decays without reports, so that a single one then costs little.
func TestDCQCNForgets(t *testing.T) {
	c, p := reacting()
	c.congested(0)
	alpha := c.alpha
	c.advance(mono.Time(0).Add(p.AlphaPeriod))
	if want := alpha - alpha>>8; c.alpha != want {
		t.Errorf("alpha is %d, want %d", c.alpha, want)
	}
	// It decays on while there is no limit.
	for _, after := range []time.Duration{1000 * p.AlphaPeriod, time.Hour} {
		now := mono.Time(0).Add(after)
		c.advance(now)
		if c.limited {
			t.Fatalf("limited to %d after %v", c.rate, after)
		}
		c.congested(now)
		if c.rate < 98*p.LineRate/100 || !c.limited {
			t.Errorf("rate %d after one report in %v", c.rate, after)
		}
	}
}

// Packets leave at the rate, also by a clock that ticks seldom.
func TestDCQCNPaces(t *testing.T) {
	for _, tick := range []time.Duration{time.Nanosecond * 100, 7 * time.Microsecond, 40 * time.Microsecond} {
		c, p := reacting()
		p.RatePeriod, p.ByteCounter = time.Hour, 1<<40
		c.congested(0)
		c.congested(0) // 2.5 Gbit/s: 1250 bytes in 4 us
		sent := 0
		const span = 10 * time.Millisecond
		for now := mono.Time(0); now < mono.Time(span); now = now.Add(tick) {
			for c.ready(now) {
				c.sent(now, 1250)
				sent++
			}
		}
		if want := int(span / (4 * time.Microsecond)); sent < want-25 || sent > want+25 {
			t.Errorf("every %v: %d packets, want %d", tick, sent, want)
		}
	}
	// Who had nothing to send for long may not send it all at once.
	c, _ := reacting()
	c.congested(0)
	c.rateAt, c.alphaAt = mono.Never, mono.Never // 5 Gbit/s: 2 us
	now := mono.Time(0).Add(time.Second)
	burst := 0
	for ; c.ready(now); burst++ {
		c.sent(now, 1250)
	}
	if want := int(catchUp/(2*time.Microsecond)) + 1; burst != want {
		t.Errorf("%d packets at once after a second, want %d", burst, want)
	}
}

// The same reports give the same rates, whatever the line; none is 0 or above it.
func TestDCQCNBounds(t *testing.T) {
	for _, line := range []int64{0, 1, 1_000_000, 10_000_000, gbit, 800 * gbit} {
		p := DefaultDCQCN(line)
		if p.LineRate < 1_000_000 || p.MinRate < 1 || p.MinRate > p.LineRate {
			t.Fatalf("line %d: %+v", line, p)
		}
		c := &reactionPoint{p: &p}
		now := mono.Time(0)
		for i := range 20_000 {
			now = now.Add(time.Duration(i*7919%97) * time.Microsecond)
			if i%11 == 0 {
				c.congested(now)
			}
			if c.ready(now) {
				c.sent(now, 64+i*31%4200)
			}
			if c.limited && (c.rate < p.MinRate || c.rate > p.LineRate || c.target > p.LineRate || c.alpha > alphaOne) {
				t.Fatalf("line %d, step %d: %+v", line, i, *c)
			}
		}
	}
}
