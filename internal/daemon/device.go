package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// device is an interface that the daemon serves. The daemon's lock guards it.
type device struct {
	name  string
	index int // in the order of opening, as rdma(8) counts devices
	// settings are those in effect: of an open device, those that it was opened with and
	// that have changed since.
	settings config.Interface
	options  *datapath.Options
	pins     string // directory of its pins, where there are any

	dev *datapath.Device // nil while it is not open
	ctx *verbs.Context   // of dev
	err error            // why it is not
}

func (v *device) health() control.DeviceHealth {
	if v.dev != nil {
		return control.DeviceHealth{Name: v.name, State: control.StateOpen}
	}
	return control.DeviceHealth{Name: v.name, State: control.StateGone, Error: fmt.Sprint(v.err)}
}

// openDevice opens v's interface and gives it to the service.
func (d *Daemon) openDevice(v *device) error {
	dev, err := d.openPinned(v)
	if err != nil {
		return err
	}
	ctx := verbs.NewContext(dev)
	if err := d.service.AddDevice(ctx); err != nil {
		return errors.Join(err, ctx.Close())
	}
	events, err := dev.Subscribe(verbs.EventDeviceFatal, verbs.EventPortActive, verbs.EventPortErr)
	if err != nil {
		return errors.Join(err, d.release(v.name, ctx))
	}
	addProcs(dev.Workers())
	d.watchers.Go(func() {
		defer addProcs(-dev.Workers())
		d.watch(v.name, dev, events)
	})
	d.mu.Lock()
	v.dev, v.ctx, v.err = dev, ctx, nil
	d.mu.Unlock()
	d.logOpen(v.name, dev)
	return nil
}

func (d *Daemon) logOpen(name string, dev *datapath.Device) {
	attr, err := dev.QueryDevice()
	if err != nil {
		return // gone already: its watcher says so
	}
	d.log.Info("device open", "interface", name, "xdp", attr.XDPMode, "zero_copy", attr.ZeroCopy, "workers", attr.NumWorkers)
	if _, lack := dev.HugePages(); lack != nil {
		d.log.Warn("no huge pages", "interface", name, "reason", lack)
	}
	if why := dev.Fallback(); why != nil {
		d.log.Warn("generic XDP", "interface", name, "reason", why)
	}
}

// watch reports what happens to a device, until that is closed.
func (d *Daemon) watch(name string, dev *datapath.Device, events verbs.ProviderEvents) {
	defer events.Close()
	over := make(chan struct{})
	defer close(over)
	d.watchers.Go(func() { d.watchName(name, dev, over) })
	for {
		e, err := events.NextEvent(context.Background())
		if err != nil {
			return
		}
		switch e.Type {
		case verbs.EventDeviceFatal:
			d.log.Error("device failed", "interface", name)
			select {
			case d.failed <- failure{name, dev}:
			case <-d.ended:
				return
			}
		case verbs.EventPortActive:
			d.log.Info("link up", "interface", name)
		default:
			d.log.Warn("link down", "interface", name)
		}
	}
}

// watchName reports other names of a device's interface, until it is over.
func (d *Daemon) watchName(name string, dev *datapath.Device, over <-chan struct{}) {
	for {
		select {
		case <-dev.Renamed():
			if now := dev.Name(); now != name {
				d.log.Warn("interface renamed: the device keeps its name until the configuration has the new one", "device", name, "interface", now)
			}
		case <-over:
			return
		}
	}
}

// failure is a device that has failed.
type failure struct {
	name string
	dev  *datapath.Device
}

// lose closes a device that has failed. It is opened again when that works.
func (d *Daemon) lose(f failure) {
	d.mu.Lock()
	v := d.devices[f.name]
	if v == nil || v.dev != f.dev {
		d.mu.Unlock()
		return
	}
	ctx := v.ctx
	v.dev, v.ctx, v.err = nil, nil, errGone
	d.mu.Unlock()
	if err := d.release(f.name, ctx); err != nil {
		d.log.Warn("close", "interface", f.name, "error", err)
	}
	d.tellManager()
}

var errGone = errors.New("the interface is gone")

// reopen tries devices that are not open. It reports whether all are now.
func (d *Daemon) reopen() bool {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	all, opened := true, false
	for _, v := range d.list() {
		if d.opened(v) {
			continue
		}
		if err := d.openDevice(v); err != nil {
			all = false
			d.mu.Lock()
			if fmt.Sprint(v.err) != err.Error() {
				d.log.Warn("interface cannot be opened", "interface", v.name, "error", err)
			}
			v.err = err
			d.mu.Unlock()
			continue
		}
		opened = true
	}
	if opened {
		d.tellManager()
	}
	return all
}

func (d *Daemon) opened(v *device) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.dev != nil
}

// releaseTime is how long programs' part of a device may take to end.
const releaseTime = 10 * time.Second

// release ends what programs have of a device, and closes it.
func (d *Daemon) release(name string, dev *verbs.Context) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	return errors.Join(d.service.RemoveDevice(ctx, name), dev.Close())
}

// closeDevice ends a device that is no longer served. The pins stay if keepPins says so;
// frames then get the no_socket action, whatever queue pair they are for.
func (d *Daemon) closeDevice(v *device, keepPins bool) error {
	d.mu.Lock()
	dev, ctx := v.dev, v.ctx
	v.dev, v.ctx, v.err = nil, nil, errGone
	d.mu.Unlock()
	if dev == nil {
		return nil
	}
	var err error
	switch {
	case v.options.PinDir == "":
	case keepPins:
		err = dev.SetActions(v.options.NoSocket, v.options.NoSocket)
	default:
		err = dev.Unpin()
	}
	return errors.Join(err, d.release(v.name, ctx))
}

// setActions changes what may change while the device works.
func (v *device) setActions(unknownQPN, noSocket bpf.Action) error {
	v.options.UnknownQPN, v.options.NoSocket = unknownQPN, noSocket
	if v.dev == nil {
		return nil
	}
	return v.dev.SetActions(unknownQPN, noSocket)
}
