package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// bePhoenix has traffic until a daemon ends, tells which, closes everything and
// begins again, as often as it takes.
func bePhoenix(ctx context.Context, a *answers) error {
	r := seedOfChild()
	var steps atomic.Int64
	a.by(map[string]func() string{"steps": func() string { return fmt.Sprint(steps.Load()) }})
	for ctx.Err() == nil {
		l, err := awaken(ctx, r)
		if err != nil {
			return err
		}
		tell("up")
		if err := live(ctx, l, r, &steps); err != nil {
			return err
		}
	}
	return nil
}

// awaken opens both devices, as soon as that is possible.
func awaken(ctx context.Context, r *rand.Rand) (*life, error) {
	for {
		l, err := newLife(r, alert)
		switch {
		case err == nil:
			return l, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		// A daemon that is not there, or that was ended while it was being talked to.
		case !errors.Is(err, verbs.ErrNoDaemon) && !errors.Is(err, verbs.ErrClosed):
			return nil, fmt.Errorf("a new beginning: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// live has traffic until a daemon or the test ends, after which nothing is left.
func live(ctx context.Context, l *life, r *rand.Rand, steps *atomic.Int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := watchLife(ctx, l, cancel)
	if err != nil {
		// The daemon may have ended in between.
		if cerr := l.close(); cerr != nil || !errors.Is(err, verbs.ErrClosed) {
			return errors.Join(err, cerr)
		}
		return nil
	}
	var serr error
	for ctx.Err() == nil && serr == nil {
		if serr = l.step(r); serr == nil {
			steps.Add(1)
		}
	}
	// Traffic ends with an error only because a daemon does: that is told within the
	// time that the test allows, or this waits for ever.
	<-ctx.Done()
	if err := l.check(); err != nil {
		return err
	}
	err = l.close()
	return errors.Join(err, w.wait())
}

// watcher are the goroutines that wait at both devices of a life.
type watcher struct {
	wg   sync.WaitGroup
	errs [4]error
}

// watchLife waits at both devices, for events and for completions that do not come.
// fatal is called when one of them ends.
func watchLife(ctx context.Context, l *life, fatal func()) (*watcher, error) {
	w := &watcher{}
	for i, dev := range []*verbs.Context{l.a, l.b} {
		events, err := dev.Subscribe(verbs.EventDeviceFatal)
		if err != nil {
			return nil, err
		}
		cq, err := dev.CreateCQ(1)
		if err != nil {
			return nil, err
		}
		w.wg.Go(func() {
			e, err := events.Next(context.Background())
			if err == nil {
				tell("fatal %d %d", i, time.Now().UnixNano())
				fatal()
			}
			if err == nil && e.Type != verbs.EventDeviceFatal || err != nil && !errors.Is(err, verbs.ErrClosed) {
				w.errs[i] = fmt.Errorf("device %d: event %v, %w", i, e.Type, err)
			}
		})
		w.wg.Go(func() {
			var wcs [1]verbs.WC
			n, err := cq.Wait(context.Background(), wcs[:])
			if n != 0 || !errors.Is(err, verbs.ErrClosed) {
				w.errs[2+i] = fmt.Errorf("device %d: %d completions, %w, want ErrClosed", i, n, err)
			}
		})
	}
	return w, nil
}

// wait returns when all that waited has been woken.
func (w *watcher) wait() error {
	w.wg.Wait()
	return errors.Join(w.errs[:]...)
}

// fatalAt is when a phoenix learned that the daemon of device i has ended, of what
// follows "fatal " in its line.
func fatalAt(line string) (i int, at time.Time, err error) {
	device, ns, ok := strings.Cut(line, " ")
	i, err = strconv.Atoi(device)
	n, nerr := strconv.ParseInt(ns, 10, 64)
	if !ok || err != nil || nerr != nil {
		return 0, at, fmt.Errorf("%q: %w", line, errors.Join(err, nerr))
	}
	return i, time.Unix(0, n), nil
}
