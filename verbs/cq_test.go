package verbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Poll goes on in the new ring, and a request for an event is there too.
func TestCQResize(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendWR: 16})
	for id := range uint64(6) {
		if err := r.qp.PostSend(&verbs.SendWR{WRID: id, Opcode: verbs.OpSend}); err != nil {
			t.Fatal(err)
		}
	}
	var wcs [4]verbs.WC
	if n := r.cq.Poll(wcs[:2]); n != 2 {
		t.Fatalf("%d completions", n)
	}
	if err := r.cq.Resize(3); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("below the 4 that are queued: %v", err)
	}
	r.cq.ReqNotify(true)
	if err := r.cq.Resize(5); err != nil {
		t.Fatal(err)
	}
	if r.cq.Size() != 8 {
		t.Errorf("size %d", r.cq.Size())
	}
	c := r.fake().init.SendCQ.(*fakeCQ)
	if got := c.ring.Arm().Load(); got != queue.ArmSolicited {
		t.Errorf("arm word %d", got)
	}
	if n := r.cq.Poll(wcs[:]); n != 4 || wcs[0].WRID != 2 || wcs[3].WRID != 5 {
		t.Errorf("%d completions: %+v", n, wcs)
	}
	r.cq.ReqNotify(false)
	if got := c.ring.Arm().Load(); got != queue.ArmNext {
		t.Errorf("arm word %d: not that of the new ring", got)
	}
}

func TestCQAttributes(t *testing.T) {
	_, ctx := newFake(t)
	cq := must(ctx.CreateCQ(5))(t)
	if err := cq.Modify(7, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	want := verbs.CQAttr{Entries: 8, Count: 7, Period: time.Millisecond}
	if got := must(cq.Query())(t); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, err := range []error{
		cq.Modify(-1, 0), cq.Modify(verbs.MaxCQCount+1, 0), cq.Modify(0, -1), cq.Modify(0, verbs.MaxCQPeriod+1),
		cq.Resize(0), cq.Resize(verbs.MaxCQE + 1),
	} {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("out of range: %v", err)
		}
	}
	if err := cq.Destroy(); err != nil {
		t.Fatal(err)
	}
	_, qerr := cq.Query()
	for _, err := range []error{cq.Modify(1, 0), cq.Resize(1), qerr} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("destroyed: %v", err)
		}
	}
}
