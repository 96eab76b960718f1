package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
)

const paceStart = mono.Time(1_000_000)

// paceRun is a pace after n responses from PSN first on, one each microsecond.
func paceRun(first psn.PSN, n int) *responsePace {
	p := &responsePace{}
	paceSend(p, paceStart, first, n)
	return p
}

func paceSend(p *responsePace, now mono.Time, first psn.PSN, n int) {
	for i := range n {
		p.sent(now.Add(time.Duration(i)*time.Microsecond), first.Add(i))
	}
}

// What a duplicate READ says about a peer, when nothing was known before: n
// responses were sent, and after a time the peer asks for all from the got-th on.
func TestPaceJudgesDuplicates(t *testing.T) {
	for _, c := range []struct {
		name   string
		n, got int
		after  time.Duration
		slower bool
	}{
		{"most were lost, long ago", 16384, 1250, time.Second, true},
		{"too few came to say anything", 16384, paceMinGot - 1, time.Second, false},
		{"just enough came", 16384, paceMinGot, time.Second, true},
		{"too few were sent after those", 1250 + paceMinBeyond - 1, 1250, time.Second, false},
		{"just enough were sent after those", 1250 + paceMinBeyond, 1250, time.Second, true},
		{"the peer got them nearly as fast", 16384, 10000, 79 * time.Millisecond, false},
		{"the peer was slower by far", 16384, 10000, 81 * time.Millisecond, true},
		{"all came: it asks for what was not sent", 16384, 16384, time.Second, false},
		{"none of it was sent", 16384, 16385, time.Second, false},
		{"it asks for what it has", 16384, -1, time.Second, false},
	} {
		for _, first := range []psn.PSN{0, psn.Mask - 5000} {
			p := paceRun(first, c.n)
			if got := p.again(paceStart.Add(c.after), first.Add(c.got)); got != c.slower {
				t.Errorf("%s, from %d: slower is %v, want %v", c.name, first, got, c.slower)
			}
			if c.slower != (p.gap != 0) {
				t.Errorf("%s, from %d: the gap is %v", c.name, first, p.gap)
			}
		}
	}
}

// A rate lies between that at which the peer was sent and that at which it got.
func TestPaceFindsTheRate(t *testing.T) {
	p := paceRun(0, 16384)
	if !p.again(paceStart.Add(time.Second), 1000) {
		t.Fatal("not slower")
	}
	if p.gap < 16*time.Microsecond || p.gap > 64*time.Microsecond {
		t.Errorf("after 1 us for each response and 1 ms for each that came the gap is %v", p.gap)
	}
	// The queue holds 1000: of 2000 at this rate the peer has taken every second.
	before := p.gap
	paceSend(p, paceStart, 1000, 8000)
	if !p.again(paceStart.Add(time.Second), 3000) || p.gap < 2*before || p.gap > 5*before/2 {
		t.Errorf("the gap is %v after %v, want twice that", p.gap, before)
	}
	// At that rate all come: it is raised, but not beyond what the peer took.
	before = p.gap
	for range 20 {
		paceSend(p, paceStart, 3000, paceCalm*1000)
		p.fresh(paceStart, false)
		if p.gap == 0 {
			break
		}
		if p.gap >= before {
			t.Fatalf("the gap is %v after %v although all came", p.gap, before)
		}
		before = p.gap
	}
	if p.gap != 0 {
		t.Errorf("the gap is %v although all came at any rate", p.gap)
	}
}

// A peer that gets no more although it is sent less has lost packets for other
// reasons: it is left alone, and for longer each time.
func TestPaceGivesUp(t *testing.T) {
	p := &responsePace{}
	slowed, last, longest := 0, 0, 0
	for i := range 300 {
		paceSend(p, paceStart, 0, 8000)
		if !p.again(paceStart.Add(time.Second), 1000+psn.PSN(i%2)) {
			continue
		}
		slowed++
		longest = max(longest, i-last)
		last = i
	}
	if slowed == 0 || slowed > 30 || longest < maxSpan {
		t.Errorf("slowed down %d times in 300, with %d occasions between two at most", slowed, longest)
	}
}

// While there is a limit responses leave at its rate, a few at a time, and a pause
// earns no more than a few.
func TestPaceHolds(t *testing.T) {
	p := paceRun(0, 16384)
	now := paceStart.Add(time.Second)
	p.again(now, 1000)
	at, sent, longest := psn.PSN(1000), 0, 0
	send := func(d time.Duration) {
		sent = 0
		for end := now.Add(d); ; {
			burst := 0
			for p.until(now) <= now {
				p.sent(now, at)
				at = at.Next()
				burst++
			}
			longest = max(longest, burst)
			sent += burst
			if now = p.until(now); now >= end {
				return
			}
		}
	}
	send(200 * time.Millisecond)
	if want := int(200 * time.Millisecond / p.gap); sent < want*9/10 || sent > want*11/10 {
		t.Errorf("%d responses left in 200 ms with a gap of %v", sent, p.gap)
	}
	if most := int(2*paceSlice/p.gap) + 1; longest > most {
		t.Errorf("%d responses left at once, want %d at most", longest, most)
	}
	now = now.Add(time.Second)
	longest = 0
	send(10 * time.Millisecond)
	if most := int(2*paceSlice/p.gap) + 1; longest > most {
		t.Errorf("%d responses left at once after a pause, want %d at most", longest, most)
	}
}

// A new connection begins without a limit.
func TestPaceIsForgotten(t *testing.T) {
	r := newRespRig(t)
	r.q.resp.pace = responsePace{gap: time.Millisecond, ready: r.now.Add(time.Hour)}
	r.q.respStart(r.now)
	r.arrive(r.read(1000, 0, 10))
	r.expect(r.responses(1000, 1, make([]byte, 10))...)
}
