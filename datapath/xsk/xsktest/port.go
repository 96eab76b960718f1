package xsktest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// Errors that Kick and WakeFill return, made once because they repeat.
var (
	errDown   = fmt.Errorf("xsktest: %w", xsk.ErrDown)
	errClosed = fmt.Errorf("xsktest: %w", xsk.ErrClosed)
)

// outRing and inRing hold both sides of a ring: out goes from the user of the
// port to the part that plays the kernel, in the other way.
type outRing[T any] struct {
	user   *ring.Producer[T]
	kernel *ring.Consumer[T]
}

type inRing[T any] struct {
	kernel *ring.Producer[T]
	user   *ring.Consumer[T]
}

// Port is one end of a Pair. Its methods keep to the rules of xsk.Port; those
// that xsk.Port does not have are safe from any goroutine.
type Port struct {
	umem    *xsk.UMEM
	private bool
	peer    *Port

	rx   inRing[xsk.Desc]
	tx   outRing[xsk.Desc]
	fill outRing[uint64]
	comp inRing[uint64]

	multiBuffer bool
	fillWakeup  bool
	budget      int
	hook        atomic.Pointer[Hook]
	waiter      atomic.Pointer[Waiter]
	down        atomic.Bool
	closed      atomic.Bool
	asleep      atomic.Bool // waits for WakeFill

	frame   []byte                   // the frame that Kick has in hand
	descs   [maxBuffers + 1]xsk.Desc // and its descriptors
	addrs   [maxBuffers + 1]uint64   // and their addresses
	arrival sync.Mutex               // guards the kernel's side of rx and fill
	filled  [maxBuffers]uint64       // frames that arrival takes
	held    int                      // of them, not used yet
	placed  [maxBuffers]xsk.Desc     // descriptors that arrival makes
	stats   counters
}

var _ xsk.Port = (*Port)(nil)

// SetHook makes h decide on each frame that p sends; nil delivers all.
func (p *Port) SetHook(h Hook) {
	if h == nil {
		p.hook.Store(nil)
		return
	}
	p.hook.Store(&h)
}

// SetDown takes the port down, or up again. While it is down Kick returns an
// error that wraps xsk.ErrDown, and what arrives is lost.
func (p *Port) SetDown(down bool) { p.down.Store(down) }

// Peer returns the other port.
func (p *Port) Peer() *Port { return p.peer }

// Frame returns the bytes of d; see xsk.UMEM.Frame.
func (p *Port) Frame(d xsk.Desc) []byte { return p.umem.Frame(d) }

// UMEM returns the memory of the port.
func (p *Port) UMEM() *xsk.UMEM { return p.umem }

// Fill lends free frames to the port.
func (p *Port) Fill(addrs []uint64) int {
	n := p.fill.user.Put(addrs)
	p.stats.filled.Add(uint64(n))
	return n
}

// Receive takes received buffers, whole frames as long as dst can hold one.
func (p *Port) Receive(dst []xsk.Desc) int {
	n := p.rx.user.Peek(dst)
	whole := wholeFrames(dst[:n])
	if whole == 0 && n == len(dst) {
		whole = n
	}
	p.rx.user.Release(whole)
	p.stats.received(dst[:whole])
	return whole
}

// Submit queues whole frames for Kick.
func (p *Port) Submit(descs []xsk.Desc) int {
	n := wholeFrames(descs[:p.tx.user.Room(len(descs))])
	p.tx.user.Put(descs[:n])
	p.stats.submitted(descs[:n])
	return n
}

// Complete takes addresses of transmitted frames.
func (p *Port) Complete(dst []uint64) int {
	n := p.comp.user.Take(dst)
	p.stats.completed.Add(uint64(n))
	return n
}

// RxAvail returns how many buffers wait.
func (p *Port) RxAvail() int { return p.rx.user.Avail() }

// TxFree returns how many descriptors Submit can take.
func (p *Port) TxFree() int { return p.tx.user.Free() }

// TxPending returns how many descriptors no Kick has transmitted.
func (p *Port) TxPending() int { return p.tx.user.Pending() }

// FillFree returns how many addresses Fill can take.
func (p *Port) FillFree() int { return p.fill.user.Free() }

// CompAvail returns how many addresses Complete has.
func (p *Port) CompAvail() int { return p.comp.user.Avail() }

// NeedFillWakeup reports whether the port waits for WakeFill.
func (p *Port) NeedFillWakeup() bool { return p.fill.user.NeedWakeup() }

// WakeFill makes a port that ran out of filled frames look for new ones.
func (p *Port) WakeFill() error {
	p.stats.wakeups.Add(1)
	if err := p.usable(); err != nil {
		p.stats.wakeFail.Add(1)
		return err
	}
	p.arrival.Lock()
	defer p.arrival.Unlock()
	p.setAsleep(false)
	return nil
}

func (p *Port) setAsleep(on bool) {
	p.asleep.Store(on)
	p.fill.kernel.SetNeedWakeup(on)
}

// Stats returns the counters.
func (p *Port) Stats() (xsk.Stats, error) { return p.stats.snapshot(), nil }

// Close makes the port unusable. What the peer sends from then on is lost.
func (p *Port) Close() error {
	if p.closed.Swap(true) || !p.private {
		return nil
	}
	// An arrival that began before must not find the memory gone.
	p.arrival.Lock()
	defer p.arrival.Unlock()
	return p.umem.Close()
}

func (p *Port) usable() error {
	switch {
	case p.closed.Load():
		return errClosed
	case p.down.Load():
		return errDown
	}
	return nil
}

func wholeFrames(descs []xsk.Desc) int {
	n := len(descs)
	for n > 0 && descs[n-1].Options&xsk.Continued != 0 {
		n--
	}
	return n
}
