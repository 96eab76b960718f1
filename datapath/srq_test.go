package datapath

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// shared are pairs whose ends at device B take receives from one queue and
// complete to one.
type shared struct {
	t     *testing.T
	srq   *verbs.SRQ
	cq    *verbs.CQ
	mr    *verbs.MR
	pairs []*verbstest.Pair
	byQPN map[uint32]int // index in pairs of the end at B
}

const sharedSlot = 256 // bytes of each receive

func newShared(r *rig, typ verbs.QPType, n int, attr verbs.SRQInitAttr, o verbstest.Options) *shared {
	t := r.t.(*testing.T)
	t.Helper()
	s := &shared{t: t, byQPN: map[uint32]int{}}
	pd, err := r.cb.AllocPD()
	s.try(err)
	t.Cleanup(func() { s.try(pd.Dealloc()) })
	s.cq, err = r.cb.CreateCQ(4096)
	s.try(err)
	t.Cleanup(func() { s.try(s.cq.Destroy()) })
	s.srq, err = pd.CreateSRQ(&attr)
	s.try(err)
	t.Cleanup(func() { s.try(s.srq.Destroy()) })
	s.mr, err = pd.RegisterMemory(make([]byte, sharedSlot*attr.MaxWR), verbs.AccessLocalWrite)
	s.try(err)
	t.Cleanup(func() { s.try(s.mr.Deregister()) })
	o.BufferSize, o.CQ[1], o.SRQ[1] = 1<<16, s.cq, s.srq
	for i := range n {
		p, err := verbstest.NewPair(typ, r.ca, r.cb, o)
		s.try(err)
		t.Cleanup(func() { s.try(p.Close()) })
		s.pairs = append(s.pairs, p)
		s.byQPN[p.B.QP.Num()] = i
	}
	return s
}

func (s *shared) try(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// post posts the receive of slot id.
func (s *shared) post(id int) {
	s.t.Helper()
	s.try(s.srq.PostRecv(&verbs.RecvWR{WRID: uint64(id), SGList: []verbs.SGE{s.mr.SGE(id*sharedSlot, sharedSlot)}}))
}

// send sends n bytes from pair i, of which the first is its number.
func (s *shared) send(i, n int) {
	s.t.Helper()
	p := s.pairs[i]
	p.A.Buf[0] = byte(i)
	s.try(p.A.Post(p.Datagram(n)))
}

// next takes one completion at B and returns the pair that it is of.
func (s *shared) next() (i int, wc verbs.WC) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), verbstest.Patience)
	defer cancel()
	var wcs [1]verbs.WC
	_, err := s.cq.Wait(ctx, wcs[:])
	s.try(err)
	i, ok := s.byQPN[wcs[0].QPNum]
	if !ok {
		s.t.Fatalf("completion of queue pair %#x", wcs[0].QPNum)
	}
	return i, wcs[0]
}

// expect takes the success of receive id by pair i.
func (s *shared) expect(i, id, n int) {
	s.t.Helper()
	if got, wc := s.next(); got != i || wc.WRID != uint64(id) || wc.Status != verbs.WCSuccess || int(wc.ByteLen) != n {
		s.t.Fatalf("pair %d: %+v; want %d bytes in receive %d of pair %d", got, wc, n, id, i)
	}
}

// event waits for the next event of device c.
func (s *shared) event(c *verbs.Context) verbs.AsyncEvent {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), verbstest.Patience)
	defer cancel()
	for {
		e, err := c.NextEvent(ctx)
		s.try(err)
		if e.Type != verbs.EventCommEst {
			return e
		}
	}
}

// noEvent: nothing else has happened at device d.
func (s *shared) noEvent(d *Device) {
	s.t.Helper()
	for e, ok := d.root.events.main.take(); ok; e, ok = d.root.events.main.take() {
		if e.Type != ibv.EventCommEst {
			s.t.Errorf("event %v", e.Type)
		}
	}
}

// Every operation works with ends that share a queue at both devices.
func TestSharedEveryOperation(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, tt := range []struct {
			name string
			rig  rigOptions
		}{
			{"one queue", rigOptions{}},
			{"four queues, crossed", rigOptions{queues: 4, crossed: true}},
		} {
			t.Run(fmt.Sprintf("%v, %s", typ, tt.name), func(t *testing.T) {
				r := newRig(t, tt.rig)
				var o verbstest.Options
				for i, c := range []*verbs.Context{r.ca, r.cb} {
					pd, err := c.AllocPD()
					if err == nil {
						o.SRQ[i], err = pd.CreateSRQ(nil)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					p, err := verbstest.NewPair(typ, r.ca, r.cb, o)
					if err != nil {
						t.Fatal(err)
					}
					m := p.MTU.Bytes()
					sizes := []int{0, 1, 64, m - 1, m}
					if typ != verbs.UD {
						sizes = append(sizes, m+1, 3*m+1)
					}
					if err := bothWays(p, sizes...); err != nil {
						t.Fatal(err)
					}
				}
				r.checkMemory()
			})
		}
	}
}

