package verbs_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestObjectsInUseCannotGo(t *testing.T) {
	r := newRig(t, verbs.QPStateInit, verbs.QPCap{})
	buf := must(r.c.AllocBuffer(4096))(t)
	mr := must(r.pd.RegisterMemory(buf[100:200], verbs.AccessLocalWrite))(t)
	for name, err := range map[string]error{
		"pd with a qp": r.pd.Dealloc(), "cq with a qp": r.cq.Destroy(), "buffer with a region": r.c.FreeBuffer(buf),
	} {
		if !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"qp", r.qp.Destroy}, {"qp again", r.qp.Destroy}, {"cq", r.cq.Destroy}, {"cq again", r.cq.Destroy},
		{"mr", mr.Deregister}, {"mr again", mr.Deregister}, {"pd", r.pd.Dealloc}, {"pd again", r.pd.Dealloc},
		{"buffer", func() error { return r.c.FreeBuffer(buf) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	if err := r.c.FreeBuffer(buf); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("freeing twice: %v, want ErrInvalid", err)
	}
	if r.f.pds != 0 || r.f.cqs != 0 || r.f.buffers != 0 || len(r.f.regions) != 0 {
		t.Errorf("left on the device: %+v", r.f)
	}
	if err := r.qp.PostSend(&verbs.SendWR{}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("post on a destroyed qp: %v, want ErrClosed", err)
	}
}

func TestCloseDestroysEverything(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	buf := must(r.c.AllocBuffer(4096))(t)
	must(r.pd.RegisterMemory(buf, verbs.AccessLocalWrite))(t)
	for range 2 {
		if err := r.c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r.f.pds != 0 || r.f.cqs != 0 || r.f.buffers != 0 || len(r.f.regions) != 0 || !r.f.closed {
		t.Errorf("left on the device: pds %d cqs %d buffers %d regions %d closed %v", r.f.pds, r.f.cqs, r.f.buffers, len(r.f.regions), r.f.closed)
	}
	if _, err := r.c.AllocPD(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("AllocPD after Close: %v", err)
	}
	if _, err := r.cq.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	_, ctx := newFake(t)
	_, other := newFake(t)
	pd := must(ctx.AllocPD())(t)
	cq := must(ctx.CreateCQ(8))(t)
	foreign := must(other.CreateCQ(8))(t)
	qp := func(a *verbs.QPInitAttr) error { _, err := pd.CreateQP(a); return err }
	mr := func(b []byte, a verbs.Access) error { _, err := pd.RegisterMemory(b, a); return err }
	mkCQ := func(n int) error { _, err := ctx.CreateCQ(n); return err }
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"qp nil":           {qp(nil), "completion queue"},
		"qp without cq":    {qp(&verbs.QPInitAttr{SendCQ: cq}), "completion queue"},
		"qp foreign cq":    {qp(&verbs.QPInitAttr{SendCQ: cq, RecvCQ: foreign}), "another device"},
		"qp too many sges": {qp(&verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendSGE: 33}}), "MaxSendSGE is 33"},
		"qp negative":      {qp(&verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxRecvWR: -1}}), "MaxRecvWR is -1"},
		"empty region":     {mr(nil, 0), "empty"},
		"remote only":      {mr(make([]byte, 8), verbs.AccessRemoteWrite), "LOCAL_WRITE"},
		"cq of 0":          {mkCQ(0), "0 entries"},
		"cq too large":     {mkCQ(verbs.MaxCQE + 1), "entries"},
	} {
		if !errors.Is(c.err, verbs.ErrInvalid) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrInvalid with %q", name, c.err, c.says)
		}
	}
}

