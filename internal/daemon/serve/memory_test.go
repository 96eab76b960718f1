package serve

import (
	"os"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// handOver hands the process's memory over.
func handOver(w *raw) {
	w.t.Helper()
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer mem.Close()
	w.must(proto.OpSetMemory, &proto.Empty{}, nil, int(mem.Fd()))
}

func TestRegions(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	k := makeKit(w)
	handOver(w)
	shared := func(change func(*proto.RegMR)) *proto.RegMR {
		m := sharedMR(k)
		change(m)
		return m
	}
	indirect := func(change func(*proto.RegMR)) *proto.RegMR {
		m := &proto.RegMR{Addr: 4096, Length: 4096, PD: k.pd.PD, Access: uint32(ibv.AccessLocalWrite), Memory: proto.MemoryIndirect}
		change(m)
		return m
	}
	same := func(*proto.RegMR) {}
	for _, tt := range []struct {
		name string
		m    *proto.RegMR
		want proto.Status
	}{
		{"a buffer", shared(same), proto.StatusOK},
		{"a byte of a buffer", shared(func(m *proto.RegMR) { m.Offset += 9; m.Length = 1 }), proto.StatusOK},
		{"no byte", shared(func(m *proto.RegMR) { m.Length = 0 }), proto.StatusInvalid},
		{"behind the segment", shared(func(m *proto.RegMR) { m.Length = 1 << 40 }), proto.StatusInvalid},
		{"an offset that overflows", shared(func(m *proto.RegMR) { m.Offset = ^uint64(0) }), proto.StatusInvalid},
		{"an address that overflows", shared(func(m *proto.RegMR) { m.Addr = ^uint64(0) - 1 }), proto.StatusInvalid},
		{"up to the last address", shared(func(m *proto.RegMR) { m.Addr = ^uint64(0) - bufferSize + 1 }), proto.StatusOK},
		{"no segment", shared(func(m *proto.RegMR) { m.Segment = 0 }), proto.StatusInvalid},
		{"another segment", shared(func(m *proto.RegMR) { m.Segment = 99 }), proto.StatusInvalid},
		{"memory of queues", shared(func(m *proto.RegMR) { m.Segment, m.Offset, m.Length = k.cq.Ring.Segment, 0, 64 }), proto.StatusInvalid},
		{"write without local write", shared(func(m *proto.RegMR) { m.Access = uint32(ibv.AccessRemoteWrite) }), proto.StatusInvalid},
		{"unknown kind", shared(func(m *proto.RegMR) { m.Memory = 3 }), proto.StatusInvalid},
		{"the process's", indirect(same), proto.StatusOK},
		{"the process's, nothing", indirect(func(m *proto.RegMR) { m.Length = 0 }), proto.StatusInvalid},
		{"the process's, too much", indirect(func(m *proto.RegMR) { m.Length = 1 << 60 }), proto.StatusInvalid},
		{"the process's, atomics", indirect(func(m *proto.RegMR) { m.Access |= uint32(ibv.AccessRemoteAtomic) }), proto.StatusInvalid},
		{"all", indirect(func(m *proto.RegMR) { m.Addr, m.Length, m.Memory = 0, 0, proto.MemoryImplicit }), proto.StatusOK},
		{"all, atomics", indirect(func(m *proto.RegMR) {
			m.Memory, m.Access = proto.MemoryImplicit, uint32(ibv.AccessLocalWrite|ibv.AccessRemoteAtomic)
		}), proto.StatusInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			if tt.want != proto.StatusOK {
				w.refused(tt.want, proto.OpRegMR, tt.m)
				return
			}
			var mr proto.MRReply
			w.must(proto.OpRegMR, tt.m, &mr)
			w.must(proto.OpDeregMR, &proto.Handle{Handle: mr.Handle}, nil)
		})
	}
}

