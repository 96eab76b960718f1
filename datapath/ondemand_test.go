package datapath

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const pages = 4 // of a buffer below; the third is missing

// missing makes buffers whose third page is not there, each in another way, and a
// function that brings it back.
var missing = map[string]func(*testing.T) (b []byte, restore func()){
	"truncated file": func(t *testing.T) ([]byte, func()) {
		page := os.Getpagesize()
		f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		resize := func(n int) {
			if err := f.Truncate(int64(n * page)); err != nil {
				t.Fatal(err)
			}
		}
		resize(2)
		b, err := unix.Mmap(int(f.Fd()), 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unmap(t, b) })
		return b, func() { resize(pages) }
	},
	"protected page": func(t *testing.T) ([]byte, func()) {
		b := anonymous(t)
		page := os.Getpagesize()
		protect := func(how int) {
			if err := unix.Mprotect(b[2*page:3*page], how); err != nil {
				t.Fatal(err)
			}
		}
		protect(unix.PROT_NONE)
		return b, func() { protect(unix.PROT_READ | unix.PROT_WRITE) }
	},
	"hole": func(t *testing.T) ([]byte, func()) {
		b := anonymous(t)
		page := uintptr(os.Getpagesize())
		hole := uintptr(memory.AddressOf(b)) + 2*page
		call := func(nr, a, b, c, d, e, f uintptr) {
			if _, _, errno := unix.Syscall6(nr, a, b, c, d, e, f); errno != 0 {
				t.Fatal(errno)
			}
		}
		call(unix.SYS_MUNMAP, hole, page, 0, 0, 0, 0)
		return b, func() {
			call(unix.SYS_MMAP, hole, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
		}
	},
}

func anonymous(t *testing.T) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmap(t, b) })
	return b
}

func unmap(t *testing.T, b []byte) {
	if err := unix.Munmap(b); err != nil {
		t.Error(err)
	}
}

// faulty is an operation that meets a page which is not there.
type faulty struct {
	name string
	// post posts it with local memory of A and remote memory of B.
	post func(p *verbstest.Pair, local verbs.SGE, remote uint64, rkey uint32) error
	atB  bool // whose memory is missing
	want verbs.WCStatus
}

func request(op verbs.Opcode) func(*verbstest.Pair, verbs.SGE, uint64, uint32) error {
	return func(p *verbstest.Pair, local verbs.SGE, remote uint64, rkey uint32) error {
		return p.A.Post(verbs.SendWR{WRID: 1, Opcode: op, SGList: []verbs.SGE{local}, RemoteAddr: remote, RKey: rkey})
	}
}

func send(p *verbstest.Pair, local verbs.SGE, remote uint64, rkey uint32) error {
	at := verbs.SGE{Addr: remote, Length: local.Length, LKey: rkey} // which is the L_Key too
	return errors.Join(p.B.QP.PostRecv(&verbs.RecvWR{WRID: 2, SGList: []verbs.SGE{at}}), request(verbs.OpSend)(p, local, remote, rkey))
}

var faults = []faulty{
	{"SEND from", send, false, verbs.WCLocalProtection},
	{"SEND to", send, true, verbs.WCRemoteOperation},
	{"WRITE from", request(verbs.OpRDMAWrite), false, verbs.WCLocalProtection},
	{"WRITE to", request(verbs.OpRDMAWrite), true, verbs.WCRemoteAccess},
	{"READ from", request(verbs.OpRDMARead), true, verbs.WCRemoteAccess},
	{"READ to", request(verbs.OpRDMARead), false, verbs.WCLocalProtection},
	{"FETCH_ADD on", request(verbs.OpAtomicFetchAdd), true, verbs.WCRemoteOperation},
	{"CMP_SWP on", request(verbs.OpAtomicCmpAndSwp), true, verbs.WCRemoteOperation},
	{"ATOMIC_WRITE on", request(verbs.OpAtomicWrite), true, verbs.WCRemoteOperation},
	{"result of FETCH_ADD to", request(verbs.OpAtomicFetchAdd), false, verbs.WCLocalProtection},
}

