package datapath

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// implicitPair is a pair with an implicit region at each end.
func implicitPair(t *testing.T) (r *rig, p *verbstest.Pair, a, b *verbs.MR) {
	t.Helper()
	r = newRig(t, rigOptions{})
	if attr, err := r.ca.QueryDevice(); err != nil || !attr.ODP.Implicit {
		t.Fatalf("no implicit regions: %v, %v", err, selfReachable())
	}
	p = r.pair(verbstest.Options{})
	var mrs [2]*verbs.MR
	for i, e := range []*verbstest.End{p.A, p.B} {
		mr, err := e.PD.RegisterImplicit(verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := mr.Deregister(); err != nil {
				t.Error(err)
			}
		})
		mrs[i] = mr
	}
	return r, p, mrs[0], mrs[1]
}

// TestImplicitReachesAnything: memory of the heap, of mappings, of others' buffers,
// in all operations and both directions, with nothing registered but the implicit
// regions.
func TestImplicitReachesAnything(t *testing.T) {
	_, p, a, b := implicitPair(t)
	src, dst := make([]byte, 10_000), anonymous(t)
	var pin runtime.Pinner
	pin.Pin(&src[0])
	defer pin.Unpin()
	verbstest.Fill(src, 3)
	n := len(src)
	remote := b.SGEOf(dst)
	for _, step := range []struct {
		op   verbs.Opcode
		wc   verbs.WCOpcode
		into []byte
	}{
		{verbs.OpRDMAWrite, verbs.WCRDMAWrite, dst}, {verbs.OpSend, verbs.WCSend, dst}, {verbs.OpRDMARead, verbs.WCRDMARead, src},
	} {
		from := src
		if step.op == verbs.OpRDMARead {
			from = dst
		}
		clear(step.into[:n])
		verbstest.Fill(from[:n], uint64(step.op))
		want := bytes.Clone(from[:n])
		if step.op == verbs.OpSend {
			if err := p.B.QP.PostRecv(&verbs.RecvWR{WRID: 2, SGList: []verbs.SGE{b.SGEOf(dst)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: step.op, SGList: []verbs.SGE{a.SGEOf(src)},
			RemoteAddr: remote.Addr, RKey: b.RKey()}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.A.Done(1, step.wc); err != nil {
			t.Fatalf("%v: %v", step.op, err)
		}
		if !bytes.Equal(step.into[:n], want) {
			t.Errorf("%v: other bytes", step.op)
		}
	}
}

// TestImplicitMissesSafely: what is not mapped, cannot be an address, or must not be
// written, is an error of the peer that has named it.
func TestImplicitMissesSafely(t *testing.T) {
	readOnly, restore := missing["hole"](t)
	defer restore()
	page := uint64(os.Getpagesize())
	base := memory.AddressOf(readOnly)
	code := uint64(codeAddress())
	for _, tt := range []struct {
		name string
		op   verbs.Opcode
		addr uint64
		want verbs.WCStatus
	}{
		{"write to nothing", verbs.OpRDMAWrite, 0, verbs.WCRemoteAccess},
		{"read from nothing", verbs.OpRDMARead, 8, verbs.WCRemoteAccess},
		{"write to a hole", verbs.OpRDMAWrite, base + 2*page, verbs.WCRemoteAccess},
		{"write into a hole", verbs.OpRDMAWrite, base + 2*page - 4, verbs.WCRemoteAccess},
		{"read out of a hole", verbs.OpRDMARead, base + 3*page - 4, verbs.WCRemoteAccess},
		{"read what no pointer can be", verbs.OpRDMARead, 0x0123_4567_89ab_cdef, verbs.WCRemoteAccess},
		{"write to memory of the kernel", verbs.OpRDMAWrite, 0xffff_8000_0000_0000, verbs.WCRemoteAccess},
		{"past the end of addresses", verbs.OpRDMARead, 1<<64 - 4, verbs.WCRemoteAccess},
		{"write to code", verbs.OpRDMAWrite, code, verbs.WCRemoteAccess},
		{"read code", verbs.OpRDMARead, code, verbs.WCSuccess},
		{"atomic write", verbs.OpAtomicWrite, base, verbs.WCRemoteOperation},
		{"atomic", verbs.OpAtomicFetchAdd, base, verbs.WCRemoteAccess},
		{"beside the hole", verbs.OpRDMAWrite, base + page, verbs.WCSuccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, p, _, b := implicitPair(t)
			if err := request(tt.op)(p, p.A.MR.SGE(0, 8), tt.addr, b.RKey()); err != nil {
				t.Fatal(err)
			}
			if wc, err := p.A.Next(); err != nil || wc.Status != tt.want {
				t.Errorf("%v, %v; want %v", wc.Status, err, tt.want)
			}
		})
	}
}

func codeAddress() uintptr {
	pc, _, _, _ := runtime.Caller(0)
	return pc &^ 7
}

func TestSelfMemoryDoesNotAllocate(t *testing.T) {
	var m memory.Indirect = selfMemory{os.Getpid()}
	buf, b := anonymous(t), make([]byte, 64)
	at := memory.AddressOf(buf)
	n := testing.AllocsPerRun(100, func() {
		if m.WriteAt(b, at) != nil || m.ReadAt(b, at) != nil || m.ReadAt(nil, at) != nil {
			t.Fatal("refused")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
