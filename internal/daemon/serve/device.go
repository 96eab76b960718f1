package serve

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// device is an adapter that is shared out.
type device struct {
	name    string
	ctx     *verbs.Context
	dev     *datapath.Device
	workers int
	states  *shm.Memory // of the workers: clients only read it
	cm      cmengine.Service
	gsi     gsi
	removed atomic.Bool
}

// newDevice prepares a device of this process for clients.
func newDevice(ctx *verbs.Context) (*device, error) {
	dev, ok := ctx.Provider().(*datapath.Device)
	if !ok {
		return nil, fmt.Errorf("serve: %w: %s is not a device that this process has opened", verbs.ErrInvalid, ctx.Name())
	}
	a, err := ctx.QueryDevice()
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	d := &device{name: ctx.Name(), ctx: ctx, dev: dev, workers: a.NumWorkers, cm: cmengine.Of(ctx), gsi: gsi{ctx: ctx}}
	if d.states, err = newStates(a.NumWorkers); err != nil {
		return nil, fmt.Errorf("serve: states of the workers of %s: %w", d.name, err)
	}
	if err := dev.PublishStates(d.states.Bytes(), d.states.Close); err != nil {
		return nil, errors.Join(fmt.Errorf("serve: states of the workers of %s: %w", d.name, err), d.states.Close())
	}
	return d, nil
}

// open makes a namespace for a session.
func (d *device) open(s *session, r *resources) (*datapath.Client, error) {
	l := &s.limits
	return d.dev.NewClient(&datapath.ClientConfig{
		Name: fmt.Sprintf("client %d", s.id), Owner: fmt.Sprintf("uid %d", s.cred.UID),
		NewRing: r.rings.make, FreeRing: r.rings.free,
		Bells: r.doors.bells, WakeFDs: r.doors.wakers(),
		Privileged: l.Privileged,
		Limits: datapath.Limits{
			PDs: l.PDs, MRs: l.MRs, CQs: l.CQs, QPs: l.QPs, SRQs: l.SRQs, AHs: l.AHs, XRCDs: l.XRCDs, Groups: l.Groups, Bytes: l.Registered,
			Messages: l.Messages, BytesPerSecond: l.BytesPerSecond,
		},
	})
}

// close gives back what the server has on the device, which may have ended.
func (d *device) close() error {
	d.gsi.close()
	if err := d.dev.PublishStates(nil, nil); err != nil && !errors.Is(err, verbs.ErrClosed) {
		return fmt.Errorf("serve: states of the workers of %s: %w", d.name, err)
	}
	return nil
}

// newStates makes the page of the workers' states.
func newStates(workers int) (*shm.Memory, error) {
	n, err := queue.StatesSize(workers)
	if err != nil {
		return nil, err
	}
	return shm.Create("roce-xdp states", n, shm.Options{ReadOnly: true})
}
