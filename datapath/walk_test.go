package datapath

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// TestWalkGivesWay: each element is looked at once, with the lock held, and who waits for
// that does not wait for all.
func TestWalkGivesWay(t *testing.T) {
	d := newRig(t, rigOptions{}).a
	const parts = 1000
	list := make([]int, parts*walkStep)
	var waiting sync.WaitGroup
	var had atomic.Bool
	seen, before := 0, 0
	walk(d, list, func(int) {
		if d.mu.TryLock() {
			t.Fatal("the lock is not held")
		}
		switch seen++; {
		case seen == 1:
			waiting.Go(func() {
				d.mu.Lock()
				had.Store(true)
				d.mu.Unlock()
			})
		case had.Load():
			before++
		case seen%walkStep == 0: // the mutex is handed to who has waited for longer than this
			time.Sleep(2 * time.Millisecond)
		}
	})
	waiting.Wait()
	if seen != len(list) || before == 0 {
		t.Errorf("%d of %d elements, %d of them after another had the lock", seen, len(list), before)
	}
}

// TestLookedAtInParts: who looks at all objects finds those that stay, each once, while
// others come and go.
func TestLookedAtInParts(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	const stay = 3*walkStep + 1
	c, _ := client(t, r.a, &ClientConfig{Name: "stays"})
	pd, err := c.AllocPD()
	must(t, err)
	buf := make([]byte, 64)
	av := &ibv.AddressVector{DGID: gidOf(addrB)}
	make1 := func(c *Client, pd uint32) (undo func() error, err error) {
		mr, err1 := c.RegisterMemory(pd, buf, ibv.AccessLocalWrite)
		q, err2 := c.CreateCQ(1)
		ah, err3 := c.CreateAH(t.Context(), pd, av)
		own, err4 := c.AllocPD()
		return func() error {
			return errors.Join(c.DeregisterMemory(mr), q.Destroy(), c.DestroyAH(ah), c.DeallocPD(own))
		}, errors.Join(err1, err2, err3, err4)
	}
	for range stay {
		_, err := make1(c, pd)
		must(t, err)
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				guest, err := r.a.NewClient(&ClientConfig{Name: "guest"})
				if err != nil {
					t.Error(err)
					return
				}
				pd, err := guest.AllocPD()
				var undo func() error
				for i := 0; err == nil && i < 20; i++ {
					if undo, err = make1(guest, pd); err == nil && i%2 == 0 {
						err = undo()
					}
				}
				if err = errors.Join(err, guest.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 30 {
		all, err := r.a.Resources()
		must(t, err)
		mac := [6]byte{2, 0, 0, 0, 1, byte(i)}
		r.routes[0].set(addrB, mac)
		r.a.rebuildPaths(func(r *route) bool {
			r.fields.DstMAC = mac
			return true
		})
		count := map[string]int{}
		for _, m := range all.MRs {
			if m.Client == c {
				count["mr"]++
			}
		}
		for _, q := range all.CQs {
			if q.Client == c {
				count["cq"]++
			}
		}
		for _, p := range all.PDs {
			if p.Client == c {
				count["pd"]++
			}
		}
		if count["mr"] != stay || count["cq"] != stay || count["pd"] != stay+1 || len(c.PDs()) != stay+1 {
			t.Fatalf("of %d there are %v, and %d domains", stay, count, len(c.PDs()))
		}
		old := 0
		walk(r.a, keysOf(r.a, r.a.handles), func(h uint32) {
			if a := r.a.handles[h]; a == nil || a.owner != c {
				return
			}
			var frame [256]byte
			r.a.addresses.get(h).at.path.Put(frame[:], 64, 0)
			if [6]byte(frame[:6]) != mac {
				old++
			}
		})
		if old != 0 {
			t.Fatalf("%d handles go by another address than the last", old)
		}
	}
	close(stop)
	busy.Wait()
	want := Usage{PDs: stay + 1, MRs: stay, CQs: stay, AHs: stay, Bytes: stay * uint64(len(buf))}
	if u := c.Usage(); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
	if n := len(r.a.mrs); n != stay {
		t.Errorf("%d regions are left, want %d", n, stay)
	}
}
