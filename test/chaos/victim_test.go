package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// beVictim does all that a program can do with its devices, all at once, so that a
// kill at any moment hits it in the midst of something: traffic, objects that are made
// and destroyed, connections, devices that are opened and closed.
func beVictim(ctx context.Context, a *answers) error {
	r := seedOfChild()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.by(nil)
	l, err := newLife(r, steadfast)
	if err != nil {
		return err
	}
	tell("up")
	jobs := []func(context.Context, *rand.Rand) error{
		func(ctx context.Context, r *rand.Rand) error {
			return until(ctx, func() error { return l.step(r) })
		},
		func(ctx context.Context, r *rand.Rand) error { return churn(ctx, l.a, r) },
		func(ctx context.Context, r *rand.Rand) error { return churn(ctx, l.b, r) },
		func(ctx context.Context, r *rand.Rand) error {
			return until(ctx, func() error {
				other, err := newLife(r, steadfast)
				if err != nil {
					return err
				}
				return other.close()
			})
		},
		func(ctx context.Context, r *rand.Rand) error { return connections(ctx, l) },
	}
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		wg.Go(func() {
			if errs[i] = job(ctx, own); errs[i] != nil {
				tell("fail: job %d: %v", i, errs[i]) // now, as the test may kill us at any time
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, l.close())...)
}

func until(ctx context.Context, f func() error) error {
	for ctx.Err() == nil {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// churn makes and destroys objects of all kinds, some of which are there at a time.
func churn(ctx context.Context, dev *verbs.Context, r *rand.Rand) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	var undo []func() error
	return until(ctx, func() error {
		if n := len(undo); n > 0 && (n >= 24 || r.IntN(2) == 1) {
			i := r.IntN(n)
			f := undo[i]
			undo = append(undo[:i], undo[i+1:]...)
			return f()
		}
		f, err := makings[r.IntN(len(makings))](dev, pd, r)
		if err != nil {
			return err
		}
		undo = append(undo, f)
		return nil
	})
}

// making makes something and returns what destroys it.
type making func(dev *verbs.Context, pd *verbs.PD, r *rand.Rand) (func() error, error)

// destroy is what undoes the making of an object.
func destroy[T interface{ Destroy() error }](o T, err error) (func() error, error) {
	return func() error { return o.Destroy() }, err
}

var makings = []making{
	func(dev *verbs.Context, _ *verbs.PD, r *rand.Rand) (func() error, error) {
		return destroy(dev.CreateCQ(1 + r.IntN(5000)))
	},
	func(_ *verbs.Context, pd *verbs.PD, r *rand.Rand) (func() error, error) {
		return destroy(pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 1 + r.IntN(1000), MaxSGE: 1}))
	},
	func(dev *verbs.Context, pd *verbs.PD, r *rand.Rand) (func() error, error) {
		cq, err := dev.CreateCQ(16)
		if err != nil {
			return nil, err
		}
		types := []verbs.QPType{verbs.RC, verbs.UC, verbs.UD}
		qp, err := pd.CreateQP(&verbs.QPInitAttr{
			Type: types[r.IntN(len(types))], SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1 + r.IntN(200), MaxRecvWR: 1 + r.IntN(200)},
		})
		return func() error { return errors.Join(qp.Destroy(), cq.Destroy()) }, err
	},
	func(dev *verbs.Context, pd *verbs.PD, r *rand.Rand) (func() error, error) {
		buf, err := dev.AllocBuffer(1 + r.IntN(300_000))
		if err != nil {
			return nil, err
		}
		mr, err := pd.RegisterMemory(buf, verbstest.All)
		return func() error { return errors.Join(mr.Deregister(), dev.FreeBuffer(buf)) }, err
	},
	func(_ *verbs.Context, pd *verbs.PD, r *rand.Rand) (func() error, error) {
		mr, err := pd.RegisterMemory(make([]byte, 1+r.IntN(100_000)), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		return func() error { return mr.Deregister() }, err
	},
	func(dev *verbs.Context, _ *verbs.PD, r *rand.Rand) (func() error, error) {
		// A domain with a name is shared with the other programs of the user.
		x, err := dev.OpenXRCD(&verbs.XRCDInitAttr{Name: fmt.Sprintf("domain %d", r.IntN(4)), Create: true})
		return func() error { return x.Close() }, err
	},
}

// connections makes and ends connections between the devices, and leaves some to be
// ended by the death of the program.
func connections(ctx context.Context, l *life) error {
	gid, err := l.b.DefaultGID()
	if err != nil {
		return err
	}
	at := fmt.Sprintf("%v:%d", gid.GID.Addr().Unmap(), 20000+os.Getpid()%40000)
	listener, err := cm.Listen(l.b, at, nil)
	if err != nil {
		return err
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		served <- until(ctx, func() error {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return err
			}
			select {
			case <-conn.Done():
			case <-ctx.Done():
			}
			return conn.Close()
		})
	}()
	err = until(ctx, func() error {
		conn, err := cm.Dial(ctx, l.a, at, nil)
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return errors.Join(conn.Disconnect(within), conn.Close())
	})
	if ctx.Err() != nil {
		return nil // whatever was under way was cut short
	}
	select {
	case serr := <-served:
		err = errors.Join(err, serr)
	default:
	}
	return err
}

// failureIn is the line of what a child said that tells that something went wrong.
func failureIn(said string) string {
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "fail: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
