package datapath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestCQResizeUnderTraffic: while queue pairs of several workers complete to one
// queue, and it is polled, its size changes all the time. Each request completes
// once and, of each queue pair, in order.
func TestCQResizeUnderTraffic(t *testing.T) {
	r := newRig(t, rigOptions{queues: 3, crossed: true})
	cq, err := r.ca.CreateCQ(1024)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cq.Destroy(); err != nil {
			t.Error(err)
		}
	})
	const pairs, requests, depth = 6, 800, 32
	next := map[uint32]uint64{}
	// What was posted and not polled yet, so that the smallest size has room for it.
	outstanding := map[uint32]chan struct{}{}
	var sides []*verbstest.Pair
	for range pairs {
		p := r.pair(verbstest.Options{CQ: [2]*verbs.CQ{cq}, Depth: depth, BufferSize: 1 << 14})
		next[p.A.QP.Num()] = 0
		outstanding[p.A.QP.Num()] = make(chan struct{}, depth)
		sides = append(sides, p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	var posting, resizing sync.WaitGroup
	var resized atomic.Uint64
	for _, p := range sides {
		credit := outstanding[p.A.QP.Num()]
		posting.Go(func() {
			for id := range uint64(requests) {
				for id/(requests/10) > resized.Load() && ctx.Err() == nil {
					time.Sleep(50 * time.Microsecond) // so that the size changes often enough meanwhile
				}
				select {
				case credit <- struct{}{}:
				case <-ctx.Done():
					return
				}
				err := p.A.Post(verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 64)},
					RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()})
				if err != nil {
					t.Errorf("post: %v", err)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	resizing.Go(func() {
		for n := pairs * depth; ; n = pairs*depth + (n+97)%1024 {
			select {
			case <-stop:
				return
			default:
			}
			if err := cq.Resize(n); err != nil {
				t.Errorf("resize to %d: %v", n, err)
				cancel()
				return
			}
			resized.Add(1)
			time.Sleep(50 * time.Microsecond)
		}
	})
	var wcs [7]verbs.WC
	for got := 0; got < pairs*requests; {
		n, err := cq.Wait(ctx, wcs[:])
		if err != nil {
			t.Errorf("after %d completions: %v", got, err)
			break
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if wc.Err() != nil || wc.WRID != next[wc.QPNum] {
				t.Fatalf("%+v, want request %d", wc, next[wc.QPNum])
			}
			next[wc.QPNum]++
			<-outstanding[wc.QPNum]
		}
		got += n
	}
	close(stop)
	cancel() // ends what an error has stopped
	posting.Wait()
	resizing.Wait()
	if n := cq.Poll(wcs[:]); n != 0 {
		t.Errorf("%d completions too many: %+v", n, wcs[0])
	}
	if n := resized.Load(); n < 9 {
		t.Errorf("only %d changes of size", n)
	}
}

func TestCQResizeRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	cq := p.A.CQ
	if err := errors.Join(p.A.Recv(1, 0, 1), p.A.Recv(2, 0, 1), p.A.Recv(3, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	err := cq.Resize(2)
	if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "3 completions are queued, 2 would fit: poll them first") {
		t.Errorf("below what is queued: %v", err)
	}
	for _, n := range []int{-1, 0, verbs.MaxCQE + 1} {
		if err := cq.Resize(n); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("to %d: %v", n, err)
		}
	}
	if err := cq.Resize(3); err != nil {
		t.Fatal(err)
	}
	a, err := cq.Query()
	if err != nil || a.Entries != 4 || cq.Size() != 4 || a.Overflowed {
		t.Errorf("%+v, size %d, %v", a, cq.Size(), err)
	}
	for id := uint64(1); id <= 3; id++ {
		if wc, err := p.A.Next(); err != nil || wc.WRID != id || wc.Status != verbs.WCFlushed {
			t.Errorf("%+v, %v; want the flush of %d", wc, err, id)
		}
	}
}

// TestCQOfAMillion: the largest queue that users ask for takes and gives what a
// small one does.
func TestCQOfAMillion(t *testing.T) {
	r := newRig(t, rigOptions{})
	cq, err := r.ca.CreateCQ(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cq.Destroy(); err != nil {
			t.Error(err)
		}
	})
	if cq.Size() != 1<<20 {
		t.Errorf("size %d", cq.Size())
	}
	p := r.pair(verbstest.Options{CQ: [2]*verbs.CQ{cq, nil}})
	if err := p.Every(0, 1, 5000); err != nil {
		t.Error(err)
	}
	dev, err := r.ca.QueryDevice()
	if err != nil || dev.MaxCQE < 1<<20 {
		t.Errorf("MaxCQE %d, %v", dev.MaxCQE, err)
	}
}

// TestCQModeration: a sleeping program is woken by the count or by the end of the
// period, whichever comes first, with and without background goroutines.
func TestCQModeration(t *testing.T) {
	const short = 20 * time.Millisecond
	for _, tt := range []struct {
		name   string
		count  int
		period time.Duration
		sends  int
		least  time.Duration // until the event
	}{
		{"count alone", 3, 0, 3, 0},
		{"period", 4, short, 3, short},
		{"period alone", 0, short, 5, short},
	} {
		for _, noBackground := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, no background %v", tt.name, noBackground), func(t *testing.T) {
				r := newRig(t, rigOptions{opts: Options{NoBackground: noBackground}, sleepDeep: true})
				if noBackground {
					defer keepDriving(r.ca)()
					defer keepDriving(r.cb)()
				}
				p := r.pair(verbstest.Options{})
				if err := p.B.CQ.Modify(tt.count, tt.period); err != nil {
					t.Fatal(err)
				}
				if a, err := p.B.CQ.Query(); err != nil || a.Count != tt.count || a.Period != tt.period {
					t.Errorf("%+v, %v", a, err)
				}
				for id := range tt.sends {
					if err := p.B.Recv(uint64(id), 0, 8); err != nil {
						t.Fatal(err)
					}
				}
				p.B.CQ.ReqNotify(false)
				start := time.Now()
				for range tt.sends {
					if err := p.A.Post(p.Datagram(8)); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
				defer cancel()
				if err := p.B.CQ.WaitEvent(ctx); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d < tt.least {
					t.Errorf("woken after %v, want at least %v", d, tt.least)
				}
				for range tt.sends {
					if _, err := p.B.Next(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

func TestCQModifyRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	c, err := r.a.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		count  int
		period time.Duration
	}{{-1, 0}, {verbs.MaxCQCount + 1, 0}, {0, -1}, {0, verbs.MaxCQPeriod + 1}} {
		if err := c.Modify(bad.count, bad.period); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := c.Modify(verbs.MaxCQCount, verbs.MaxCQPeriod); err != nil {
		t.Error(err)
	}
	if err := r.ca.Close(); err != nil {
		t.Fatal(err)
	}
	_, qerr := c.Query()
	for _, err := range []error{c.Modify(1, 0), c.Resize(2), qerr} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed device: %v", err)
		}
	}
}
