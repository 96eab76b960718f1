package serve

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// kit is one object of each kind.
type kit struct {
	pd     proto.PD
	cq     proto.CQReply
	qp     proto.QPReply
	srq    proto.SRQReply
	buffer proto.AllocBufferReply
	mr     proto.MRReply
	mw     proto.MWReply
	fast   proto.MRReply
	ah     proto.AH
	xrcd   proto.XRCD
}

const (
	sharedAddr = 0x7f00_0000_0000 // where the client says that its buffer is
	bufferSize = 1 << 16
)

// makeKit makes one object of each kind.
func makeKit(w *raw) *kit {
	w.t.Helper()
	k := &kit{}
	none := &proto.Empty{}
	w.must(proto.OpAllocPD, none, &k.pd)
	w.must(proto.OpCreateCQ, &proto.CreateCQ{Entries: 100}, &k.cq)
	w.must(proto.OpCreateQP, qpOf(k, ibv.QPTypeRC), &k.qp)
	w.must(proto.OpCreateSRQ, &proto.CreateSRQ{PD: k.pd.PD, Attr: proto.SRQAttr{MaxWR: 10, MaxSGE: 2, Limit: 3}}, &k.srq)
	w.must(proto.OpAllocBuffer, &proto.AllocBuffer{Size: bufferSize}, &k.buffer)
	w.must(proto.OpRegMR, sharedMR(k), &k.mr)
	w.must(proto.OpAllocMW, &proto.AllocMW{PD: k.pd.PD, Type: 1}, &k.mw)
	w.must(proto.OpAllocFastMR, &proto.AllocFastMR{PD: k.pd.PD, Limit: 4096}, &k.fast)
	w.must(proto.OpCreateAH, &proto.CreateAH{PD: k.pd.PD, AV: proto.AddressVector{DGID: ibv.GIDOf(peerAddr), Port: 1}}, &k.ah)
	w.must(proto.OpOpenXRCD, &proto.OpenXRCD{}, &k.xrcd)
	return k
}

func qpOf(k *kit, typ ibv.QPType) *proto.CreateQP {
	return &proto.CreateQP{
		PD: k.pd.PD, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint8(typ),
		Cap: proto.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64},
	}
}

const allRights = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic | ibv.AccessMWBind

func sharedMR(k *kit) *proto.RegMR {
	return &proto.RegMR{
		Addr: sharedAddr, Length: bufferSize, Segment: k.buffer.Span.Segment, Offset: k.buffer.Span.Offset, PD: k.pd.PD,
		Access: uint32(allRights), Memory: proto.MemoryShared,
	}
}

// destroy destroys it all, in an order that works.
func (k *kit) destroy(w *raw) {
	w.t.Helper()
	w.must(proto.OpDestroyQP, &proto.Handle{Handle: k.qp.Handle}, nil)
	w.must(proto.OpDestroySRQ, &proto.Handle{Handle: k.srq.Handle}, nil)
	w.must(proto.OpDestroyCQ, &proto.Handle{Handle: k.cq.Handle}, nil)
	w.must(proto.OpDeallocMW, &proto.Handle{Handle: k.mw.Handle}, nil)
	w.must(proto.OpDeallocFast, &proto.Handle{Handle: k.fast.Handle}, nil)
	w.must(proto.OpDeregMR, &proto.Handle{Handle: k.mr.Handle}, nil)
	w.must(proto.OpFreeBuffer, &proto.Handle{Handle: k.buffer.Handle}, nil)
	w.must(proto.OpDestroyAH, &k.ah, nil)
	w.must(proto.OpCloseXRCD, &k.xrcd, nil)
	w.must(proto.OpDeallocPD, &k.pd, nil)
}

// mapped maps a segment of the client.
func (w *raw) mapped(span proto.Span) []byte {
	w.t.Helper()
	var rep proto.MapSegmentReply
	w.must(proto.OpMapSegment, &proto.MapSegment{Segment: span.Segment}, &rep)
	if len(w.fds) != 1 {
		w.t.Fatalf("%d descriptors of a segment", len(w.fds))
	}
	m, err := shm.Open(w.fds.Take(0), rep.Size, false)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return m.Bytes()[span.Offset : span.Offset+span.Size]
}

