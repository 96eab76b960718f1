package datapath

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// holding is a pair whose end b is a client in another process; its worker is driven
// by the test, in a time of the test's own.
type holding struct {
	*rig
	p   *verbstest.Pair
	w   *worker // of b
	now mono.Time
}

func newHolding(t *testing.T) *holding {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	_, b := newRemote(t, r.b, ClientConfig{Name: "b"})
	p, err := verbstest.NewPair(verbs.RC, r.ca, b, verbstest.Options{Timeout: slow})
	must(t, err)
	return &holding{r, p, r.b.workers[0], clock()}
}

// after is a round of b's worker some time later.
func (h *holding) after(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	must(h.t, h.w.acquire())
	h.w.round(h.now)
	h.w.finish()
	h.w.lock.Store(0)
}

func (h *holding) write(from, to *verbstest.End) {
	h.t.Helper()
	must(h.t, from.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{from.MR.SGE(0, 8)}, RemoteAddr: to.MR.Addr(), RKey: to.MR.RKey()}))
}

// done reports whether a's WRITE is acknowledged.
func (h *holding) done() bool {
	var wc [1]verbs.WC
	return h.p.A.CQ.Poll(wc[:]) == 1
}

// TestHold: what a program in another process has received is acknowledged with its
// answer, or when there has been none for a while.
func TestHold(t *testing.T) {
	h := newHolding(t)
	for _, answers := range []bool{true, false} {
		before := h.w.hold.misses
		h.write(h.p.A, h.p.B)
		h.after(time.Microsecond)
		h.after(holdTime - time.Microsecond)
		if h.done() {
			t.Fatal("acknowledged before the program could answer")
		}
		want := before + 1
		if answers {
			h.write(h.p.B, h.p.A)
			h.after(0)
			want = 0
		} else {
			h.after(time.Microsecond)
		}
		if !h.done() {
			t.Fatalf("answers %v: not acknowledged", answers)
		}
		if h.w.hold.misses != want {
			t.Errorf("answers %v: %d misses, want %d", answers, h.w.hold.misses, want)
		}
		h.after(time.Microsecond) // the acknowledgement of the answer
	}
}

// TestHoldGivesUp: who receives only is acknowledged in the next round, all but now and
// then.
func TestHoldGivesUp(t *testing.T) {
	h := newHolding(t)
	late := 0
	const messages = 3 * holdAgain
	for range messages {
		h.write(h.p.A, h.p.B)
		h.after(time.Microsecond)
		if !h.done() {
			late++
			h.after(holdTime)
			if !h.done() {
				t.Fatal("not acknowledged")
			}
		}
	}
	if want := holdMisses + (messages-holdMisses)/holdAgain; late != want {
		t.Errorf("%d of %d acknowledged late, want %d", late, messages, want)
	}
}

// TestHoldOfMany: a batch that is a part of something larger is acknowledged at once,
// also when its frames come one by one.
func TestHoldOfMany(t *testing.T) {
	for _, together := range []bool{true, false} {
		h := newHolding(t)
		for range heldFrames + 1 {
			h.write(h.p.A, h.p.B)
			if !together {
				h.after(time.Microsecond)
			}
		}
		h.after(0)
		if !h.done() {
			t.Errorf("together %v: not acknowledged", together)
		}
	}
}
