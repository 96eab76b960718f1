package cmfsm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

func TestCMTime(t *testing.T) {
	for _, c := range []struct {
		n    uint8
		want time.Duration
	}{
		{0, time.Millisecond}, {8, time.Millisecond}, {9, 2 * time.Millisecond}, {16, 256 * time.Millisecond},
		{17, 512 * time.Millisecond}, {20, 4096 * time.Millisecond}, {24, 65536 * time.Millisecond}, {31, 8388608 * time.Millisecond},
	} {
		if got := cmTime(c.n); got != c.want {
			t.Errorf("cmTime(%d) = %v, want %v", c.n, got, c.want)
		}
	}
}

func TestAckTimeout(t *testing.T) {
	for _, c := range []struct{ delay, life, want uint8 }{
		{15, 16, 17}, // rxe
		{16, 16, 18}, // ConnectX
		{17, 16, 18},
		{18, 16, 19},
		{19, 16, 19},
		{0, 16, 17},
		{15, 18, 19}, // kernels before 2021
		{15, 0, 15},
		{31, 30, 31},
		{31, 0, 31},
	} {
		if got := ackTimeoutOf(c.delay, c.life); got != c.want {
			t.Errorf("delay %d, life %d: %d, want %d", c.delay, c.life, got, c.want)
		}
	}
}

// Timers run in the order of their deadlines, whatever is started, moved and
// stopped.
func TestTimers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := testMachine()
	want := map[*conn]mono.Time{}
	all := make([]*conn, 50)
	for i := range all {
		all[i] = &conn{id: ID(i), timer: -1}
	}
	for range 5000 {
		c := all[r.IntN(len(all))]
		if r.IntN(3) == 0 {
			m.stop(c)
			delete(want, c)
		} else {
			d := mono.Time(r.IntN(20) + 1)
			m.start(c, d)
			want[c] = d
		}
		first := mono.Never
		for _, d := range want {
			first = mono.Min(first, d)
		}
		if got := m.NextDeadline(); got != first || len(m.timers) != len(want) {
			t.Fatalf("next deadline %d, want %d; %d timers, want %d", got, first, len(m.timers), len(want))
		}
	}
}

func TestQueue(t *testing.T) {
	var q queue[int]
	var want []int
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 20000 {
		// Phases of growing and of shrinking.
		if r.IntN(10) < 3+4*(i/2000%2) {
			q.push(i)
			want = append(want, i)
		} else if v, ok := q.pop(); ok != (len(want) > 0) {
			t.Fatalf("pop %v of %d", ok, len(want))
		} else if ok {
			if v != want[0] {
				t.Fatalf("%d, want %d", v, want[0])
			}
			want = want[1:]
		}
		if q.len() != len(want) {
			t.Fatalf("%d in the queue, want %d", q.len(), len(want))
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if cap(q.items) > 64 {
		t.Errorf("an empty queue has room for %d", cap(q.items))
	}
}

func TestNames(t *testing.T) {
	var all []string
	for c := range numCounters {
		all = append(all, c.String())
	}
	for s := range numStates {
		all = append(all, s.String())
	}
	for e := range numEventTypes {
		all = append(all, "event "+e.String())
	}
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) || slices.Contains(all, "") {
		t.Errorf("%d names of %d: %s", n, len(all), strings.Join(all, ", "))
	}
	for _, c := range []struct{ got, want string }{
		{CounterRxSIDRREQ.String(), "cm_rx_sidr_req"}, {CounterTxAPR.String(), "cm_tx_apr"}, {numCounters.String(), "cm_unknown"},
		{CounterWrongState.String(), "cm_wrong_state"}, {State(99).String(), "STATE(99)"}, {EventType(20).String(), "EVENT(20)"},
		{EventTimewaitExit.String(), "TIMEWAIT_EXIT"}, {StateMRAREPRcvd.String(), "MRA_REP_RCVD"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
