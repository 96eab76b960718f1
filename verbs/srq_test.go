package verbs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// sharedRig is a queue pair that takes its receives from a shared queue.
type sharedRig struct {
	*rig
	srq *verbs.SRQ
	qp  *verbs.QP
}

func newSharedRig(t *testing.T, attr *verbs.SRQInitAttr) *sharedRig {
	t.Helper()
	s := &sharedRig{rig: newRig(t, verbs.QPStateInit, verbs.QPCap{})}
	s.srq = must(s.pd.CreateSRQ(attr))(t)
	s.qp = must(s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq, Cap: verbs.QPCap{MaxRecvWR: 7, MaxRecvSGE: 3}}))(t)
	return s
}

func (s *sharedRig) fake() *fakeSRQ { return s.f.srqs[0] }

func TestSRQCapacities(t *testing.T) {
	s := newSharedRig(t, nil)
	if a, err := s.srq.Query(); err != nil || a != (verbs.SRQAttr{MaxWR: 128, MaxSGE: 1}) {
		t.Errorf("Query = %+v, %v", a, err)
	}
	if c := s.qp.Cap(); c.MaxRecvWR != 0 || c.MaxRecvSGE != 0 || c.MaxSendWR != 128 {
		t.Errorf("queue pair has %+v, want no receives of its own", c)
	}
	if in := s.f.qps[1].init; in.SRQ != verbs.ProviderSRQ(s.fake()) || in.Cap.MaxRecvWR != 0 {
		t.Errorf("provider was told %+v", in)
	}
	if s.srq.PD() != s.pd {
		t.Error("PD is another")
	}
}

func TestCreateSRQRefuses(t *testing.T) {
	s := newSharedRig(t, nil)
	for name, a := range map[string]verbs.SRQInitAttr{
		"negative MaxWR":         {MaxWR: -1},
		"MaxWR too large":        {MaxWR: verbs.MaxQPWR + 1},
		"negative MaxSGE":        {MaxSGE: -1},
		"MaxSGE too large":       {MaxSGE: verbs.MaxSGE + 1},
		"negative Limit":         {Limit: -1},
		"Limit larger than size": {MaxWR: 4, Limit: 5},
	} {
		if _, err := s.pd.CreateSRQ(&a); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	must(s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: verbs.MaxQPWR, MaxSGE: verbs.MaxSGE, Limit: verbs.MaxQPWR}))(t)

	_, other := newFake(t)
	pd := must(other.AllocPD())(t)
	cq := must(other.CreateCQ(8))(t)
	if _, err := pd.CreateQP(&verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, SRQ: s.srq}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("queue of another device: %v", err)
	}
	gone := must(s.pd.CreateSRQ(nil))(t)
	if err := gone.Destroy(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pd.CreateQP(&verbs.QPInitAttr{SendCQ: s.cq, RecvCQ: s.cq, SRQ: gone}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("queue that is gone: %v", err)
	}
}

func TestSRQPosting(t *testing.T) {
	s := newSharedRig(t, &verbs.SRQInitAttr{MaxWR: 3, MaxSGE: 2}) // the ring has 4
	for _, err := range []error{s.qp.PostRecv(&verbs.RecvWR{}), s.srq.PostRecv(nil), s.srq.PostRecv(&verbs.RecvWR{SGList: make([]verbs.SGE, 3)})} {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	}
	if n, err := s.qp.PostRecvBatch(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("posting to the queue pair: %d, %v", n, err)
	}
	if err := s.srq.PostRecv(&verbs.RecvWR{WRID: 1}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.srq.PostRecvBatch([]verbs.RecvWR{{WRID: 2}, {WRID: 3}, {WRID: 4}}); n != 2 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("batch: %d, %v; want 2 and ErrQueueFull", n, err)
	}
	if got := s.fake().take(); got != 1 {
		t.Errorf("took %d, want 1", got)
	}
	if err := s.srq.PostRecv(&verbs.RecvWR{WRID: 5}); err != nil {
		t.Errorf("after one was taken: %v", err)
	}
	if got := []uint64{s.fake().take(), s.fake().take(), s.fake().take()}; !slices.Equal(got, []uint64{2, 3, 5}) || s.fake().posted() != 0 {
		t.Errorf("took %v, want 2, 3 and 5", got)
	}
}

