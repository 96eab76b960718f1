package serve

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// A snapshot of a kind lists its objects, and counts those of all kinds.
func TestSnapshotOfAKind(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	makeKit(w)
	makeKit(w)
	w.must(proto.OpCMOpen, &proto.Empty{}, nil)
	w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: 0x0106, Type: uint32(ibv.QPTypeRC)}, &proto.CMID{})
	listed := func(kind string) Counts {
		list := r.srv.Snapshot(kind)
		if len(list) != 1 {
			t.Fatalf("%q: %d clients", kind, len(list))
		}
		c := &list[0]
		if got, all := c.Counts, r.srv.Snapshot("")[0].Counts; got != all {
			t.Errorf("%q counts %+v, all %+v", kind, got, all)
		}
		return Counts{PDs: len(c.PDs), QPs: len(c.QPs), CQs: len(c.CQs), SRQs: len(c.SRQs), MRs: len(c.MRs), IDs: len(c.IDs)}
	}
	all := listed("")
	if d := cmp.Diff(r.srv.Snapshot("")[0].Counts, all); d != "" {
		t.Errorf("counted and listed (-counted +listed):\n%s", d)
	}
	if min(all.PDs, all.QPs, all.CQs, all.SRQs, all.MRs, all.IDs) == 0 {
		t.Errorf("the client has not one of each: %+v", all)
	}
	for kind, want := range map[string]Counts{
		"pd": {PDs: all.PDs}, "qp": {QPs: all.QPs}, "cq": {CQs: all.CQs}, "srq": {SRQs: all.SRQs}, "mr": {MRs: all.MRs}, "cm_id": {IDs: all.IDs},
		"client": {},
	} {
		if got := listed(kind); got != want {
			t.Errorf("%q lists %+v, want %+v", kind, got, want)
		}
	}
}
