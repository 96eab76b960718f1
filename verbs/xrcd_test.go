package verbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// xrcRig is an XRC domain of the fake device with a queue.
type xrcRig struct {
	f  *fakeDevice
	c  *verbs.Context
	pd *verbs.PD
	cq *verbs.CQ
	d  *verbs.XRCD
}

func newXRCRig(t *testing.T) *xrcRig {
	t.Helper()
	f, ctx := newFake(t)
	return &xrcRig{f: f, c: ctx, pd: must(ctx.AllocPD())(t), cq: must(ctx.CreateCQ(16))(t), d: must(ctx.OpenXRCD(nil))(t)}
}

func TestOpenXRCD(t *testing.T) {
	f, c := newFake(t)
	if _, err := c.OpenXRCD(&verbs.XRCDInitAttr{Name: "a", Exclusive: true}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("Exclusive without Create: %v", err)
	}
	for _, tt := range []struct{ in, want verbs.XRCDInitAttr }{
		{verbs.XRCDInitAttr{}, verbs.XRCDInitAttr{Create: true, Exclusive: true}},
		{verbs.XRCDInitAttr{Name: "a"}, verbs.XRCDInitAttr{Name: "a"}},
		{verbs.XRCDInitAttr{Name: "a", Create: true, Exclusive: true}, verbs.XRCDInitAttr{Name: "a", Create: true, Exclusive: true}},
	} {
		n := len(f.xrcds)
		d := must(c.OpenXRCD(&tt.in))(t)
		if got := f.xrcds[uint32(n+1)]; got != tt.want || d.Context() != c {
			t.Errorf("%+v asks the provider for %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestXRCSharedReceiveQueue(t *testing.T) {
	r := newXRCRig(t)
	s := must(r.pd.CreateSRQ(&verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d, CQ: r.cq, MaxWR: 4}))(t)
	if got := r.f.srqs[0]; s.Num() != 0x51 || got.xrcd != 1 || got.attr.MaxWR != 4 || got.attr.MaxSGE != 1 {
		t.Errorf("number %#x of %+v", s.Num(), got)
	}
	if err := s.PostRecv(&verbs.RecvWR{WRID: 5}); err != nil || r.f.srqs[0].take() != 5 {
		t.Errorf("post: %v", err)
	}
	if n := must(r.pd.CreateSRQ(nil))(t).Num(); n != 0 {
		t.Errorf("a basic queue has the number %d", n)
	}
	for name, busy := range map[string]error{"domain": r.d.Close(), "completion queue": r.cq.Destroy()} {
		if !errors.Is(busy, verbs.ErrBusy) {
			t.Errorf("%s of a queue: %v, want ErrBusy", name, busy)
		}
	}
	if err := errors.Join(s.Destroy(), s.Destroy(), r.d.Close(), r.d.Close(), r.cq.Destroy()); err != nil {
		t.Error(err)
	}
	if len(r.f.xrcds) != 0 {
		t.Errorf("domains %v are left", r.f.xrcds)
	}
}

func TestXRCSharedReceiveQueueRefused(t *testing.T) {
	r := newXRCRig(t)
	_, other := newFake(t)
	gone := must(r.c.OpenXRCD(nil))(t)
	dead := must(r.c.CreateCQ(1))(t)
	if err := errors.Join(gone.Close(), dead.Destroy()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		attr verbs.SRQInitAttr
		want error
	}{
		{"no domain", verbs.SRQInitAttr{Type: verbs.SRQXRC, CQ: r.cq}, verbs.ErrInvalid},
		{"no completion queue", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d}, verbs.ErrInvalid},
		{"domain of another device", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: must(other.OpenXRCD(nil))(t), CQ: r.cq}, verbs.ErrInvalid},
		{"completion queue of another device", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d, CQ: must(other.CreateCQ(1))(t)}, verbs.ErrInvalid},
		{"closed domain", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: gone, CQ: r.cq}, verbs.ErrClosed},
		{"destroyed completion queue", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d, CQ: dead}, verbs.ErrClosed},
		{"basic with a domain", verbs.SRQInitAttr{XRCD: r.d}, verbs.ErrInvalid},
		{"basic with a completion queue", verbs.SRQInitAttr{CQ: r.cq}, verbs.ErrInvalid},
		{"type", verbs.SRQInitAttr{Type: 2}, verbs.ErrInvalid},
		{"too many entries", verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d, CQ: r.cq, MaxSGE: verbs.MaxSGE + 1}, verbs.ErrInvalid},
	} {
		if _, err := r.pd.CreateSRQ(&tt.attr); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := errors.Join(r.d.Close(), r.cq.Destroy()); err != nil {
		t.Errorf("something was counted: %v", err)
	}
}

