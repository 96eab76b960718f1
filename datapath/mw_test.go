package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestKeysThatAreBound(t *testing.T) {
	for _, queues := range []int{1, 3} {
		r := newRig(t, rigOptions{queues: queues, crossed: queues > 1})
		p := r.pair(verbstest.Options{Timeout: slow})
		for _, n := range []int{1, 700, 20_000} {
			for _, dir := range []*verbstest.Pair{p, p.Reverse()} {
				if err := dir.Keys(n); err != nil {
					t.Fatalf("%d queues, %d bytes: %v", queues, n, err)
				}
			}
		}
		r.checkNoRetry()
		r.checkMemory()
	}
}

func TestStaleKeys(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, kind := range verbstest.KeyKinds {
		for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
			for _, again := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, bound again %v", kind.Name, op, again), func(t *testing.T) {
					p := verbstest.RCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 8192})
					if err := p.StaleKey(kind, op, again); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	if n := len(r.b.mrs); n != 0 || r.b.mem.Count() != 0 {
		t.Errorf("%d regions and windows and %d keys are left", n, r.b.mem.Count())
	}
}

// A window of type 2 ends with the queue pair that has bound it, and serves no
// other.
func TestWindowBelongsToItsQueuePair(t *testing.T) {
	conformance.Rule(t, "10-19", "10-20")
	r := newRig(t, rigOptions{queues: 2})
	p := r.pair(verbstest.Options{BufferSize: 8192})
	k, err := p.B.NewKey(verbstest.KeyKind{Type: verbs.MWType2})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Bind(0, 4096); err != nil {
		t.Fatal(err)
	}
	// A second connection between the same protection domains.
	q := verbstest.RCPair(t, r.ca, r.cb, verbstest.Options{BufferSize: 8192, SRQ: [2]*verbs.SRQ{nil, srqIn(t, p.B.PD)}})
	before := bytes.Clone(p.B.Buf)
	if err := q.A.Post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{q.A.MR.SGE(0, 8)}, RemoteAddr: k.Addr(), RKey: k.RKey()}); err != nil {
		t.Fatal(err)
	}
	if wc, err := q.A.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
		t.Errorf("%v, %v; want REM_ACCESS_ERR", wc.Status, err)
	}
	if !bytes.Equal(before, p.B.Buf) {
		t.Error("the other queue pair has written through the window")
	}
	// Its own can.
	if err := p.A.Post(verbs.SendWR{WRID: 5, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: k.Addr(), RKey: k.RKey()}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(5, verbs.WCRDMAWrite); err != nil {
		t.Error(err)
	}
	if err := p.B.QP.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := k.Free(); err != nil { // the region first: nothing is bound to it
		t.Errorf("after the queue pair was destroyed: %v", err)
	}
}

func srqIn(t *testing.T, pd *verbs.PD) *verbs.SRQ {
	t.Helper()
	s, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 64, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// While a peer writes through windows all the time, they are bound and
// invalidated: once an invalidation has completed, not a byte changes.
func TestInvalidateWhileWritten(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2, crossed: true})
	for _, kind := range verbstest.KeyKinds {
		if kind.Remote {
			continue
		}
		for range 5 {
			p := r.pair(verbstest.Options{BufferSize: 1 << 16})
			k, err := p.B.NewKey(kind)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Bind(0, 1<<15); err != nil {
				t.Fatal(err)
			}
			wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 1<<15)}, RemoteAddr: k.Addr(), RKey: k.RKey()}
			started := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					p.A.Buf[0] = byte(i)
					if p.A.Post(wr) != nil {
						return
					}
					if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
						return // the key is invalid, as it should be
					}
					if i == 10 {
						close(started)
					}
				}
			})
			<-started
			if err := k.Unbind(p.A); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(p.B.Buf)
			wg.Wait()
			if !bytes.Equal(before, p.B.Buf) {
				t.Fatalf("%s: memory changed after its key was taken away", kind.Name)
			}
			if err := k.Free(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The device checks what its callers hand to it.
func TestAllocMWRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	d := r.a
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mw, err := d.AllocMW(pd, ibv.MWType2)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := d.AllocFastMR(pd, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if mw.RKey>>8 == mr.LKey>>8 || mr.LKey != mr.RKey {
		t.Errorf("keys %#x, %#x and %#x", mw.RKey, mr.LKey, mr.RKey)
	}
	for name, err := range map[string]error{
		"unknown domain": second(d.AllocMW(pd+7, ibv.MWType1)), "too large": second(d.AllocFastMR(pd, maxMRSize+1)),
		"unknown domain, fast": second(d.AllocFastMR(pd+7, 1)), "unknown window": d.DeallocMW(verbs.ProviderMW{Handle: 99}),
		"unknown region": d.DeallocFastMR(verbs.ProviderMR{Handle: 99}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.DeallocPD(pd); !errors.Is(err, ErrBusy) {
		t.Errorf("domain with a window: %v", err)
	}
	if err := errors.Join(d.DeallocMW(mw), d.DeallocFastMR(mr)); err != nil {
		t.Error(err)
	}
	if err := d.DeallocMW(mw); !errors.Is(err, ErrInvalid) {
		t.Errorf("twice: %v", err)
	}
	if err := d.DeallocPD(pd); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestDeviceTellsOfWindows(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, err := r.ca.QueryDevice()
	want := verbs.DeviceMemWindow | verbs.DeviceMemWindowType2A | verbs.DeviceMemWindowType2B | verbs.DeviceMemMgtExt
	if err != nil || a.MaxMW != a.MaxMR || a.Caps&want != want {
		t.Errorf("%d memory windows, capabilities %v, %v", a.MaxMW, a.Caps.Names(), err)
	}
}