func TestSRQPostingDoesNotAllocate(t *testing.T) {
	s := newSharedRig(t, nil)
	wr := verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{{Length: 8}}}
	batch := []verbs.RecvWR{wr, wr}
	n := testing.AllocsPerRun(100, func() {
		if s.srq.PostRecv(&wr) != nil {
			t.Fatal("not posted")
		}
		if n, err := s.srq.PostRecvBatch(batch); n != 2 || err != nil {
			t.Fatal("not posted")
		}
		s.fake().cons.Release(3)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSRQModify(t *testing.T) {
	s := newSharedRig(t, &verbs.SRQInitAttr{MaxWR: 4, Limit: 2})
	for _, id := range []uint64{1, 2, 3} {
		if err := s.srq.PostRecv(&verbs.RecvWR{WRID: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		attr verbs.SRQAttr
		mask verbs.SRQAttrMask
		want verbs.SRQAttr // after it
		err  error
	}{
		{"nothing", verbs.SRQAttr{MaxWR: -1, Limit: -1}, 0, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 2}, nil},
		{"limit", verbs.SRQAttr{Limit: 3}, verbs.SRQAttrLimit, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}, nil},
		{"limit too large", verbs.SRQAttr{Limit: 5}, verbs.SRQAttrLimit, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}, verbs.ErrInvalid},
		{"size below the limit", verbs.SRQAttr{MaxWR: 2}, verbs.SRQAttrMaxWR, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}, verbs.ErrInvalid},
		{"no size", verbs.SRQAttr{}, verbs.SRQAttrMaxWR, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}, verbs.ErrInvalid},
		{"unknown attribute", verbs.SRQAttr{MaxWR: 8}, 4, verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}, verbs.ErrInvalid},
		{"both", verbs.SRQAttr{MaxWR: 9, Limit: 9}, verbs.SRQAttrMaxWR | verbs.SRQAttrLimit, verbs.SRQAttr{MaxWR: 9, MaxSGE: 1, Limit: 9}, nil},
	} {
		if err := s.srq.Modify(&tt.attr, tt.mask); !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
		if got, err := s.srq.Query(); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
	if err := s.srq.Modify(nil, verbs.SRQAttrLimit); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("no attributes: %v", err)
	}
	// Six more fit behind the three, in the larger ring.
	if n, err := s.srq.PostRecvBatch(make([]verbs.RecvWR, 7)); n != 6 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("posted %d, %v; want 6", n, err)
	}
	if got := s.fake().take(); got != 1 || s.fake().posted() != 8 {
		t.Errorf("took %d, %d left; want 1 and 8", got, s.fake().posted())
	}
	s.fake().refuse = verbs.ErrBusy
	if err := s.srq.Modify(&verbs.SRQAttr{MaxWR: 100, Limit: 1}, verbs.SRQAttrMaxWR|verbs.SRQAttrLimit); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("provider's error: %v", err)
	}
	s.fake().refuse = nil
	if a, _ := s.srq.Query(); a.MaxWR != 9 {
		t.Errorf("size %d after a resize that failed", a.MaxWR)
	}
}

func TestSRQInUseCannotGo(t *testing.T) {
	s := newSharedRig(t, nil)
	if err := s.srq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("with a queue pair: %v, want ErrBusy", err)
	}
	if err := errors.Join(s.qp.Destroy(), s.rig.qp.Destroy(), s.cq.Destroy()); err != nil {
		t.Fatal(err)
	}
	if err := s.pd.Dealloc(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("domain with a shared queue: %v, want ErrBusy", err)
	}
	// The provider may know better; then the queue stays as it is.
	s.fake().refuse = verbs.ErrBusy
	if err := s.srq.Destroy(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("refused by the provider: %v, want ErrBusy", err)
	}
	s.fake().refuse = nil
	if err := s.srq.PostRecv(&verbs.RecvWR{}); err != nil {
		t.Errorf("post after a refusal: %v", err)
	}
	for range 2 {
		if err := s.srq.Destroy(); err != nil || !s.fake().gone {
			t.Errorf("destroy: %v, gone %v", err, s.fake().gone)
		}
	}
	_, qerr := s.srq.Query()
	for name, err := range map[string]error{
		"post": s.srq.PostRecv(&verbs.RecvWR{}), "modify": s.srq.Modify(&verbs.SRQAttr{}, verbs.SRQAttrLimit), "query": qerr,
	} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s after destroy: %v, want ErrClosed", name, err)
		}
	}
	if err := s.pd.Dealloc(); err != nil {
		t.Error(err)
	}
	if _, err := s.pd.CreateSRQ(nil); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("create in a domain that is gone: %v", err)
	}
}

func TestCloseDestroysSharedQueues(t *testing.T) {
	s := newSharedRig(t, nil)
	if err := s.c.Close(); err != nil || !s.fake().gone {
		t.Errorf("close: %v, gone %v", err, s.fake().gone)
	}
}

func TestSRQEvents(t *testing.T) {
	s := newSharedRig(t, nil)
	s.f.events <- verbs.ProviderEvent{Type: verbs.EventSRQLimitReached, SRQ: s.fake()}
	if e, err := s.c.NextEvent(t.Context()); err != nil || e != (verbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: s.srq}) {
		t.Errorf("event %+v, %v", e, err)
	}
	if err := errors.Join(s.qp.Destroy(), s.srq.Destroy()); err != nil {
		t.Fatal(err)
	}
	// An event of a queue that is gone concerns nobody.
	s.f.events <- verbs.ProviderEvent{Type: verbs.EventSRQLimitReached, SRQ: s.fake()}
	s.f.events <- verbs.ProviderEvent{Type: verbs.EventPortErr}
	if e, err := s.c.NextEvent(t.Context()); err != nil || e != (verbs.AsyncEvent{Type: verbs.EventPortErr}) {
		t.Errorf("event %+v, %v", e, err)
	}
}