func (w *raw) ring(span proto.Span) *queue.Ring {
	w.t.Helper()
	r, err := queue.Open(w.mapped(span))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestObjects(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	before := usage(t, r)
	k := makeKit(w)
	for _, tt := range []struct {
		name          string
		span          proto.Span
		entries, elem int
	}{
		{"completion queue", k.cq.Ring, 128, queue.CQESize},
		{"send queue", k.qp.SQ, 16, queue.SendElemSize(2, 64)},
		{"receive queue", k.qp.RQ, 16, queue.RecvElemSize(2)},
		{"shared receive queue", k.srq.Ring, 16, queue.RecvElemSize(2)},
	} {
		if g := w.ring(tt.span); g.Entries() != tt.entries || g.ElemSize() != tt.elem {
			t.Errorf("%s: %d elements of %d bytes, want %d of %d", tt.name, g.Entries(), g.ElemSize(), tt.entries, tt.elem)
		}
	}
	if k.mr.Addr != sharedAddr || k.mr.LKey == 0 || k.qp.QPN < 2 {
		t.Errorf("region %+v, queue pair %+v", k.mr, k.qp)
	}
	want := datapath.Usage{PDs: 1, MRs: 3, CQs: 1, QPs: 1, SRQs: 1, AHs: 1, XRCDs: 1, Bytes: bufferSize}
	if d := cmp.Diff(want, usage(t, r)); d != "" {
		t.Errorf("usage (-want +got):\n%s", d)
	}
	k.destroy(w)
	if d := cmp.Diff(before, usage(t, r)); d != "" {
		t.Errorf("after all is destroyed (-want +got):\n%s", d)
	}
	if used, _ := shared(r); used != 0 {
		t.Errorf("%d bytes of shared memory are in use", used)
	}
}

// usage is what the only client has.
func usage(t testing.TB, r *rig) datapath.Usage {
	t.Helper()
	list := r.srv.Snapshot("")
	if len(list) != 1 {
		t.Fatalf("%d clients", len(list))
	}
	return list[0].Usage
}

// shared is the memory that is shared with the only client.
func shared(r *rig) (used, total int64) { return r.srv.of(nil)[0].opened().mem.Bytes() }

// A handle of another kind, of another client, or of what is gone, names nothing.
func TestHandles(t *testing.T) {
	r := newRig(t, Config{})
	w, other := r.open(t), r.open(t)
	k := makeKit(w)
	theirs := makeKit(other)
	var gone proto.AllocBufferReply
	w.must(proto.OpAllocBuffer, &proto.AllocBuffer{Size: 1}, &gone)
	w.must(proto.OpFreeBuffer, &proto.Handle{Handle: gone.Handle}, nil)
	handles := map[string]uint64{
		"queue pair": k.qp.Handle, "completion queue": k.cq.Handle, "shared receive queue": k.srq.Handle, "region": k.mr.Handle,
		"window": k.mw.Handle, "fast region": k.fast.Handle, "buffer": k.buffer.Handle, "nothing": 0, "no longer there": gone.Handle,
		"largest": ^uint64(0), "next queue pair": k.qp.Handle + 1,
	}
	for _, tt := range []struct {
		kind string
		ops  []proto.Op
	}{
		{"queue pair", []proto.Op{proto.OpQueryQP, proto.OpDestroyQP}},
		{"completion queue", []proto.Op{proto.OpQueryCQ, proto.OpDestroyCQ}},
		{"shared receive queue", []proto.Op{proto.OpQuerySRQ, proto.OpDestroySRQ}},
		{"region", []proto.Op{proto.OpDeregMR}},
		{"window", []proto.Op{proto.OpDeallocMW}},
		{"fast region", []proto.Op{proto.OpDeallocFast}},
		{"buffer", []proto.Op{proto.OpFreeBuffer}},
	} {
		for _, op := range tt.ops {
			for kind, h := range handles {
				if kind != tt.kind {
					w.refused(proto.StatusInvalid, op, &proto.Handle{Handle: h})
				}
			}
		}
	}
	// Two clients have the same handles for different things.
	w.must(proto.OpDestroyQP, &proto.Handle{Handle: k.qp.Handle}, nil)
	other.must(proto.OpQueryQP, &proto.Handle{Handle: theirs.qp.Handle}, &proto.QPAttr{})
	// Numbers that the device gives out differ, and are not shared.
	for _, tt := range []struct {
		name string
		op   proto.Op
		req  any
	}{
		{"protection domain", proto.OpDeallocPD, &theirs.pd},
		{"address handle", proto.OpDestroyAH, &theirs.ah},
		{"XRC domain", proto.OpCloseXRCD, &theirs.xrcd},
		{"queue pair in another's domain", proto.OpCreateQP, func() any { q := qpOf(k, ibv.QPTypeRC); q.PD = theirs.pd.PD; return q }()},
		{"region in another's domain", proto.OpRegMR, func() any { m := sharedMR(k); m.PD = theirs.pd.PD; return m }()},
		{"handle in another's domain", proto.OpCreateAH, &proto.CreateAH{PD: theirs.pd.PD, AV: proto.AddressVector{DGID: ibv.GIDOf(peerAddr), Port: 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			w.refused(proto.StatusInvalid, tt.op, tt.req)
		})
	}
}

// What is in use cannot be destroyed.
func TestBusy(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	k := makeKit(w)
	w.refused(proto.StatusBusy, proto.OpDestroyCQ, &proto.Handle{Handle: k.cq.Handle})
	w.refused(proto.StatusBusy, proto.OpDeallocPD, &k.pd)
	with := qpOf(k, ibv.QPTypeRC)
	with.SRQ = k.srq.Handle
	var q proto.QPReply
	w.must(proto.OpCreateQP, with, &q)
	if q.RQ != (proto.Span{}) || q.Cap.MaxRecvWR != 0 {
		t.Errorf("a queue pair with an SRQ has a receive queue: %+v", q)
	}
	w.refused(proto.StatusBusy, proto.OpDestroySRQ, &proto.Handle{Handle: k.srq.Handle})
	w.must(proto.OpDestroyQP, &proto.Handle{Handle: q.Handle}, nil)
	w.refused(proto.StatusInvalid, proto.OpDestroyQP, &proto.Handle{Handle: q.Handle})
	k.destroy(w)
}

func TestLimits(t *testing.T) {
	lim := Limits{QPs: 1, CQs: 1, SRQs: 1, MRs: 3, PDs: 1, AHs: 1, XRCDs: 1, Groups: 1, CMIDs: 1, Memory: 4 << 20, Registered: bufferSize}
	r := newRig(t, Config{Policy: func(Cred) (Limits, error) { return lim, nil }})
	w := r.open(t)
	k := makeKit(w)
	for range 2 { // what was refused has left nothing
		w.refused(proto.StatusLimit, proto.OpAllocPD, &proto.Empty{})
		w.refused(proto.StatusLimit, proto.OpCreateCQ, &proto.CreateCQ{Entries: 1})
		w.refused(proto.StatusLimit, proto.OpCreateQP, qpOf(k, ibv.QPTypeUD))
		w.refused(proto.StatusLimit, proto.OpCreateSRQ, &proto.CreateSRQ{PD: k.pd.PD, Attr: proto.SRQAttr{MaxWR: 1, MaxSGE: 1}})
		w.refused(proto.StatusLimit, proto.OpRegMR, sharedMR(k))
		w.refused(proto.StatusLimit, proto.OpAllocMW, &proto.AllocMW{PD: k.pd.PD, Type: 2})
		w.refused(proto.StatusLimit, proto.OpAllocFastMR, &proto.AllocFastMR{PD: k.pd.PD, Limit: 1})
		w.refused(proto.StatusLimit, proto.OpCreateAH, &proto.CreateAH{PD: k.pd.PD, AV: proto.AddressVector{DGID: ibv.GIDOf(peerAddr), Port: 1}})
		w.refused(proto.StatusLimit, proto.OpOpenXRCD, &proto.OpenXRCD{})
		w.refused(proto.StatusLimit, proto.OpAllocBuffer, &proto.AllocBuffer{Size: 8 << 20})
	}
	k.destroy(w)
	makeKit(w).destroy(w)
	var a proto.DeviceAttr
	w.must(proto.OpQueryDevice, &proto.Empty{}, &a)
	if a.MaxQP != 1 || a.MaxPD != 1 || a.MaxMRSize != bufferSize || a.MaxMcastTotal != 1 {
		t.Errorf("the device tells of %d queue pairs, %d domains, regions of %d bytes, %d attachments", a.MaxQP, a.MaxPD, a.MaxMRSize, a.MaxMcastTotal)
	}
	var ud kit
	w.must(proto.OpAllocPD, &proto.Empty{}, &ud.pd)
	w.must(proto.OpCreateCQ, &proto.CreateCQ{Entries: 1}, &ud.cq)
	w.must(proto.OpCreateQP, qpOf(&ud, ibv.QPTypeUD), &ud.qp)
	group := func(last byte) *proto.Mcast {
		return &proto.Mcast{Handle: ud.qp.Handle, Group: ibv.GIDOf(netip.AddrFrom4([4]byte{239, 1, 2, last}))}
	}
	w.must(proto.OpAttachMcast, group(1), nil)
	w.refused(proto.StatusLimit, proto.OpAttachMcast, group(2))
}

// All that a client had is gone when it is, and when it has opened nothing too.
func TestNothingIsLeft(t *testing.T) {
	r := newRig(t, Config{})
	cycle := func() {
		w := r.open(t)
		makeKit(w)
		makeKit(w)
		mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.must(proto.OpSetMemory, &proto.Empty{}, nil, int(mem.Fd()))
		w.must(proto.OpCMOpen, &proto.Empty{}, nil)
		w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: 0x0106, Type: uint32(ibv.QPTypeRC)}, &proto.CMID{})
		w.close()
		r.greet(t).close()
		r.dial(t).close()
		if err := mem.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	waitFor(t, "the end of the sessions", func() bool { return len(r.srv.Snapshot("")) == 0 })
	before := openFiles(t)
	for range 20 {
		cycle()
	}
	waitFor(t, "the end of the sessions", func() bool { return len(r.srv.Snapshot("")) == 0 })
	waitFor(t, "as many descriptors as before", func() bool { return openFiles(t) <= before })
}
