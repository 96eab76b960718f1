package verbstest_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// file maps n pages of which the file has only the first.
func (w *world) file(n int) []byte {
	w.Helper()
	page := os.Getpagesize()
	f := get[*os.File](w)(os.CreateTemp(w.TempDir(), ""))
	w.ok(f.Truncate(int64(page)))
	b := get[[]byte](w)(unix.Mmap(int(f.Fd()), 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	w.ok(f.Close())
	w.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			w.Error(err)
		}
	})
	return b
}

// A page that is missing fails what meets it, at its queue pair, and nothing else.
func TestMissingPages(t *testing.T) {
	const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessOnDemand
	page := os.Getpagesize()
	everywhere(t, func(w *world) {
		for _, tc := range []struct {
			name string
			op   verbs.Opcode
			atB  bool
			want verbs.WCStatus
		}{
			{"WRITE from", verbs.OpRDMAWrite, false, verbs.WCLocalProtection},
			{"WRITE to", verbs.OpRDMAWrite, true, verbs.WCRemoteAccess},
			{"READ to", verbs.OpRDMARead, false, verbs.WCLocalProtection},
			{"READ from", verbs.OpRDMARead, true, verbs.WCRemoteAccess},
		} {
			b := w.file(2)
			for _, step := range []struct {
				off  int
				want verbs.WCStatus
			}{{page, tc.want}, {page - 8, verbs.WCSuccess}} {
				p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
				end, other := p.A, p.B
				if tc.atB {
					end, other = p.B, p.A
				}
				mr := get[*verbs.MR](w)(end.PD.RegisterMemory(b, rights))
				local, remote, key := mr.SGE(step.off, 8), other.MR.Addr(), other.MR.RKey()
				if tc.atB {
					local, remote, key = other.MR.SGE(0, 8), mr.Addr()+uint64(step.off), mr.RKey()
				}
				w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: tc.op, SGList: []verbs.SGE{local}, RemoteAddr: remote, RKey: key}))
				if wc := get[verbs.WC](w)(p.A.Next()); wc.Status != step.want {
					w.Errorf("%s offset %d: %v, want %v", tc.name, step.off, wc.Status, step.want)
				}
				w.ok(mr.Deregister())
			}
		}
	})
}

// Advice brings pages, and says of those that it cannot bring what the kernel says.
func TestAdvice(t *testing.T) {
	page := os.Getpagesize()
	everywhere(t, func(w *world) {
		pd := get[*verbs.PD](w)(w.a.AllocPD())
		mr := get[*verbs.MR](w)(pd.RegisterMemory(w.file(2), verbs.AccessLocalWrite|verbs.AccessOnDemand))
		for _, how := range []verbs.Advice{verbs.AdvisePrefetch, verbs.AdvisePrefetchWrite} {
			w.ok(pd.Advise(how, []verbs.SGE{mr.SGE(0, page)}))
			if err := pd.Advise(how, []verbs.SGE{mr.SGE(0, 2*page)}); !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.ENOMEM) {
				w.Errorf("a missing page: %v", err)
			}
		}
		w.ok(pd.Advise(verbs.AdvisePrefetchNoFault, []verbs.SGE{mr.SGE(0, 2*page)}))
		w.ok(mr.Deregister())
	})
}

// Pages of a buffer that the program gives back read as zeros, and traffic goes on.
func TestBufferWithHoles(t *testing.T) {
	everywhere(t, func(w *world) {
		p := verbstest.RCPair(w.T, w.a, w.b, verbstest.Options{})
		verbstest.Fill(p.A.Buf, 5)
		how := unix.MADV_DONTNEED
		if w.remote {
			how = unix.MADV_REMOVE // of shared memory the hole is in the file
		}
		_ = unix.Munlock(p.A.Buf) // locked pages cannot be given back
		w.ok(unix.Madvise(p.A.Buf, how))
		verbstest.Fill(p.B.Buf, 6)
		w.ok(p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 10_000)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
		_, err := p.A.Done(1, verbs.WCRDMAWrite)
		w.ok(err)
		if !bytes.Equal(p.B.Buf[:10_000], make([]byte, 10_000)) {
			w.Error("the hole is not zero")
		}
		w.ok(p.Every(1000, 9000))
	})
}
