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
	var err error
	d.ctx, err = r.openDevice()
	return d.ctx, err
}

// openDevice opens our interface.
func (r *rig) openDevice() (dev *verbs.Context, err error) {
	err = r.ns.Do(func() (err error) {
		dev, err = datapath.Open(ourEnd, &datapath.Options{VLANAddrs: vlanAddrs()})
		return err
	})
	return dev, err
}

// serve starts ops.py.
func (d *device) serve(r *rig) (err error) {
	d.stop, err = r.serve("ops.py", guestTCP)
	return err
}

// serve starts a program of the guest that takes requests on a TCP port, and waits
// until it listens.
func (r *rig) serve(file, port string) (stop func() error, err error) {
	// It outlives the row that starts it.
	ctx, cancel := context.WithCancel(context.Background())
	cmd := r.guest(ctx, 20*time.Minute, "exec python3 -B /share/"+file+" "+port)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	stop = func() error {
		cancel()
		_ = cmd.Wait() // ended by our signal
		return nil
	}
	for end := time.Now().Add(150 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		c, err := dialGuest(ctx, r.ns, families[0], port)
		if err == nil {
			return stop, c.close()
		}
		if time.Now().After(end) {
			return stop, fmt.Errorf("%s does not come up: %w", file, err)
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
