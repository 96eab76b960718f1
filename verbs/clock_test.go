package verbs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestClock(t *testing.T) {
	_, ctx := newFake(t)
	c := must(ctx.QueryClock())(t)
	for raw, want := range map[int64]time.Time{
		5_000: time.Unix(100, 7), 4_993: time.Unix(100, 0), 2_000_005_000: time.Unix(102, 7), -5_000: time.Unix(100, 7-10_000),
	} {
		if got := c.Time(raw); !got.Equal(want) {
			t.Errorf("at %d: %v, want %v", raw, got, want)
		}
	}
	if err := ctx.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ctx.QueryClock(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("of a closed device: %v", err)
	}
}

func TestQueryPKey(t *testing.T) {
	_, ctx := newFake(t)
	if k := must(ctx.QueryPKey(0))(t); k != 0xFFFF {
		t.Errorf("P_Key %#x", k)
	}
	for _, i := range []int{-1, 1} {
		if _, err := ctx.QueryPKey(i); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("index %d: %v", i, err)
		}
	}
}

func TestInitAttr(t *testing.T) {
	f, ctx := newFake(t)
	pd := must(ctx.AllocPD())(t)
	want := verbs.QPInitAttr{
		Type: verbs.UD, SendCQ: must(ctx.CreateCQ(1))(t), RecvCQ: must(ctx.CreateCQ(1))(t), SRQ: must(pd.CreateSRQ(nil))(t),
		Cap: verbs.QPCap{MaxSendWR: 7, MaxSendSGE: 2, MaxInline: 9}, SigAll: true, Context: 42,
		Congestion: verbs.CongestionDCQCN,
	}
	qp := must(pd.CreateQP(&want))(t)
	got := qp.InitAttr()
	if got.SendCQ != want.SendCQ || got.RecvCQ != want.RecvCQ || got.SRQ != want.SRQ || qp.PD() != pd {
		t.Error("other objects")
	}
	if c := f.qps[0].init.Congestion; c != want.Congestion {
		t.Errorf("the provider was told %v", c)
	}
	want.Congestion = 3
	if _, err := pd.CreateQP(&want); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("unknown congestion control: %v", err)
	}
	want.Congestion = verbs.CongestionDCQCN
	got.SendCQ, got.RecvCQ, got.SRQ, want.SendCQ, want.RecvCQ, want.SRQ = nil, nil, nil, nil, nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
