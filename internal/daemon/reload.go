package daemon

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
)

var errStopping = errors.New("the daemon is stopping")

// Reload reads the configuration again and applies what is different. A device that
// stays keeps its queue pairs: what would need it to be opened again waits for the daemon
// to be started again. With an error nothing has changed.
func (d *Daemon) Reload() (control.Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if d.stopping.Load() {
		return control.Reloaded{}, errStopping
	}
	d.tell(d.notify.Reloading())
	defer d.tellManager()
	want, err := Validate(d.params.Load)
	if err != nil {
		return control.Reloaded{}, err
	}
	d.mu.Lock()
	before := d.cfg
	d.mu.Unlock()
	now := until(want, before)
	if err := d.policy.set(now); err != nil {
		return control.Reloaded{}, err
	}
	d.mu.Lock()
	d.cfg = now
	d.mu.Unlock()
	d.level.Set(now.LogLevel)

	r := &reload{d: d, now: now, Reloaded: control.Reloaded{Changes: []string{}, Pending: []string{}}}
	r.general(before, want)
	for _, v := range d.list() {
		if _, stays := now.Interfaces[v.name]; stays {
			r.alter(v)
		} else {
			r.remove(v)
		}
	}
	for _, name := range now.Names() {
		if d.find(name) == nil {
			r.add(name)
		}
	}
	r.log()
	return r.Reloaded, nil
}

// until is what holds until the next start: what is wanted, but for what the daemon has
// made its sockets, its directories and itself by.
func until(want, before *config.Config) *config.Config {
	now := *want
	now.RuntimeDir, now.PinDir, now.User, now.Group = before.RuntimeDir, before.PinDir, before.User, before.Group
	return &now
}

func (d *Daemon) find(name string) *device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.devices[name]
}

// reload is a reload on its way.
type reload struct {
	d   *Daemon
	now *config.Config
	control.Reloaded
}

func (r *reload) changed(format string, args ...any) {
	r.Changes = append(r.Changes, fmt.Sprintf(format, args...))
}

func (r *reload) pending(format string, args ...any) {
	r.Pending = append(r.Pending, fmt.Sprintf(format, args...))
}

// log says what has come of it, a line for each setting.
func (r *reload) log() {
	for _, c := range r.Changes {
		r.d.log.Info("reload: " + c)
	}
	for _, p := range r.Pending {
		r.d.log.Warn("reload: " + p)
	}
	if len(r.Changes)+len(r.Pending) == 0 {
		r.d.log.Info("reload: nothing is different")
	}
}

// general compares what is not about an interface: what holds, and what is wanted.
func (r *reload) general(before, want *config.Config) {
	for _, k := range before.General(want) {
		if k.Live {
			r.changed("%v", k)
		} else {
			r.pending("%v, at the next start", k)
		}
	}
	for _, k := range before.Policy(want) {
		r.changed("%v, for programs that connect from now on", k)
	}
}

// alter applies what is different of an interface that stays.
func (r *reload) alter(v *device) {
	settings, options := r.now.Interface(v.name), r.now.Options(v.name)
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if v.dev == nil { // everything counts when it is opened
		v.settings, v.options = settings, options
		return
	}
	live := false
	for _, k := range v.settings.Differences(v.name, settings) {
		if k.Live {
			live = true
			r.changed("%v", k)
		} else {
			r.pending("%v, at the next start", k)
		}
	}
	if !live {
		return
	}
	if err := v.setActions(options.UnknownQPN, options.NoSocket); err != nil {
		r.pending("interface.%s: %v", v.name, err)
		return
	}
	v.settings.UnknownQPN, v.settings.NoSocket = settings.UnknownQPN, settings.NoSocket
}

// remove closes an interface that is served no longer.
func (r *reload) remove(v *device) {
	if err := r.d.closeDevice(v, false); err != nil {
		r.d.log.Warn("close", "interface", v.name, "error", err)
	}
	r.d.mu.Lock()
	delete(r.d.devices, v.name)
	r.d.mu.Unlock()
	r.changed("interface.%s: closed", v.name)
}

// add opens an interface that is new. When that fails it is tried again.
func (r *reload) add(name string) {
	v := r.d.add(name, r.now)
	if err := r.d.openDevice(v); err != nil {
		r.d.mu.Lock()
		v.err = err
		r.d.mu.Unlock()
		select {
		case r.d.missing <- struct{}{}:
		default: // that is known
		}
		r.pending("interface.%s: %v; it is tried again every %v", name, err, retryEvery)
		return
	}
	r.changed("interface.%s: opened", name)
}
