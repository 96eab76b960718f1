package datapath

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const everything = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic

// processMemory is that of this process.
func processMemory(t *testing.T) *ProcessMemory {
	t.Helper()
	f, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return NewProcessMemory(int(f.Fd()))
}

// TestProcessMemory: what is there is copied whole, and what is not is an error.
func TestProcessMemory(t *testing.T) {
	m := processMemory(t)
	b := anonymous(t)
	page := os.Getpagesize()
	at := memory.AddressOf(b)
	want := make([]byte, 2*page)
	verbstest.Fill(want, 1)
	must(t, m.WriteAt(want, at+3))
	if !bytes.Equal(b[3:3+len(want)], want) {
		t.Error("what was written is not there")
	}
	got := make([]byte, len(want))
	must(t, m.ReadAt(got, at+3))
	if !bytes.Equal(got, want) {
		t.Error("what was read is not what is there")
	}
	must(t, unix.Mprotect(b[page:2*page], unix.PROT_NONE))
	must(t, m.ReadAt(nil, 1))
	for name, err := range map[string]error{
		"read of nothing":   m.ReadAt(got[:8], 8),
		"write to nothing":  m.WriteAt(got[:8], 8),
		"read past the end": m.ReadAt(got[:8], 1<<63),
		"closed descriptor": NewProcessMemory(-1).ReadAt(got[:8], at),
	} {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

// TestIndirectRegion: every operation on memory that is reached through /proc, but for
// atomics, and the end of the region when the memory is gone.
func TestIndirectRegion(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := newRig(t, rigOptions{})
		c, ctx := client(t, r.a, &ClientConfig{Name: "one"})
		p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{})
		must(t, err)
		m, pd := processMemory(t), c.anyPD()
		b, err := unix.Mmap(-1, 0, 4*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		must(t, err)
		register := func(access ibv.Access) (verbs.ProviderMR, error) {
			if all {
				return c.RegisterAll(pd, m, access)
			}
			return c.RegisterIndirect(pd, memory.AddressOf(b), uint64(len(b)), m, access)
		}
		if _, err := register(everything); !errors.Is(err, memory.ErrAccess) {
			t.Errorf("all %v: remote atomics: %v, want ErrAccess", all, err)
		}
		mr, err := register(everything &^ ibv.AccessRemoteAtomic)
		must(t, err)
		sge := verbs.SGE{Addr: memory.AddressOf(b) + 1, Length: 10_001, LKey: mr.LKey}
		run := func(from *verbstest.End, wr verbs.SendWR) verbs.WCStatus {
			t.Helper()
			must(t, from.Post(wr))
			wc, err := from.Next()
			must(t, err)
			return wc.Status
		}
		verbstest.Fill(b, 7)
		there := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{sge}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
		if s := run(p.A, there); s != verbs.WCSuccess || !bytes.Equal(p.B.Buf[:sge.Length], b[1:1+sge.Length]) {
			t.Errorf("all %v: WRITE from the region: %v", all, s)
		}
		want := bytes.Clone(p.B.Buf[:sge.Length])
		clear(b)
		here := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.B.MR.SGE(0, int(sge.Length))}, RemoteAddr: sge.Addr, RKey: mr.RKey}
		if s := run(p.B, here); s != verbs.WCSuccess || !bytes.Equal(b[1:1+sge.Length], want) {
			t.Errorf("all %v: WRITE to the region: %v", all, s)
		}
		clear(b)
		back := there
		back.Opcode = verbs.OpRDMARead
		if s := run(p.A, back); s != verbs.WCSuccess || !bytes.Equal(b[1:1+sge.Length], want) {
			t.Errorf("all %v: READ into the region: %v", all, s)
		}
		if err := c.AdviseMemory(pd, ibv.AdvisePrefetchWrite, []verbs.SGE{sge}); err != nil {
			t.Errorf("all %v: prefetch: %v", all, err)
		}
		must(t, unix.Munmap(b))
		if s := run(p.A, there); s != verbs.WCLocalProtection {
			t.Errorf("all %v: memory that is gone: %v", all, s)
		}
		if valid := c.memoryOf(mr).Valid(); valid != all {
			t.Errorf("all %v: the region is valid: %v", all, valid)
		}
		must(t, c.DeregisterMemory(mr))
	}
}

// TestReregisterClientMemory: a region goes from one kind of memory to another, and
// what counts for the client goes along.
func TestReregisterClientMemory(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, _ := client(t, r.a, &ClientConfig{Name: "one", Limits: Limits{Bytes: 8192}})
	pd, err := c.AllocPD()
	must(t, err)
	b, m := anonymous(t), processMemory(t)
	mr, err := c.RegisterShared(pd, 0x5000, b[:4096], ibv.AccessLocalWrite)
	must(t, err)
	if mr.Addr != 0x5000 {
		t.Errorf("it begins at %#x", mr.Addr)
	}
	moved := &verbs.ProviderRereg{Flags: ibv.ReregTranslation}
	atomics := &verbs.ProviderRereg{Flags: ibv.ReregAccess, Access: everything}
	check := func(what string, bytes uint64, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if u := c.Usage(); u.Bytes != bytes || u.MRs != 1 {
			t.Errorf("%s: %d bytes of %d regions count, want %d", what, u.Bytes, u.MRs, bytes)
		}
	}
	_, err = c.ReregisterIndirect(mr, moved, 0x9000, 8193, m)
	check("more than may be", 4096, err, ErrLimit)
	_, err = c.ReregisterIndirect(mr, moved, 0x9000, 100, nil)
	check("memory that nothing reaches", 4096, err, ErrInvalid)
	again, err := c.ReregisterIndirect(mr, moved, memory.AddressOf(b), 8192, m)
	check("to indirect", 8192, err, nil)
	if again.LKey == mr.LKey || again.Addr != memory.AddressOf(b) {
		t.Errorf("%+v, before %+v", again, mr)
	}
	_, err = c.ReregisterIndirect(again, atomics, 0, 0, nil)
	check("atomics on indirect memory", 8192, err, memory.ErrAccess)
	again, err = c.ReregisterShared(again, moved, 0x7000, b[:100])
	check("to shared", 100, err, nil)
	_, err = c.ReregisterShared(again, atomics, 0, nil)
	check("atomics on shared memory", 100, err, nil)
	if got := c.memoryOf(again); got.Slice(0x7000, 8) != nil || !got.Atomic(0x7000) {
		t.Error("memory that may go away is taken for memory that stays")
	}
	must(t, c.DeregisterMemory(again))
}
