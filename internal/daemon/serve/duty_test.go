package serve

import (
	"testing"
	"time"
)

// A client that does nothing else has a quarter of the time once its burst is used up.
func TestDutyOfAFlood(t *testing.T) {
	var d duty
	start := time.Unix(1000, 0)
	now, busy := start, time.Duration(0)
	for now.Sub(start) < 20*time.Second {
		const took = 200 * time.Microsecond
		now = now.Add(took)
		busy += took
		now = now.Add(d.charge(took, now))
	}
	share := float64(busy-dutyBurst) / float64(now.Sub(start))
	if share < 0.22 || share > 0.28 {
		t.Errorf("a flood has %.2f of the time besides its burst, want a quarter", share)
	}
}

func TestDutyOfOthers(t *testing.T) {
	for _, tc := range []struct {
		name        string
		took, pause time.Duration
		requests    int
		waits       bool
	}{
		{"setting up: 5000 requests in a row", 150 * time.Microsecond, 0, 5000, false},
		{"a request now and then, for ever", 500 * time.Microsecond, 3 * time.Millisecond, 100_000, false},
		{"more than a quarter, for long", time.Millisecond, time.Millisecond, 10_000, true},
	} {
		var d duty
		now, waited := time.Unix(1000, 0), time.Duration(0)
		for range tc.requests {
			now = now.Add(tc.took)
			w := d.charge(tc.took, now)
			waited += w
			now = now.Add(w + tc.pause)
		}
		if (waited > 0) != tc.waits {
			t.Errorf("%s: waited %v", tc.name, waited)
		}
	}
}

// A request that took long, of a client that did not read its reply, say, is not paid
// for in full.
func TestDutyOfOneLongRequest(t *testing.T) {
	var d duty
	if w := d.charge(time.Minute, time.Unix(1000, 0)); w != dutyRest {
		t.Errorf("waits %v, want %v", w, dutyRest)
	}
}

// Who was idle for a day has no more than the burst.
func TestDutyAfterARest(t *testing.T) {
	var d duty
	now := time.Unix(1000, 0)
	d.charge(time.Millisecond, now)
	now = now.Add(24 * time.Hour)
	if w := d.charge(dutyBurst+time.Millisecond, now); w != dutyShare*time.Millisecond {
		t.Errorf("waits %v, want %v", w, dutyShare*time.Millisecond)
	}
}
