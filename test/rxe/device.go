package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// device is our device and the guest's ops.py, both started with the first row
// that needs them: the ping-pong rows open the interface themselves.
type device struct {
	ctx  *verbs.Context
	stop func() error
}

func (d *device) open(ctx context.Context, r *rig) (*verbs.Context, error) {
	if d.ctx != nil {
		return d.ctx, nil
	}
	if err := d.serve(r); err != nil {
		return nil, err
	}
	err := r.ns.Do(func() (err error) {
		d.ctx, err = datapath.Open(ourEnd, nil)
		return err
	})
	return d.ctx, err
}

// serve starts ops.py in the guest and waits until it listens.
func (d *device) serve(r *rig) error {
	// It outlives the row that starts it.
	ctx, cancel := context.WithCancel(context.Background())
	cmd := r.guest(ctx, 10*time.Minute, "exec python3 /share/ops.py "+guestTCP)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	d.stop = func() error {
		cancel()
		_ = cmd.Wait() // ended by our signal
		return nil
	}
	for end := time.Now().Add(50 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		c, err := dialGuest(ctx, r.ns, families[0])
		if err == nil {
			return c.close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("ops.py does not come up: %w", err)
		}
	}
}

func (d *device) close() error {
	var errs []error
	if d.ctx != nil {
		errs = append(errs, d.ctx.Close())
	}
	if d.stop != nil {
		errs = append(errs, d.stop())
	}
	return errors.Join(errs...)
}
