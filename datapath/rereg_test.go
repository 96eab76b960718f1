package datapath

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestReregWhileWritten: while a peer writes, the region moves to other memory. When
// Rereg has returned nothing reaches the old memory any more, and the old key is
// worth nothing.
func TestReregWhileWritten(t *testing.T) {
	for _, queues := range []int{1, 2} {
		r := newRig(t, rigOptions{queues: queues, crossed: true})
		for range 10 {
			p := r.pair(verbstest.Options{BufferSize: 1 << 16})
			addr, key := p.B.MR.Addr(), p.B.MR.RKey()
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					p.A.Buf[0] = byte(i)
					if err := request(verbs.OpRDMAWrite)(p, p.A.MR.SGE(0, 1<<15), addr, key); err != nil {
						return
					}
					wc, err := p.A.Next()
					if err != nil || wc.Status != verbs.WCSuccess {
						if wc.Status != verbs.WCRemoteAccess {
							t.Errorf("%v, %v", wc.Status, err)
						}
						return // the key is invalid, as it should be
					}
				}
			})
			time.Sleep(time.Millisecond)
			next := make([]byte, 1<<16)
			if err := p.B.MR.Rereg(verbs.ReregTranslation, nil, next, 0); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(p.B.Buf)
			wg.Wait()
			if !bytes.Equal(before, p.B.Buf) {
				t.Fatal("the old memory changed")
			}
			if !bytes.Equal(next, zeros(len(next))) {
				t.Fatal("the old key reached the new memory")
			}
		}
	}
}

// TestReregKeepsServing: with other rights the key stays, and what is still granted
// goes on without a gap.
func TestReregKeepsServing(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	p := r.pair(verbstest.Options{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			p.A.Buf[0] = byte(i)
			err := request(verbs.OpRDMAWrite)(p, p.A.MR.SGE(0, 8), p.B.MR.Addr(), p.B.MR.RKey())
			if err == nil {
				_, err = p.A.Done(1, verbs.WCRDMAWrite)
			}
			if err != nil {
				t.Errorf("write %d: %v", i, err)
				return
			}
		}
	})
	key := p.B.MR.RKey()
	for i := range 50 {
		access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
		if i%2 == 0 {
			access |= verbs.AccessRemoteRead | verbs.AccessOnDemand
		}
		if err := p.B.MR.Rereg(verbs.ReregAccess, nil, nil, access); err != nil || p.B.MR.RKey() != key {
			t.Fatalf("%v, key %#x", err, p.B.MR.RKey())
		}
		time.Sleep(100 * time.Microsecond)
	}
	wg.Wait()
	// What is not granted any more is refused.
	if err := request(verbs.OpRDMARead)(p, p.A.MR.SGE(0, 8), p.B.MR.Addr(), key); err != nil {
		t.Fatal(err)
	}
	if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
		t.Errorf("%v, %v", wc.Status, err)
	}
}

// TestReregPD: the region belongs to the queue pairs of its new domain, and only to
// these.
func TestReregPD(t *testing.T) {
	r := newRig(t, rigOptions{})
	p, q := r.pair(verbstest.Options{}), r.pair(verbstest.Options{})
	write := func(p *verbstest.Pair, want verbs.WCStatus, mr *verbs.MR) {
		t.Helper()
		if err := request(verbs.OpRDMAWrite)(p, p.A.MR.SGE(0, 8), mr.Addr(), mr.RKey()); err != nil {
			t.Fatal(err)
		}
		if wc, err := p.A.Next(); err != nil || wc.Status != want {
			t.Errorf("%v, %v; want %v", wc.Status, err, want)
		}
	}
	extra, err := p.B.PD.RegisterMemory(make([]byte, 64), verbstest.All)
	if err != nil {
		t.Fatal(err)
	}
	write(p, verbs.WCSuccess, extra)
	if err := extra.Rereg(verbs.ReregPD, q.B.PD, nil, 0); err != nil {
		t.Fatal(err)
	}
	write(q, verbs.WCSuccess, extra)
	write(p, verbs.WCRemoteAccess, extra)
	if err := extra.Deregister(); err != nil {
		t.Error(err)
	}
}

// What the device refuses leaves region and domains as they were.
func TestReregFails(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd, err := r.a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := r.a.RegisterMemory(pd, make([]byte, 64), verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		mr   verbs.ProviderMR
		c    verbs.ProviderRereg
	}{
		{"unknown region", verbs.ProviderMR{Handle: 99}, verbs.ProviderRereg{Flags: verbs.ReregPD, PD: other}},
		{"unknown domain", mr, verbs.ProviderRereg{Flags: verbs.ReregPD, PD: 99}},
	} {
		if _, err := r.a.ReregisterMemory(tt.mr, &tt.c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := r.a.ReregisterMemory(mr, &verbs.ProviderRereg{Flags: verbs.ReregPD | verbs.ReregAccess, PD: other, Access: 1 << 30}); err == nil {
		t.Error("unknown rights were taken")
	}
	if err := r.a.DeallocPD(other); err != nil {
		t.Errorf("the other domain is in use: %v", err)
	}
	if err := r.a.DeallocPD(pd); !errors.Is(err, ErrBusy) {
		t.Errorf("the region's domain: %v", err)
	}
	if err := errors.Join(r.a.DeregisterMemory(mr), r.a.DeallocPD(pd)); err != nil {
		t.Error(err)
	}
	if err := r.ca.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.a.ReregisterMemory(mr, &verbs.ProviderRereg{}); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed device: %v", err)
	}
}