func TestXRCTarget(t *testing.T) {
	r := newXRCRig(t)
	q := must(r.d.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv, Context: 9, Congestion: verbs.CongestionNone}))(t)
	if d := cmp.Diff(verbs.ProviderQPInit{Type: verbs.XRCRecv, XRCD: 1, Context: 9, Congestion: verbs.CongestionNone}, r.f.qps[0].init); d != "" {
		t.Error(d)
	}
	if err := q.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"send": q.PostSend(&verbs.SendWR{}), "receive": q.PostRecv(&verbs.RecvWR{})} {
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "XRC_RECV") {
			t.Errorf("%s at a target: %v", name, err)
		}
	}
	again := must(r.d.OpenQP(q.Num()))(t)
	if again.Num() != q.Num() || again.Type() != verbs.XRCRecv {
		t.Errorf("opened %v %#x", again.Type(), again.Num())
	}
	if _, err := r.d.OpenQP(q.Num() + 1); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("open of no target: %v", err)
	}
	for _, h := range []*verbs.QP{q, again} {
		if err := r.d.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("close with a target: %v", err)
		}
		if err := errors.Join(h.Destroy(), h.Destroy()); err != nil {
			t.Error(err)
		}
	}
	if err := r.d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.d.OpenQP(q.Num()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("open in a closed domain: %v", err)
	}
}

func TestXRCQueuePairsRefused(t *testing.T) {
	r := newXRCRig(t)
	srq := must(r.pd.CreateSRQ(nil))(t)
	for name, attr := range map[string]*verbs.QPInitAttr{
		"nothing":           nil,
		"of type RC":        {Type: verbs.RC},
		"of type XRC_SEND":  {Type: verbs.XRCSend},
		"with SendCQ":       {Type: verbs.XRCRecv, SendCQ: r.cq},
		"with RecvCQ":       {Type: verbs.XRCRecv, RecvCQ: r.cq},
		"with SRQ":          {Type: verbs.XRCRecv, SRQ: srq},
		"with a capability": {Type: verbs.XRCRecv, Cap: verbs.QPCap{MaxSendWR: 1}},
	} {
		if _, err := r.d.CreateQP(attr); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("target %s: %v", name, err)
		}
	}
	for name, attr := range map[string]*verbs.QPInitAttr{
		"a target":          {Type: verbs.XRCRecv},
		"no completions":    {Type: verbs.XRCSend},
		"with RecvCQ":       {Type: verbs.XRCSend, SendCQ: r.cq, RecvCQ: r.cq},
		"with SRQ":          {Type: verbs.XRCSend, SendCQ: r.cq, SRQ: srq},
		"RC without RecvCQ": {Type: verbs.RC, SendCQ: r.cq},
	} {
		if _, err := r.pd.CreateQP(attr); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("queue pair, %s: %v", name, err)
		}
	}
}

func TestXRCInitiator(t *testing.T) {
	r := newXRCRig(t)
	q := must(r.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCSend, SendCQ: r.cq, Cap: verbs.QPCap{MaxSendWR: 16}}))(t)
	if c := q.Cap(); c.MaxRecvWR != 0 || c.MaxRecvSGE != 0 || c.MaxSendWR != 16 {
		t.Errorf("capacities %+v", c)
	}
	if err := q.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := q.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("receive at an initiator: %v", err)
	}
	word := []verbs.SGE{{Length: 8}}
	for _, tt := range []struct {
		wr verbs.SendWR
		ok bool
	}{
		{verbs.SendWR{Opcode: verbs.OpSend, RemoteSRQN: 0xFFFFFF}, true},
		{verbs.SendWR{Opcode: verbs.OpSend, RemoteSRQN: 0x1000000}, false},
		{verbs.SendWR{Opcode: verbs.OpSendWithInv, RemoteSRQN: 1}, true},
		{verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, RemoteSRQN: 2}, true},
		{verbs.SendWR{Opcode: verbs.OpRDMARead, RemoteSRQN: 3}, true},
		{verbs.SendWR{Opcode: verbs.OpAtomicFetchAdd, SGList: word, RemoteSRQN: 4}, true},
		{verbs.SendWR{Opcode: verbs.OpAtomicWrite, SGList: word}, false},
		{verbs.SendWR{Opcode: verbs.OpFlush, FlushPlacement: verbs.FlushGlobal}, false},
	} {
		r.f.qps[0].seen = nil
		err := q.PostSend(&tt.wr)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%v to queue %#x: %v", tt.wr.Opcode, tt.wr.RemoteSRQN, err)
		}
		if tt.ok && r.f.qps[0].seen[0].SRQN != tt.wr.RemoteSRQN {
			t.Errorf("%v has the number %#x, want %#x", tt.wr.Opcode, r.f.qps[0].seen[0].SRQN, tt.wr.RemoteSRQN)
		}
	}
	if err := errors.Join(q.Destroy(), r.cq.Destroy()); err != nil {
		t.Error(err)
	}
}

func TestXRCDomainsEndWithTheDevice(t *testing.T) {
	r := newXRCRig(t)
	s := must(r.pd.CreateSRQ(&verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: r.d, CQ: r.cq}))(t)
	q := must(r.d.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv}))(t)
	if err := r.c.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.f.xrcds) != 0 || r.f.cqs != 0 || !r.f.srqs[0].gone {
		t.Errorf("left: domains %v, %d completion queues", r.f.xrcds, r.f.cqs)
	}
	if err := errors.Join(q.Destroy(), s.Destroy(), r.d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.c.OpenXRCD(nil); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("open on a closed device: %v", err)
	}
	if _, err := r.d.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("target on a closed device: %v", err)
	}
}
