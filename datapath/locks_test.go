package datapath

import (
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// lockedBy waits until the locks that others wait for are free, and names one that
// stays taken.
func lockedBy(d *Device) string {
	free := func(try func() bool, unlock func()) bool {
		for range 2000 {
			if try() {
				unlock()
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	}
	if !free(d.mu.TryLock, d.mu.Unlock) {
		return "the device's lock"
	}
	for _, w := range d.workers {
		if !free(w.tryLock, func() { w.release(controller) }) {
			return "a worker's lock"
		}
	}
	return ""
}

// TestRingsAreFreedUnlocked: to give a large ring back to the system takes long, and
// nobody waits for it but who does.
func TestRingsAreFreedUnlocked(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	made, freed := 0, 0
	cfg := &ClientConfig{
		Name: "client",
		NewRing: func(entries, elem int) (*queue.Ring, error) {
			made++
			return queue.New(entries, elem)
		},
		FreeRing: func(*queue.Ring) {
			freed++
			if s := lockedBy(r.a); s != "" {
				t.Errorf("a ring is freed with %s", s)
			}
		},
	}
	c, err := r.a.NewClient(cfg)
	must(t, err)
	pd, err := c.AllocPD()
	must(t, err)
	x, err := c.OpenXRCD(&verbs.XRCDInitAttr{Create: true})
	must(t, err)
	// The first of each kind is destroyed, the second goes with its client.
	for i := range 2 {
		q, err := c.CreateCQ(8)
		must(t, err)
		must(t, q.Resize(16))
		s, err := c.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 8, MaxSGE: 1}})
		must(t, err)
		must(t, s.Modify(&ibv.SRQAttr{MaxWR: 16}, ibv.SRQAttrMaxWR))
		xs, err := c.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, XRCD: x, CQ: q, Attr: ibv.SRQAttr{MaxWR: 8, MaxSGE: 1}})
		must(t, err)
		p, err := c.CreateQP(&verbs.ProviderQPInit{PD: pd, Type: ibv.QPTypeRC, SendCQ: q, RecvCQ: q, Cap: ibv.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
		must(t, err)
		if i == 0 {
			must(t, errors.Join(p.Destroy(), xs.Destroy(), s.Destroy(), q.Destroy()))
			must(t, errors.Join(p.Destroy(), xs.Destroy(), s.Destroy(), q.Destroy())) // is nothing more
		}
	}
	must(t, c.Close())
	if want := 2 * 7; made != want || freed != made {
		t.Errorf("%d rings were made and %d freed, want %d", made, freed, want)
	}
}

// TestShownWhileResized: what is copied for a while is shown to who asks meanwhile, as it
// was before.
func TestShownWhileResized(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, _ := client(t, r.a, &ClientConfig{Name: "client"})
	pd, err := c.AllocPD()
	must(t, err)
	p, err := c.CreateCQ(8)
	must(t, err)
	s, err := c.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 8, MaxSGE: 1}})
	must(t, err)
	q, srq := p.(*cq), s.(*srq)
	q.resizing.Lock() // as who copies has it
	defer q.resizing.Unlock()
	srq.modify.Lock()
	defer srq.modify.Unlock()
	to, err := c.newCQRing(64)
	must(t, err)
	m, err := q.startMove(to, 64)
	must(t, err)
	all, err := r.a.Resources()
	must(t, err)
	if len(all.CQs) != 1 || all.CQs[0].Entries != 8 || len(all.SRQs) != 1 || all.SRQs[0].MaxWR != 8 {
		t.Errorf("%+v and %+v, want 8 entries each", all.CQs, all.SRQs)
	}
	if s := lockedBy(r.a); s != "" {
		t.Errorf("a queue is copied with %s", s)
	}
	if a, err := p.Query(); err != nil || a.Entries != 8 || p.Ring() == to || s.Ring() == nil {
		t.Errorf("%+v, %v", a, err)
	}
	m.Copy()
	m.Finish()
	q.ring.Store(to)
}
