package serve

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// gsi says who has queue pair 1 of a device: the connection manager from the beginning,
// whether a program uses it or not, because peers ask and are to be answered; or a
// privileged program for as long as it has made the queue pair, unless others use the
// connection manager.
type gsi struct {
	ctx *verbs.Context

	mu     sync.Mutex
	at     *cmengine.Attendance // nil while a program has it
	closed bool
}

// attend has the connection manager take queue pair 1, if it has it not.
func (g *gsi) attend() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

// back is attend after a program that may have had the queue pair. If another one has it
// now, that one's end is the time.
func (g *gsi) back(log *slog.Logger) {
	if err := g.attend(); err != nil && !errors.Is(err, verbs.ErrBusy) && !errors.Is(err, verbs.ErrClosed) {
		log.Warn(noManager, "device", g.ctx.Name(), "err", err)
	}
}

const noManager = "no connection manager: peers that connect get no answer"

// take is attend with the lock held.
func (g *gsi) take() (err error) {
	if g.at == nil && !g.closed {
		g.at, err = cmengine.Attend(g.ctx)
	}
	return err
}

// lend has create make a program's queue pair 1.
func (g *gsi) lend(create func() (verbs.ProviderQP, error)) (verbs.ProviderQP, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave()
	q, err := create()
	if err != nil {
		_ = g.take() // it fails as create has: somebody has the queue pair, or the device has ended
	}
	return q, err
}

// close has the connection manager leave for good. What programs still have of it goes on.
func (g *gsi) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.leave()
}

func (g *gsi) leave() {
	if g.at != nil {
		g.at.Leave()
		g.at = nil
	}
}