// Without the descriptor, or against the policy, there is no region of the process's
// memory.
func TestProcessMemory(t *testing.T) {
	m := &proto.RegMR{Addr: 4096, Length: 4096, Access: uint32(ibv.AccessLocalWrite), Memory: proto.MemoryIndirect}
	open := func(l Limits) *raw {
		w := newRig(t, Config{Policy: func(Cred) (Limits, error) { return l, nil }}).open(t)
		var pd proto.PD
		w.must(proto.OpAllocPD, &proto.Empty{}, &pd)
		m.PD = pd.PD
		return w
	}
	w := open(Limits{})
	w.refused(proto.StatusProtocol, proto.OpRegMR, m)
	handOver(w)
	w.must(proto.OpRegMR, m, &proto.MRReply{})
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	w.refused(proto.StatusProtocol, proto.OpSetMemory, &proto.Empty{}, int(mem.Fd()))
	readable, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer readable.Close()

	w = open(Limits{})
	for _, f := range []string{"/proc/self/maps", "/dev/null"} {
		other, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		w.refused(proto.StatusInvalid, proto.OpSetMemory, &proto.Empty{}, int(other.Fd()))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	w.refused(proto.StatusInvalid, proto.OpSetMemory, &proto.Empty{}, int(readable.Fd()))

	w = open(Limits{NoIndirect: true})
	w.refused(proto.StatusPermission, proto.OpSetMemory, &proto.Empty{}, int(mem.Fd()))
	w.refused(proto.StatusPermission, proto.OpRegMR, m)
}

func TestRereg(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	k := makeKit(w)
	var other proto.PD
	w.must(proto.OpAllocPD, &proto.Empty{}, &other)
	moved := *sharedMR(k)
	moved.Addr += 1 << 20
	moved.Length /= 2
	all := uint32(ibv.ReregTranslation | ibv.ReregPD | ibv.ReregAccess)
	for _, tt := range []struct {
		name  string
		flags uint32
		m     proto.RegMR
		want  proto.Status
	}{
		{"nothing", 0, moved, proto.StatusInvalid},
		{"unknown flags", 8, moved, proto.StatusInvalid},
		{"flags beyond a byte", 1 << 8, moved, proto.StatusInvalid},
		{"rights that do not fit", uint32(ibv.ReregAccess), proto.RegMR{Access: uint32(ibv.AccessRemoteWrite)}, proto.StatusInvalid},
		{"no such domain", uint32(ibv.ReregPD), proto.RegMR{PD: 99999}, proto.StatusInvalid},
		{"memory that is not there", uint32(ibv.ReregTranslation), proto.RegMR{Addr: 4096, Length: 1, Segment: 77}, proto.StatusInvalid},
		{"no memory", uint32(ibv.ReregTranslation), proto.RegMR{Addr: 4096, Segment: k.buffer.Span.Segment}, proto.StatusInvalid},
		{"to all of the process", uint32(ibv.ReregTranslation), proto.RegMR{Memory: proto.MemoryImplicit}, proto.StatusInvalid},
		{"rights", uint32(ibv.ReregAccess), proto.RegMR{Access: uint32(ibv.AccessLocalWrite)}, proto.StatusOK},
		{"domain", uint32(ibv.ReregPD), proto.RegMR{PD: other.PD}, proto.StatusOK},
		{"all", all, moved, proto.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			req := &proto.ReregMR{Handle: k.mr.Handle, New: tt.m, Flags: tt.flags}
			before := r.srv.Snapshot("")[0].MRs[0]
			if tt.want != proto.StatusOK {
				w.refused(tt.want, proto.OpReregMR, req)
				if now := r.srv.Snapshot("")[0].MRs[0]; now != before {
					t.Errorf("refused, and the region is %+v, was %+v", now, before)
				}
				return
			}
			var mr proto.MRReply
			w.must(proto.OpReregMR, req, &mr)
			now := r.srv.Snapshot("")[0].MRs[0]
			if mr.Handle != k.mr.Handle || mr.LKey != now.LKey || mr.Addr != now.Addr {
				t.Errorf("reply %+v, region %+v", mr, now)
			}
			if tt.flags == all && (now.Addr != moved.Addr || now.Length != moved.Length || now.PD != k.pd.PD || mr.LKey == before.LKey) {
				t.Errorf("%+v", now)
			}
		})
	}
	k.destroy(w)
}

func TestAdvise(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	k := makeKit(w)
	ask := func(count uint32, sge proto.SGE, advice uint32) *proto.AdviseMR {
		return &proto.AdviseMR{PD: k.pd.PD, Count: count, Advice: advice, SGE: [proto.MaxAdvise]proto.SGE{sge}}
	}
	good := proto.SGE{Addr: sharedAddr + 10, Length: bufferSize - 10, LKey: k.mr.LKey}
	w.must(proto.OpAdviseMR, ask(1, good, 0), nil)
	w.must(proto.OpAdviseMR, ask(1, good, 1), nil)
	w.must(proto.OpAdviseMR, ask(0, good, 0), nil)
	w.refused(proto.StatusInvalid, proto.OpAdviseMR, ask(proto.MaxAdvise+1, good, 0))
	w.refused(proto.StatusInvalid, proto.OpAdviseMR, ask(1, good, 256))
	w.refused(proto.StatusInvalid, proto.OpAdviseMR, ask(1, good, 3))
	good.Length++
	w.refused(proto.StatusInvalid, proto.OpAdviseMR, ask(1, good, 0))
}
