package cmengine

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Engine is the connection manager of a device.
type Engine struct {
	dev   *verbs.Context
	epoch time.Time
	done  chan struct{} // closed when it has ended and freed everything

	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP // queue pair 1
	mr  *verbs.MR
	buf []byte

	resolvers sync.WaitGroup
	unwatch   func() // has the device's Close not wait for the engine any more
	events    *verbs.Events
	watcher   sync.WaitGroup

	mu        sync.Mutex // guards what follows and m
	m         *cmfsm.Machine
	clients   map[cmfsm.Owner]*client
	attended  int  // by so many
	leaving   bool // the last of them waits for the end, and nobody joins
	lastOwner cmfsm.Owner
	paths     map[cmfsm.Path]*path
	resolving int
	sweep     mono.Time // when to look for paths that nobody uses; Never without paths
	gids      []verbs.GIDEntry
	mtu       ibv.MTU
	looked    bool      // in this round, what the link carries
	armed     mono.Time // when the loop wakes up by itself
	wake      context.CancelFunc
	halting   bool // the device is being closed
	ended     bool
	count     counters
}

// newEngine makes an engine that does not run yet.
func newEngine(dev *verbs.Context) (*Engine, error) {
	e := &Engine{
		dev: dev, epoch: time.Now().Add(-time.Second), done: make(chan struct{}),
		clients: map[cmfsm.Owner]*client{}, paths: map[cmfsm.Path]*path{}, sweep: mono.Never, wake: func() {},
	}
	if err := e.subscribe(); err != nil { // before anything is read that may change
		return nil, err
	}
	if err := e.start(); err != nil {
		e.events.Close()
		return nil, err
	}
	return e, nil
}

// start reads what the device has and opens queue pair 1.
func (e *Engine) start() error {
	dev := e.dev
	attr, err := dev.QueryDevice()
	if err != nil {
		return err
	}
	port, err := dev.QueryPort()
	if err != nil {
		return err
	}
	if e.gids, err = dev.GIDs(); err != nil {
		return err
	}
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return err
	}
	e.mtu = port.ActiveMTU
	e.m = cmfsm.New(cmfsm.Config{
		GUID: attr.NodeGUID, Rand: rand.NewChaCha8(seed), MTU: e.mtu, AckDelay: attr.LocalCAAckDelay,
		MaxResponderResources: uint8(min(attr.MaxQPRDAtom, ibv.MaxRDAtomic)),
		MaxInitiatorDepth:     uint8(min(attr.MaxQPInitRDAtm, ibv.MaxRDAtomic)),
	})
	if e.unwatch, err = dev.BeforeClose(e.halt); err != nil {
		return err
	}
	if err := e.open(); err != nil {
		e.unwatch()
		close(e.done) // for a halt that has begun
		return err
	}
	return nil
}

// halt ends the engine for the device's sake, and returns when it has.
func (e *Engine) halt() {
	e.mu.Lock()
	e.halting = true
	e.wake()
	e.mu.Unlock()
	<-e.done
}

func (e *Engine) now() mono.Time { return mono.Time(time.Since(e.epoch)) }

// run is the engine's goroutine.
func (e *Engine) run() {
	defer close(e.done)
	var wcs [64]verbs.WC
	for {
		ctx, cancel := e.arm()
		n, err := e.cq.Wait(ctx, wcs[:])
		gone := err != nil && ctx.Err() == nil
		cancel()
		if gone {
			e.end()
			return
		}
		e.mu.Lock()
		alive := !e.halting
		e.looked = false
		for i := range wcs[:n] {
			alive = e.completed(&wcs[i]) && alive
		}
		now := e.now()
		e.m.Poll(now)
		e.drain()
		if now >= e.sweep {
			e.sweepPaths(now)
		}
		idle := e.idle()
		e.mu.Unlock()
		if !alive {
			e.end()
			return
		}
		if idle && e.retire() {
			return
		}
	}
}

// arm makes the context of the next wait, which ends when the machine's next timer or the
// sweep is due, or by wake.
func (e *Engine) arm() (context.Context, context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = mono.Min(e.sweep, e.m.NextDeadline())
	ctx, cancel := context.WithDeadline(context.Background(), e.epoch.Add(time.Duration(e.armed)))
	e.wake = cancel
	if e.idle() || e.halting {
		cancel()
	}
	return ctx, cancel
}

// drain sends and reports what the machine has. The lock is held.
func (e *Engine) drain() {
	for {
		mad, ok := e.m.NextMAD()
		if !ok {
			break
		}
		e.send(&mad)
	}
	for {
		ev, ok := e.m.NextEvent()
		if !ok {
			break
		}
		if c := e.clients[ev.Owner]; c != nil {
			c.sink(ev)
		}
	}
	if mono.Min(e.sweep, e.m.NextDeadline()) < e.armed || e.idle() {
		e.wake()
	}
}

// idle says whether nobody needs the engine. The lock is held.
func (e *Engine) idle() bool {
	return e.attended == 0 && len(e.clients) == 0 && e.m.Len() == 0 && e.resolving == 0
}

// end ends an engine whose device is gone, and tells the clients.
func (e *Engine) end() {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e.mu.Lock()
	e.ended = true
	for owner, c := range e.clients {
		c.sink(cmfsm.Event{Type: cmfsm.EventDeviceRemoval, Owner: owner})
	}
	clear(e.clients)
	e.mu.Unlock()
	e.remove()
}

// retire ends an engine that nobody needs any more.
func (e *Engine) retire() bool {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e.mu.Lock()
	e.ended = e.idle()
	ended := e.ended
	e.mu.Unlock()
	if ended {
		e.remove()
	}
	return ended
}

// remove frees what the engine has. The lock of engines is held: whoever starts
// the next engine of the device finds queue pair 1 free.
func (e *Engine) remove() {
	delete(engines.of, e.dev)
	e.events.Close()
	e.watcher.Wait()
	// Only where the device is closed are there any.
	e.resolvers.Wait()
	e.mu.Lock()
	e.dropPaths(func(*cmfsm.Path, *path) bool { return true })
	e.mu.Unlock()
	// Errors say that all this went with the device.
	_ = e.free()
	e.unwatch()
}

func explain(err error, why string) error { return fmt.Errorf("%w: %s", err, why) }
