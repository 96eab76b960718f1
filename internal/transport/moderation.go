package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// moderation makes one event of several completions (ibv_modify_cq): an event
// that was asked for is held back until count completions that ask for it have
// come, or until period after the first of them. It is guarded by the queue's
// lock.
type moderation struct {
	count  int           // 0: their number does not matter
	period time.Duration // 0: time does not matter
	held   int           // completions that have come since the last event
	due    mono.Time     // when the event comes at the latest, if held is not 0
	env    *Env          // that looks at the queue at time key, nil when none does
	key    mono.Time
}

// SetModeration has an event wait for count completions or for period after the
// first of them, whichever is first; a value of 0 is no reason to raise it, and two
// are no moderation. It reports whether an event that was held back is to be raised
// now, by the caller.
func (cq *CQ) SetModeration(count int, period time.Duration) (raise bool) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.mod.count, cq.mod.period = count, period
	return cq.mod.release(cq)
}

// Moderation is what SetModeration has set.
func (cq *CQ) Moderation() (count int, period time.Duration) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.mod.count, cq.mod.period
}

// ripe counts a completion that asks for an event and reports whether this is to
// be raised now. Otherwise e raises it when the period has passed.
func (m *moderation) ripe(cq *CQ, e *Env, now mono.Time) bool {
	if m.count == 0 && m.period == 0 {
		return true
	}
	m.held++
	if m.count != 0 && m.held >= m.count {
		m.held = 0
		return true
	}
	if m.held == 1 && m.period != 0 {
		m.due = now.Add(m.period)
		// Who is to look at the queue before that sees the new time then.
		if m.env == nil || m.key > m.due {
			m.watch(cq, e)
		}
	}
	return false
}

// watch has e look at the queue when it is due.
func (m *moderation) watch(cq *CQ, e *Env) {
	m.env, m.key = e, m.due
	e.heldBack.push(heldEvent{m.due, cq})
}

// expire raises the event of the queue if it is held back and due. The entry with
// key has left e's list.
func (cq *CQ) expire(e *Env, now, key mono.Time) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	m := &cq.mod
	if m.env != e || m.key != key { // another entry has taken its place
		return
	}
	m.env = nil
	switch {
	case m.held == 0 || m.period == 0:
	case m.due > now:
		m.watch(cq, e)
	case m.release(cq):
		e.Woken = append(e.Woken, cq)
	}
}

// release ends the wait of an event that is held back and reports whether there
// was one. The caller raises it.
func (m *moderation) release(cq *CQ) bool {
	if m.held == 0 {
		return false
	}
	m.held = 0
	cq.prod.Ring().Arm().Store(queue.ArmNone)
	return true
}

// NextEvent is when Expire must be called at the latest, Never when nothing
// waits for it. A completion makes it earlier.
func (e *Env) NextEvent() mono.Time {
	if len(e.heldBack) == 0 {
		return mono.Never
	}
	return e.heldBack[0].key
}

// Expire puts the completion queues into Woken whose events were held back and
// are due.
func (e *Env) Expire(now mono.Time) {
	for e.NextEvent() <= now {
		it := e.heldBack.pop()
		it.cq.expire(e, now, it.key)
	}
}

// heldEvent is a completion queue to look at, at time key.
type heldEvent struct {
	key mono.Time
	cq  *CQ
}

// heldEvents is a binary heap, the earliest first.
type heldEvents []heldEvent

func (h *heldEvents) push(it heldEvent) {
	s := append(*h, it)
	*h = s
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].key <= s[i].key {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *heldEvents) pop() heldEvent {
	s := *h
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], heldEvent{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1].key < s[child].key {
			child++
		}
		if child >= len(s) || s[i].key <= s[child].key {
			return first
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
