package datapath

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// changing is a client with a region that goroutines change all the time, until it is
// gone or its client is.
type changing struct {
	*Client
	mr   verbs.ProviderMR
	pds  [2]uint32
	stop atomic.Bool // else a region that did not end would never let them end
	over sync.WaitGroup
}

func newChanging(t *testing.T, d *Device) *changing {
	t.Helper()
	var err error
	c := &changing{}
	c.Client, _ = client(t, d, &ClientConfig{Name: "one"})
	for i := range c.pds {
		c.pds[i], err = c.AllocPD()
		must(t, err)
	}
	mems := [2][]byte{make([]byte, 64), make([]byte, 4096)}
	c.mr, err = c.RegisterMemory(c.pds[0], mems[0], ibv.AccessLocalWrite)
	must(t, err)
	for _, flags := range []ibv.ReregFlags{ibv.ReregTranslation, ibv.ReregPD, ibv.ReregTranslation | ibv.ReregPD} {
		c.over.Go(func() {
			for i := 0; !c.stop.Load(); i++ {
				_, err := c.ReregisterMemory(c.mr, &verbs.ProviderRereg{Flags: flags, PD: c.pds[i%2], Buf: mems[i%2]})
				if errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("change %d: %v", flags, err)
					return
				}
			}
		})
	}
	return c
}

// TestRegionEndsWhileItChanges: who ends a region that others change at the moment ends
// it, whichever it is then, and nothing of it is left.
func TestRegionEndsWhileItChanges(t *testing.T) {
	d := newRig(t, rigOptions{}).a
	for range 100 {
		c := newChanging(t, d)
		if err := c.DeregisterMemory(c.mr); err != nil {
			c.stop.Store(true)
			t.Errorf("deregister: %v", err)
		}
		c.over.Wait()
		if u := c.Usage(); u.MRs != 0 || u.Bytes != 0 {
			t.Errorf("%d regions of %d bytes count", u.MRs, u.Bytes)
		}
		must(t, errors.Join(c.DeallocPD(c.pds[0]), c.DeallocPD(c.pds[1])))
		must(t, c.Close())
	}
	if n := d.mem.Count(); n != 0 {
		t.Errorf("%d regions are left", n)
	}
}

// TestClientEndsWhileRegionsChange: after the end of a client no key leads to memory of
// its own, also not one that was given out at the last moment.
func TestClientEndsWhileRegionsChange(t *testing.T) {
	d := newRig(t, rigOptions{}).a
	for range 100 {
		c := newChanging(t, d)
		must(t, c.Close())
		if n := d.mem.Count(); n != 0 {
			t.Errorf("%d regions are left", n)
		}
		c.over.Wait()
		if n := d.mem.Count(); n != 0 {
			t.Fatalf("%d regions are there again", n)
		}
		if u := c.Usage(); u != (Usage{}) {
			t.Errorf("%+v counts", u)
		}
	}
}

// TestAliasEndsOnce: of several who free a window or a fast region at once one does.
func TestAliasEndsOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, _ := client(t, r.a, &ClientConfig{Name: "one"})
	pd, err := c.AllocPD()
	must(t, err)
	for i := range 100 {
		mw, err := c.AllocMW(pd, ibv.MWType1)
		must(t, err)
		fast, err := c.AllocFastMR(pd, 4096)
		must(t, err)
		end := func() error { return c.DeallocMW(mw) }
		if i%2 == 1 {
			end = func() error { return c.DeallocFastMR(fast) }
		}
		errs := make(chan error)
		for range 3 {
			go func() { errs <- end() }()
		}
		done := 0
		for range 3 {
			switch err := <-errs; {
			case err == nil:
				done++
			case !errors.Is(err, ErrInvalid):
				t.Error(err)
			}
		}
		if done != 1 {
			t.Errorf("%d have freed it", done)
		}
	}
	if u := c.Usage(); u.MRs != 100 {
		t.Errorf("%d windows and fast regions count, of 100 that are left", u.MRs)
	}
	if err := c.DeallocPD(pd); !errors.Is(err, ErrBusy) {
		t.Errorf("their domain: %v", err)
	}
}