// All queue pairs of a shared queue are on its worker; queues spread over workers.
func TestSharedPlacement(t *testing.T) {
	r := newRig(t, rigOptions{queues: 4})
	used := map[*worker]int{}
	for range 4 {
		pd, err := r.a.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.a.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		s := p.(*srq)
		used[s.w]++
		for range 3 {
			init := initOf(t, r.a)
			init.SRQ = p
			q, err := r.a.CreateQP(init)
			if err != nil {
				t.Fatal(err)
			}
			if q.(*qp).w != s.w || q.RQ() != nil {
				t.Errorf("queue pair on worker %d with a receive queue %v; its shared queue is on %d", q.(*qp).w.id, q.RQ(), s.w.id)
			}
		}
	}
	if len(used) != 4 {
		t.Errorf("four queues are on %d workers", len(used))
	}
}

func TestSharedRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd, err := r.a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		pd   uint32
		attr ibv.SRQAttr
	}{
		"no requests":       {pd, ibv.SRQAttr{MaxSGE: 1}},
		"too many requests": {pd, ibv.SRQAttr{MaxWR: ibv.MaxQPWR + 1, MaxSGE: 1}},
		"no entries":        {pd, ibv.SRQAttr{MaxWR: 1}},
		"too many entries":  {pd, ibv.SRQAttr{MaxWR: 1, MaxSGE: ibv.MaxSGE + 1}},
		"limit":             {pd, ibv.SRQAttr{MaxWR: 1, MaxSGE: 1, Limit: 2}},
		"unknown domain":    {pd + 9, ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}},
	} {
		if _, err := r.a.CreateSRQ(&verbs.ProviderSRQInit{PD: tt.pd, Attr: tt.attr}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	foreign, err := r.b.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.b.CreateSRQ(&verbs.ProviderSRQInit{PD: foreign, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := r.a.CreateSRQ(&verbs.ProviderSRQInit{PD: pd, Attr: ibv.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	if err = errors.Join(err, gone.Destroy()); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]verbs.ProviderSRQ{"of another device": other, "gone": gone} {
		init := initOf(t, r.a)
		init.SRQ = s
		if _, err := r.a.CreateQP(init); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := r.a.DeallocPD(pd); err != nil {
		t.Errorf("the domain is not free: %v", err)
	}
}

func TestSharedDestroyOrder(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	init := initOf(t, r.a)
	s, err := r.a.CreateSRQ(&verbs.ProviderSRQInit{PD: init.PD, Attr: ibv.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	init.SRQ = s
	q, err := r.a.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("destroy of a queue in use: %v", err)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
	if err := r.a.DeallocPD(init.PD); !errors.Is(err, ErrBusy) {
		t.Errorf("deallocate of a domain in use: %v", err)
	}
	if err := errors.Join(s.Destroy(), s.Destroy(), r.a.DeallocPD(init.PD)); err != nil {
		t.Error(err)
	}
	if w := s.(*srq).w; w.srqs != 0 || w.qps != 0 || len(r.a.srqs) != 0 {
		t.Errorf("worker has %d queues and %d queue pairs, the device %d", w.srqs, w.qps, len(r.a.srqs))
	}
	if err := r.a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Modify(&ibv.SRQAttr{MaxWR: 2}, ibv.SRQAttrMaxWR); !errors.Is(err, ErrClosed) {
		t.Errorf("modify on a closed device: %v", err)
	}
}

// Closed loops of equal queue pairs get equal shares when there is a receive for
// each. One queue: with several, how often a program drives which matters more.
func TestSharedFairness(t *testing.T) {
	const n, each = 8, 200
	r := newRig(t, rigOptions{})
	s := newShared(r, verbs.RC, n, verbs.SRQInitAttr{MaxWR: 2 * n}, verbstest.Options{Timeout: slow})
	for id := range 2 * n {
		s.post(id)
	}
	for i := range n {
		s.send(i, 100)
	}
	counts := make([]int, n)
	for range n * each {
		i, wc := s.next()
		if wc.Status != verbs.WCSuccess || s.mr.Bytes()[int(wc.WRID)*sharedSlot] != byte(i) {
			t.Fatalf("pair %d: %+v, its first byte is %d", i, wc, s.mr.Bytes()[int(wc.WRID)*sharedSlot])
		}
		counts[i]++
		s.post(int(wc.WRID))
		if _, err := s.pairs[i].A.Done(1, verbs.WCSend); err != nil {
			t.Fatal(err)
		}
		s.send(i, 100)
	}
	for i, c := range counts {
		if c < each/2 {
			t.Errorf("pair %d received %d of %d messages: %v", i, c, n*each, counts)
		}
	}
	if c := counterOf(t, r.b, "send_rnr_err"); c != 0 {
		t.Errorf("%d RNR NAKs although there was a receive for each", c)
	}
}

// With fewer receives than senders the peers are sent away and come again: no
// message is lost, and none takes a receive twice.
func TestSharedScarcity(t *testing.T) {
	const n, each = 6, 20
	r := newRig(t, rigOptions{queues: 2, crossed: true})
	s := newShared(r, verbs.RC, n, verbs.SRQInitAttr{MaxWR: 2}, verbstest.Options{Timeout: slow, MinRNRTimer: 1})
	for i := range n {
		for range each {
			s.send(i, 200)
		}
	}
	s.post(0)
	s.post(1)
	counts := make([]int, n)
	for range n * each {
		i, wc := s.next()
		if wc.Status != verbs.WCSuccess {
			t.Fatalf("pair %d: %+v", i, wc)
		}
		counts[i]++
		s.post(int(wc.WRID))
	}
	for i, c := range counts {
		if c != each {
			t.Errorf("pair %d received %d messages, want %d", i, c, each)
		}
	}
	if counterOf(t, r.b, "send_rnr_err") == 0 {
		t.Error("nobody was sent away: the test shows nothing")
	}
}

func TestSharedLimit(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := newShared(r, verbs.RC, 2, verbs.SRQInitAttr{MaxWR: 4, Limit: 2}, verbstest.Options{Timeout: slow})
	for id := range 4 {
		s.post(id)
	}
	for id := range 2 {
		s.send(id, 8)
		s.expect(id, id, 8)
	}
	s.noEvent(r.b) // two are left
	s.send(0, 8)
	s.expect(0, 2, 8)
	if e := s.event(r.cb); e != (verbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: s.srq}) {
		t.Errorf("event %+v", e)
	}
	if a, err := s.srq.Query(); err != nil || a.Limit != 0 {
		t.Errorf("attributes %+v, %v; want no limit", a, err)
	}
	s.send(1, 8)
	s.expect(1, 3, 8)
	s.noEvent(r.b) // disarmed
	s.post(0)
	s.try(s.srq.Modify(&verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit))
	s.send(1, 8)
	s.expect(1, 0, 8)
	if e := s.event(r.cb); e.Type != verbs.EventSRQLimitReached {
		t.Errorf("event %+v", e)
	}
}

// A queue pair in ERR leaves the others and their receives alone.
func TestSharedOneFails(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			s := newShared(r, typ, 3, verbs.SRQInitAttr{MaxWR: 8}, verbstest.Options{Timeout: slow})
			front := 0
			if typ == verbs.UD {
				front = verbs.GRHLen
			}
			for id := range 8 {
				s.post(id)
			}
			s.send(1, 8)
			s.expect(1, 0, front+8)
			s.try(s.pairs[1].B.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
			if e := s.event(r.cb); e != (verbs.AsyncEvent{Type: verbs.EventQPLastWQEReached, QP: s.pairs[1].B.QP}) {
				t.Errorf("event %+v", e)
			}
			for id := 1; id < 5; id++ {
				i := id % 2 * 2
				s.send(i, 8)
				s.expect(i, id, front+8)
			}
			s.try(s.pairs[1].B.QP.Destroy())
			s.send(2, 8)
			s.expect(2, 5, front+8)
			s.noEvent(r.b)
		})
	}
}

// Resizing loses no receive and no message, with traffic going on.
func TestSharedResize(t *testing.T) {
	const n, each = 4, 100
	r := newRig(t, rigOptions{queues: 2})
	s := newShared(r, verbs.RC, n, verbs.SRQInitAttr{MaxWR: 64}, verbstest.Options{Timeout: slow, Depth: each, MinRNRTimer: 1})
	free := make([]int, 0, 64)
	for id := range 64 {
		if id < 16 {
			s.post(id)
		} else {
			free = append(free, id)
		}
	}
	for i := range n {
		for range each {
			s.send(i, 64)
		}
	}
	sizes := []int{16, 64, 17, 33, 16}
	for k := range n * each {
		_, wc := s.next()
		if wc.Status != verbs.WCSuccess {
			t.Fatal(wc)
		}
		free = append(free, int(wc.WRID))
		if k%7 == 0 {
			s.try(s.srq.Modify(&verbs.SRQAttr{MaxWR: sizes[k/7%len(sizes)]}, verbs.SRQAttrMaxWR))
		}
		s.post(free[0])
		free = free[1:]
	}
	// All of the 16 are there, and not one more fits.
	err := s.srq.Modify(&verbs.SRQAttr{MaxWR: 15}, verbs.SRQAttrMaxWR)
	if !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a size of 15 for 16 receives: %v, want ErrInvalid", err)
	}
	s.try(s.srq.Modify(&verbs.SRQAttr{MaxWR: 16}, verbs.SRQAttrMaxWR))
	if err := s.srq.PostRecv(&verbs.RecvWR{}); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("a 17th receive: %v, want ErrQueueFull", err)
	}
}