func TestWaitLosesNoWakeUp(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	const rounds = 5000
	go func() {
		wr := verbs.SendWR{Opcode: verbs.OpSend}
		for i := range rounds {
			for r.qp.PostSend(&wr) != nil {
				time.Sleep(time.Microsecond)
			}
			if i%7 == 0 {
				time.Sleep(time.Microsecond)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got atomic.Int64
	var wg sync.WaitGroup
	done, finish := context.WithCancel(ctx)
	for range 3 {
		wg.Go(func() {
			wcs := make([]verbs.WC, 4)
			for {
				n, err := r.cq.Wait(done, wcs)
				if err != nil {
					return
				}
				if got.Add(int64(n)) >= rounds {
					finish()
				}
			}
		})
	}
	wg.Wait()
	finish()
	if got.Load() != rounds {
		t.Errorf("%d of %d completions: a waiter slept through one", got.Load(), rounds)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.cq.Wait(ctx, make([]verbs.WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
	if _, err := r.cq.Wait(t.Context(), nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("no room: %v, want ErrInvalid", err)
	}
}

func TestCorruptedRingIsAnError(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	cq := r.fake().init.SendCQ.(*fakeCQ)
	cq.prod.Publish(5000) // more than the ring holds
	if n := r.cq.Poll(make([]verbs.WC, 8)); n != 0 {
		t.Errorf("%d completions out of a corrupted ring", n)
	}
	if err := r.cq.Err(); !errors.Is(err, verbs.ErrCorrupted) {
		t.Errorf("%v, want ErrCorrupted", err)
	}
}

func TestConcurrentPostAndPoll(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{MaxSendWR: 64})
	r.fake().record = false
	const workers, each = 8, 500
	var got atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			wcs := make([]verbs.WC, 8)
			for i := 0; i < each; {
				if r.qp.PostSend(&verbs.SendWR{WRID: uint64(w), Opcode: verbs.OpSend}) == nil {
					i++
				}
				got.Add(int64(r.cq.Poll(wcs)))
			}
		})
	}
	wg.Wait()
	for wcs := make([]verbs.WC, 8); ; {
		n := r.cq.Poll(wcs)
		if n == 0 {
			break
		}
		got.Add(int64(n))
	}
	if got.Load() != workers*each {
		t.Errorf("%d completions, want %d", got.Load(), workers*each)
	}
}

func TestGIDChoice(t *testing.T) {
	gid := func(s string) verbs.GID { return netip.MustParseAddr(s).As16() }
	f, ctx := newFake(t)
	if _, err := ctx.DefaultGID(); err == nil || !strings.Contains(err.Error(), "ip address add") {
		t.Errorf("no address: %v", err)
	}
	f.gids = []verbs.GIDEntry{
		{Index: 0, GID: gid("fe80::1"), Valid: true},
		{Index: 1},
		{Index: 2, GID: gid("fd00::2"), Valid: true},
		{Index: 3, GID: gid("::ffff:10.0.0.1"), Valid: true},
	}
	if e, err := ctx.DefaultGID(); err != nil || e.Index != 3 {
		t.Errorf("default is %+v, %v; want index 3", e, err)
	}
	for s, want := range map[string]int{"10.0.0.1": 3, "fd00::2": 2, "fe80::1%eth0": 0} {
		if i, err := ctx.GIDIndex(netip.MustParseAddr(s)); err != nil || i != want {
			t.Errorf("index of %s is %d, %v; want %d", s, i, err, want)
		}
	}
	if _, err := ctx.GIDIndex(netip.MustParseAddr("10.0.0.9")); err == nil || !strings.Contains(err.Error(), "10.0.0.1") {
		t.Errorf("unknown address: %v should list what there is", err)
	}
	if _, err := ctx.QueryGID(1); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("hole: %v, want ErrInvalid", err)
	}
	f.gids[3].Valid = false
	if e, _ := ctx.DefaultGID(); e.Index != 2 {
		t.Errorf("without IPv4 the default is %+v, want index 2", e)
	}
}

func TestEventsNameTheirObjects(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventCommEst, QP: &fakeQP{}} // of a destroyed qp: skipped
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventQPFatal, QP: r.fake()}
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventCQErr, CQ: r.fake().init.SendCQ}
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventPortErr}
	for _, want := range []verbs.AsyncEvent{
		{Type: verbs.EventQPFatal, QP: r.qp}, {Type: verbs.EventCQErr, CQ: r.cq}, {Type: verbs.EventPortErr},
	} {
		if got, err := r.c.NextEvent(t.Context()); err != nil || got != want {
			t.Errorf("event %+v, %v; want %+v", got, err, want)
		}
	}
}

// A subscription is told of its types, with the program's objects.
func TestSubscribe(t *testing.T) {
	r := newRig(t, verbs.QPStateRTS, verbs.QPCap{})
	s, err := r.c.Subscribe(verbs.EventQPFatal, verbs.EventPortErr)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventQPFatal, QP: &fakeQP{}} // of a destroyed qp: skipped
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventCommEst, QP: r.fake()}
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventQPFatal, QP: r.fake()}
	r.f.events <- verbs.ProviderEvent{Type: verbs.EventPortErr}
	for _, want := range []verbs.AsyncEvent{{Type: verbs.EventQPFatal, QP: r.qp}, {Type: verbs.EventPortErr}} {
		if got, err := s.Next(t.Context()); err != nil || got != want {
			t.Errorf("event %+v, %v; want %+v", got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("no event: %v", err)
	}
}

func TestCompletionErrorsExplain(t *testing.T) {
	for s := verbs.WCSuccess + 1; s <= verbs.WCGeneral; s++ {
		w := verbs.WC{Status: s, WRID: 3, QPNum: 0x11}
		var ce *verbs.CompletionError
		if err := w.Err(); !errors.As(err, &ce) || ce.Status != s || len(err.Error()) < 40 {
			t.Errorf("status %d: %v", s, err)
		}
	}
	if err := (&verbs.WC{}).Err(); err != nil {
		t.Errorf("success is %v", err)
	}
}
