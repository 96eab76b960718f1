package cmengine

import (
	"context"
	"errors"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/verbs"
)

const (
	maxPaths     = 1024 // address handles kept
	maxResolving = 16   // goroutines that look for the way of answers
	maxWaiting   = 64   // datagrams that wait for one path
	// pathRest is how long a path is unused before it may go: longer than its last
	// datagram waits in a send queue.
	pathRest = 2 * time.Second
)

// path is the way of datagrams to a peer.
type path struct {
	ah      *verbs.AH
	err     error
	ready   chan struct{} // closed when ah or err is set
	used    mono.Time
	waiting []cmfsm.MAD
}

var errTooManyPaths = errors.New("too many ways are being looked for: try again")

// pathTo is the path of a key; one that is not there is being looked for when it
// returns. The lock is held.
func (e *Engine) pathTo(key cmfsm.Path) (*path, error) {
	if p := e.paths[key]; p != nil {
		return p, nil
	}
	if len(e.paths) >= maxPaths {
		return nil, errTooManyPaths
	}
	p := &path{ready: make(chan struct{}), used: e.now()}
	e.paths[key] = p
	if e.sweep == mono.Never {
		e.sweep = e.now().Add(pathRest)
		if e.sweep < e.armed {
			e.wake()
		}
	}
	e.resolving++
	e.resolvers.Add(1)
	go e.resolve(key, p)
	return p, nil
}

// resolve makes the handle of a path and sends what waits for it.
func (e *Engine) resolve(key cmfsm.Path, p *path) {
	defer e.resolvers.Done()
	ah, err := e.createAH(&key)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resolving--
	waiting := p.waiting
	p.ah, p.err, p.waiting, p.used = ah, err, nil, e.now()
	close(p.ready)
	defer func() {
		if e.idle() {
			e.wake()
		}
	}()
	if err != nil {
		e.count[ctrNoPath] += uint64(len(waiting))
		if e.paths[key] == p { // a later datagram tries anew
			delete(e.paths, key)
		}
		return
	}
	for i := range waiting {
		e.post(p, &waiting[i])
	}
}

func (e *Engine) createAH(key *cmfsm.Path) (*verbs.AH, error) {
	gids, err := e.dev.GIDs()
	if err != nil {
		return nil, err
	}
	index := IndexOf(gids, key.Local, key.VLAN)
	if index < 0 {
		return nil, notOurs(key.Local, gids)
	}
	return e.pd.CreateAH(&verbs.AddressVector{
		DGID: ibv.GIDOf(key.Remote), SGIDIndex: index, FlowLabel: key.FlowLabel, TrafficClass: key.TrafficClass,
		HopLimit: key.HopLimit, SL: key.SL, Port: 1,
	})
}

// reach waits until there is a path.
func (e *Engine) reach(ctx context.Context, key cmfsm.Path) error {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return verbs.ErrClosed
	}
	p, err := e.pathTo(key)
	if err == nil {
		p.used = e.now()
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-p.ready:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sweepPaths forgets paths that nobody has used for a while. The lock is held.
func (e *Engine) sweepPaths(now mono.Time) {
	e.dropPaths(func(_ *cmfsm.Path, p *path) bool { return now.Sub(p.used) > pathRest })
	e.sweep = mono.Never
	if len(e.paths) > 0 {
		e.sweep = now.Add(pathRest)
	}
}

// dropPaths forgets paths that stale names. The lock is held.
func (e *Engine) dropPaths(stale func(key *cmfsm.Path, p *path) bool) {
	for key, p := range e.paths {
		if p.ah == nil || !stale(&key, p) {
			continue
		}
		delete(e.paths, key)
		// An error says that it went with the device.
		_ = p.ah.Destroy()
	}
}
