package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// CQ is a completion queue (ibv_cq).
type CQ struct {
	ctx  *Context
	p    ProviderCQ
	ring atomic.Pointer[queue.Ring]
	qps  atomic.Int32
	gone atomic.Bool

	mu     sync.Mutex // guards cons: the ring has one consumer; Resize changes both
	cons   *queue.Consumer
	broken bool

	waiting chan struct{} // held by the one goroutine that sleeps in Wait
}

// CreateCQ makes a completion queue for at least entries completions. It must
// hold all completions that can be outstanding: one for each signaled send and
// each receive of its queue pairs, else it overflows and they fail.
func (c *Context) CreateCQ(entries int) (*CQ, error) {
	if entries < 1 || entries > MaxCQE {
		return nil, opErr("create cq", c.Name(), invalid("%d entries: 1 to %d are possible", entries, MaxCQE))
	}
	if err := c.alive(); err != nil {
		return nil, opErr("create cq", c.Name(), err)
	}
	p, err := c.p.CreateCQ(entries)
	if err != nil {
		return nil, opErr("create cq", c.Name(), err)
	}
	cq := &CQ{ctx: c, p: p, cons: queue.NewConsumer(p.Ring()), waiting: make(chan struct{}, 1)}
	cq.ring.Store(p.Ring())
	c.mu.Lock()
	c.cqs[cq] = struct{}{}
	c.mu.Unlock()
	return cq, nil
}

// Size is the number of completions that the queue holds.
func (cq *CQ) Size() int { return cq.ring.Load().Entries() }

// Poll takes up to len(wcs) completions and returns how many. When there are
// none it drives the device once and looks again, so a program that polls needs
// nobody else to make progress. Of a device whose daemon has ended it finds nothing:
// a program that does nothing but poll asks Err now and then.
func (cq *CQ) Poll(wcs []WC) int {
	if n := cq.take(wcs); n > 0 || len(wcs) == 0 || cq.gone.Load() {
		return n
	}
	cq.p.Progress()
	return cq.take(wcs)
}

// take moves completions out of the ring.
func (cq *CQ) take(wcs []WC) int {
	// Of a ring that Resize has just replaced this may be out of date, as if the
	// call had come a moment earlier.
	if cq.ring.Load().Empty() {
		return 0
	}
	cq.mu.Lock()
	n, ok := cq.cons.Avail()
	if !ok {
		cq.broken = true
	}
	n = min(n, len(wcs))
	for i := range n {
		var e queue.CQE
		queue.GetCQE(cq.cons.Slot(i), &e)
		wcs[i] = WC{
			WRID: e.WRID, Status: e.Status, Opcode: e.Opcode, Flags: e.Flags,
			ByteLen: e.ByteLen, Imm: e.Imm, QPNum: e.QPN, SrcQP: e.SrcQP,
			VendorErr: e.VendorErr, PKeyIndex: e.PKeyIndex,
			SL: e.SL, VLAN: e.VLAN, Timestamp: e.Timestamp, QPContext: e.QPContext,
		}
	}
	if n > 0 {
		cq.cons.Release(n)
	}
	cq.mu.Unlock()
	return n
}

// Err says why the queue is unusable: ErrClosed, also when the device's daemon has
// ended, or ErrCorrupted, or nil.
func (cq *CQ) Err() error {
	if err := cq.ctx.usable(&cq.gone); err != nil {
		return err
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.broken {
		return ErrCorrupted
	}
	return nil
}

// ReqNotify asks for one event with the next completion, or with the next
// solicited or failed one. Poll after it: a completion that was there before
// raises no event. Wait does both.
func (cq *CQ) ReqNotify(solicitedOnly bool) {
	v := uint32(queue.ArmNext)
	if solicitedOnly {
		v = queue.ArmSolicited
	}
	cq.mu.Lock() // Resize takes the request along
	cq.ring.Load().Arm().Store(v)
	cq.mu.Unlock()
}

// WaitEvent sleeps until the event of ReqNotify, or the end of ctx. An event
// that was raised before the call is not lost; one may be left over from an
// earlier ReqNotify.
func (cq *CQ) WaitEvent(ctx context.Context) error {
	return opErr("wait", cq.name(), cq.sleep(ctx))
}

// sleep waits for the provider's event. A queue that was destroyed meanwhile is ErrClosed and
// no more: the provider cannot tell that from the end of the device.
func (cq *CQ) sleep(ctx context.Context) error {
	err := cq.p.WaitEvent(ctx)
	if errors.Is(err, ErrClosed) && cq.gone.Load() {
		return ErrClosed
	}
	return err
}

// Wait takes completions like Poll, but sleeps until there is at least one. It
// returns ctx's error when that ends first. Several goroutines may wait.
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, opErr("wait", cq.name(), invalid("no room for a completion"))
	}
	if n := cq.Poll(wcs); n > 0 {
		return n, nil
	}
	select {
	case cq.waiting <- struct{}{}:
	case <-ctx.Done():
		return 0, opErr("wait", cq.name(), ctx.Err())
	}
	defer func() { <-cq.waiting }()
	for {
		if n := cq.Poll(wcs); n > 0 {
			return n, nil
		}
		if err := cq.Err(); err != nil {
			return 0, opErr("wait", cq.name(), err)
		}
		cq.ReqNotify(false)
		if n := cq.take(wcs); n > 0 {
			return n, nil
		}
		if err := cq.sleep(ctx); err != nil {
			return 0, opErr("wait", cq.name(), err)
		}
	}
}

// Destroy frees the queue. It is ErrBusy while queue pairs complete to it.
// Destroying twice is no error.
func (cq *CQ) Destroy() error {
	if n := cq.qps.Load(); n > 0 {
		return opErr("destroy", cq.name(), fmt.Errorf("%w: %d queue pair ends complete to it: destroy them first", ErrBusy, n))
	}
	if cq.gone.Swap(true) {
		return nil
	}
	cq.ctx.mu.Lock()
	delete(cq.ctx.cqs, cq)
	cq.ctx.mu.Unlock()
	return opErr("destroy", cq.name(), cq.p.Destroy())
}

func (cq *CQ) name() string { return fmt.Sprintf("cq of %d entries", cq.Size()) }
