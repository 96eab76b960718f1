package verbs

import (
	"context"
	"errors"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// lateAnswer is how long after a deadline the daemon, which has it too, may say what it
// has not got by then.
const lateAnswer = time.Second

// wait makes a request for which the daemon may wait for other hosts, until ctx ends or
// the device is about to be closed. What it answers counts in any case, so that nothing
// is left behind in the daemon of which the program does not know.
func (d *remote) wait(ctx context.Context, op proto.Op, req, rep any) error {
	patient, cancel := d.answered(ctx)
	defer cancel()
	err := fromDaemon(d.s.Complete(patient, op, req, rep))
	if errors.Is(err, context.Canceled) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case patient.Err() != nil:
			return ErrClosed
		}
	}
	return err
}

// answered is ctx with a deadline that is a little later, and which ends when the device
// is about to be closed.
func (d *remote) answered(ctx context.Context) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-patient.Done():
			return
		case <-d.hurry:
			cancel()
			return
		case <-ctx.Done():
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
			return
		}
		late := time.NewTimer(lateAnswer)
		defer late.Stop()
		select {
		case <-late.C:
		case <-d.hurry:
		case <-patient.Done():
		}
		cancel()
	}()
	return patient, cancel
}

// Interrupt ends what waits for other hosts, and will, with ErrClosed: Close is about to
// come.
func (d *remote) Interrupt() { d.hurryOnce.Do(func() { close(d.hurry) }) }
