package cmfsm

import (
	"container/heap"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
)

// timers is a heap of ids by deadline; equal ones go by age, so that a
// simulation replays.
type timers []*conn

func (t timers) Len() int { return len(t) }

func (t timers) Less(i, j int) bool {
	if t[i].deadline != t[j].deadline {
		return t[i].deadline < t[j].deadline
	}
	return t[i].id < t[j].id
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i, j
}

// Push is for container/heap.
func (t *timers) Push(x any) {
	c := x.(*conn)
	c.timer = len(*t)
	*t = append(*t, c)
}

// Pop is for container/heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	c := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	c.timer = -1
	return c
}

// start lets the timer of c run until a deadline, whether or not it runs.
func (m *Machine) start(c *conn, deadline mono.Time) {
	c.deadline = deadline
	if c.timer >= 0 {
		heap.Fix(&m.timers, c.timer)
		return
	}
	heap.Push(&m.timers, c)
}

func (m *Machine) stop(c *conn) {
	if c.timer >= 0 {
		heap.Remove(&m.timers, c.timer)
	}
}

// cmTime is the time that a 5-bit exponent stands for: 4.096 us * 2^n, in the
// milliseconds that Linux's connection manager makes of it.
func cmTime(n uint8) time.Duration {
	return time.Millisecond << max(int(n&31)-8, 0)
}

// ackTimeoutOf is the exponent of a queue pair's timeout for packets that live
// 4.096 us * 2^life on a path to a device that takes 4.096 us * 2^delay to
// acknowledge: twice the first and the second, rounded up (IBTA vol. 1,
// 12.7.34).
func ackTimeoutOf(delay, life uint8) uint8 {
	t := life + 1
	switch {
	case t >= delay:
		if delay >= t-1 {
			t++
		}
	case t >= delay-1:
		t = delay + 1
	default:
		t = delay
	}
	return min(t, 31)
}
