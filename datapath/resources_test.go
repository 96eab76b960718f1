package datapath

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestResources(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	c, ctx := client(t, r.a, &ClientConfig{Name: "one"})
	p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{})
	must(t, err)
	must(t, p.Write(100, false))
	pd, err := r.a.AllocPD()
	must(t, err)
	s, err := r.a.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 7, MaxSGE: 1}})
	must(t, err)
	got, err := r.a.Resources()
	must(t, err)
	if len(got.Clients) != 2 || got.Clients[0].Client != r.a.root || got.Clients[1].Client != c || len(got.QPs) != 1 || len(got.MRs) != 1 {
		t.Fatalf("%+v", got)
	}
	q, err := p.A.QP.Query()
	must(t, err)
	cqn := got.CQs[0].CQN
	want := Resources{
		Clients: []ClientResource{{Client: r.a.root, Usage: Usage{PDs: 1, SRQs: 1}},
			{Client: c, Usage: Usage{PDs: 1, MRs: 1, CQs: 1, QPs: 1, Bytes: uint64(len(p.A.Buf))}}},
		PDs: []PDResource{{PDN: pd - 1, Client: c, Objects: 2}, {PDN: pd, Client: r.a.root, Objects: 1}},
		CQs: []CQResource{{CQN: cqn, Client: c, Entries: p.A.CQ.Size(), Users: 1}},
		QPs: []QPResource{{QPN: p.A.QP.Num(), Client: c, Type: ibv.QPTypeRC, PDN: pd - 1, Worker: got.QPs[0].Worker, SendCQN: cqn, RecvCQN: cqn, Attr: got.QPs[0].Attr}},
		MRs: []MRResource{{Handle: 1, Client: c, LKey: p.A.MR.LKey(), RKey: p.A.MR.RKey(), Addr: p.A.MR.Addr(), Len: uint64(len(p.A.Buf)),
			PDN: pd - 1, Access: got.MRs[0].Access, Valid: true}},
		SRQs: []SRQResource{{Client: r.a.root, PDN: pd, MaxWR: 7}},
	}
	if a := got.QPs[0].Attr; a.State != ibv.QPStateRTS || a.DestQPN != p.B.QP.Num() || a.SQPSN != q.SQPSN {
		t.Errorf("queue pair %+v", a)
	}
	if sent := got.Clients[1]; sent.Packets == 0 || sent.Bytes < 100*sent.Packets/2 {
		t.Errorf("sent %d packets, %d bytes", sent.Packets, sent.Bytes)
	}
	got.Clients[1].Packets, got.Clients[1].Bytes = 0, 0
	same := cmp.Comparer(func(a, b *Client) bool { return a == b })
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	must(t, s.Destroy())
	must(t, r.a.Close())
	if _, err := r.a.Resources(); !errors.Is(err, ErrClosed) {
		t.Errorf("resources of a device that is closed: %v", err)
	}
}