// TestMissingPages: each operation that meets a page which is not there fails at
// its queue pair alone; the region serves others, and all when the page is back.
func TestMissingPages(t *testing.T) {
	for how, make := range missing {
		t.Run(how, func(t *testing.T) {
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					r := newRig(t, rigOptions{})
					b, restore := make(t)
					page := os.Getpagesize()
					// A failed queue pair is of no more use, the region is.
					for _, step := range []struct {
						name string
						off  int
						want verbs.WCStatus
					}{{"missing", 2 * page, f.want}, {"beside it", page, verbs.WCSuccess}, {"back again", 2 * page, verbs.WCSuccess}} {
						if step.name == "back again" {
							restore()
						}
						if got := f.run(t, r, b, step.off); got != step.want {
							t.Errorf("%s: %v, want %v", step.name, got, step.want)
						}
					}
				})
			}
		})
	}
}

// run runs the operation with a new pair, offset off of b at the one end, and sound
// memory at the other, and returns how it ends.
func (f *faulty) run(t *testing.T, r *rig, b []byte, off int) verbs.WCStatus {
	t.Helper()
	p := r.pair(verbstest.Options{})
	end, other := p.A, p.B
	if f.atB {
		end, other = p.B, p.A
	}
	mr, err := end.PD.RegisterMemory(b, verbstest.All|verbs.AccessOnDemand)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mr.Deregister(); err != nil {
			t.Error(err)
		}
	})
	local, remote, rkey := mr.SGE(off, 8), other.MR.Addr(), other.MR.RKey()
	if f.atB {
		local, remote, rkey = other.MR.SGE(0, 8), mr.Addr()+uint64(off), mr.RKey()
	}
	if err := f.post(p, local, remote, rkey); err != nil {
		t.Fatal(err)
	}
	wc, err := p.A.Next()
	if err != nil {
		t.Fatal(err)
	}
	return wc.Status
}

// TestDontNeed: pages that the program has given back read as zeros, and that is no
// fault.
func TestDontNeed(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	b := anonymous(t)
	for i := range b {
		b[i] = 7
	}
	mr, err := p.A.PD.RegisterMemory(b, verbstest.All|verbs.AccessOnDemand)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := mr.Deregister(); err != nil {
			t.Error(err)
		}
	}()
	if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	p.B.Buf[0] = 1
	if err := request(verbs.OpRDMAWrite)(p, mr.SGE(5, 8), p.B.MR.Addr(), p.B.MR.RKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil || !bytes.Equal(p.B.Buf[:8], zeros(8)) {
		t.Errorf("%v, received % x", err, p.B.Buf[:8])
	}
}

func zeros(n int) []byte { return make([]byte, n) }

func TestAdvise(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd, err := r.ca.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	b, restore := missing["truncated file"](t)
	mr, err := pd.RegisterMemory(b, verbs.AccessOnDemand)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for _, tt := range []struct {
		name   string
		advice verbs.Advice
		sge    verbs.SGE
		want   error
	}{
		{"there", verbs.AdvisePrefetch, mr.SGE(1, 2*page-1), nil},
		{"nothing", verbs.AdvisePrefetch, verbs.SGE{Addr: mr.Addr(), LKey: mr.LKey()}, nil},
		{"missing", verbs.AdvisePrefetch, mr.SGE(page, page+1), unix.EFAULT},
		{"missing, but no fault is to be taken", verbs.AdvisePrefetchNoFault, mr.SGE(page, page+1), nil},
		{"not to be written", verbs.AdvisePrefetchWrite, mr.SGE(0, 8), verbs.ErrInvalid},
		{"outside", verbs.AdvisePrefetch, mr.SGE(pages*page-7, 8), verbs.ErrInvalid},
		{"wrong key", verbs.AdvisePrefetchNoFault, verbs.SGE{Addr: mr.Addr(), Length: 8, LKey: mr.LKey() ^ 0x100}, verbs.ErrInvalid},
	} {
		if err := pd.Advise(tt.advice, []verbs.SGE{tt.sge}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	restore()
	if err := mr.Rereg(verbs.ReregAccess, nil, nil, verbs.AccessOnDemand|verbs.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	if err := pd.Advise(verbs.AdvisePrefetchWrite, []verbs.SGE{mr.SGE(0, pages*page)}); err != nil {
		t.Error(err)
	}
	if err := r.a.AdviseMemory(1, ibv.Advice(9), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown advice: %v", err)
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
}
