package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	wholeActive  = "CONNECT_RESPONSE ESTABLISHED DISCONNECTED TIMEWAIT_EXIT"
	wholePassive = "CONNECT_REQUEST ESTABLISHED DISCONNECTED TIMEWAIT_EXIT"
)

// life connects, stays connected for a while, disconnects from one side, waits
// for the end and destroys.
func life(w *world, byPassive bool, stay time.Duration) {
	w.t.Helper()
	w.a.app, w.b.app = w.polite, w.polite
	listener := w.listen(wire.PortSpaceTCP, 0)
	id := w.connect(wire.PortSpaceTCP)
	w.runUntil("both established", 5*time.Minute, func() bool {
		return w.a.count(EventEstablished) == 1 && w.b.count(EventEstablished) == 1
	})
	w.run(stay)
	req, _ := w.b.last(EventConnectRequest)
	if byPassive {
		w.check(w.b.Disconnect(w.now, req.ID))
	} else {
		w.check(w.a.Disconnect(w.now, id))
	}
	w.runUntil("both ended", 5*time.Minute, func() bool {
		return w.a.count(EventTimewaitExit) == 1 && w.b.count(EventTimewaitExit) == 1
	})
	w.run(5 * time.Minute)
	if a, b := names(w.a.types()), names(w.b.types()); a != wholeActive || b != wholePassive {
		w.fatal("events of a: %s\nevents of b: %s", a, b)
	}
	w.check(w.a.Destroy(w.now, id))
	w.check(w.b.Destroy(w.now, req.ID))
	w.check(w.b.Destroy(w.now, listener))
	w.checkEmpty(w.a, 0)
	w.checkEmpty(w.b, 0)
}

// bySides runs a test with each side beginning the end.
func bySides(t *testing.T, f func(t *testing.T, byPassive bool)) {
	t.Run("active disconnects", func(t *testing.T) { f(t, false) })
	t.Run("passive disconnects", func(t *testing.T) { f(t, true) })
}

func TestLife(t *testing.T) {
	bySides(t, func(t *testing.T, byPassive bool) {
		w := newWorld(t, 1)
		w.fate = func(_ int, m *MAD) []time.Duration {
			if m.Data.Attr() == wire.AttrRTU && w.a.NextDeadline() != mono.Never {
				w.fatal("a timer runs although all is answered")
			}
			return []time.Duration{linkDelay}
		}
		life(w, byPassive, 0)
		if w.sent != 5 {
			w.fatal("%d messages, want REQ REP RTU DREQ DREP", w.sent)
		}
	})
}

// The loss of any one or two messages changes nothing but the time.
func TestLifeWithLosses(t *testing.T) {
	bySides(t, func(t *testing.T, byPassive bool) {
		for k := 1; k <= 8; k++ {
			for l := k; l <= 9; l++ {
				w := newWorld(t, 1)
				w.fate = func(n int, _ *MAD) []time.Duration {
					if n == k || n == l {
						return nil
					}
					return []time.Duration{linkDelay}
				}
				life(w, byPassive, 0)
				if k == l && k <= 5 && w.sent <= 5 {
					w.fatal("message %d was lost, %d were sent", k, w.sent)
				}
			}
		}
	})
}

// Neither do copies, late ones too.
func TestLifeWithDuplicates(t *testing.T) {
	bySides(t, func(t *testing.T, byPassive bool) {
		for k := 1; k <= 6; k++ {
			for _, later := range []time.Duration{0, time.Microsecond, time.Millisecond, 300 * time.Millisecond} {
				w := newWorld(t, 1)
				w.fate = func(n int, _ *MAD) []time.Duration {
					if n == k {
						return []time.Duration{linkDelay, linkDelay + later}
					}
					return []time.Duration{linkDelay}
				}
				life(w, byPassive, 0)
			}
		}
	})
}

// Nor delays that let one message overtake another.
func TestLifeWithDelays(t *testing.T) {
	bySides(t, func(t *testing.T, byPassive bool) {
		for k := 1; k <= 6; k++ {
			for _, delay := range []time.Duration{time.Millisecond, 4096 * time.Millisecond, 5 * time.Second, 12 * time.Second} {
				w := newWorld(t, 1)
				w.fate = func(n int, _ *MAD) []time.Duration {
					if n == k {
						return []time.Duration{delay}
					}
					return []time.Duration{linkDelay}
				}
				life(w, byPassive, 20*time.Second)
			}
		}
	})
}
