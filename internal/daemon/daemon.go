package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/daemon/sdnotify"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// Params are what a Daemon is made of.
type Params struct {
	// Load reads the configuration, at the start and for each reload.
	Load func() (*config.Config, error)
	// NewService makes what serves other programs: Clients.
	NewService NewService
	// Out gets the line that says that the daemon is ready, Log what happens.
	Out, Log io.Writer
	// Reload has an element for each time that the configuration is to be read again.
	Reload <-chan os.Signal
	// Getenv is os.Getenv: for the service manager.
	Getenv func(string) string
}

// retryEvery is how often an interface that is not there is looked for.
const retryEvery = time.Second

// Daemon serves interfaces. Make it with New, run it once.
type Daemon struct {
	params  Params
	log     *slog.Logger
	level   *slog.LevelVar
	open    func(string, *datapath.Options) (*datapath.Device, error)
	service Service
	policy  policy
	notify  *sdnotify.Notifier
	began   time.Time

	failed   chan failure
	missing  chan struct{}  // has an element when a reload could not open an interface
	ended    chan struct{}  // closed when devices are not looked after any more
	watchers sync.WaitGroup // of devices

	reloading sync.Mutex // held while the set of devices is changed
	stopping  atomic.Bool
	made      []string // directories that were made before, for it to remove if its start fails
	ready     bool     // its start has not failed; of Run's goroutine

	mu      sync.Mutex // guards what follows
	cfg     *config.Config
	devices map[string]*device
	next    int // index of the next device
}

// New reads the configuration and makes a daemon by it; nothing is opened yet.
func New(p Params) (*Daemon, error) {
	cfg, err := p.Load()
	if err != nil {
		return nil, err
	}
	return newDaemon(p, cfg)
}

func newDaemon(p Params, cfg *config.Config) (_ *Daemon, err error) {
	d := &Daemon{
		params: p, level: new(slog.LevelVar), open: datapath.OpenDevice, cfg: cfg,
		failed: make(chan failure), missing: make(chan struct{}, 1), ended: make(chan struct{}), devices: map[string]*device{},
	}
	d.level.Set(cfg.LogLevel)
	d.log = newLogger(p.Log, d.level, p.Getenv)
	if d.notify, err = sdnotify.New(p.Getenv); err != nil {
		return nil, err
	}
	if err := d.policy.set(cfg); err != nil {
		return nil, err
	}
	return d, nil
}

// Run opens the interfaces and serves them until ctx ends. A start that fails leaves nothing
// that was not there before; else the runtime directory stays, and pins where the
// configuration wants them.
func (d *Daemon) Run(ctx context.Context) (err error) {
	d.began = time.Now()
	dir, err := openRunDir(d.cfg.RuntimeDir)
	if err != nil {
		return err
	}
	dir.made = append(dir.made, d.made...)
	defer func() {
		if d.ready {
			err = errors.Join(err, dir.close())
		} else {
			err = errors.Join(err, dir.undo())
		}
	}()
	d.service = d.params.NewService(d.policy.decide, d.log)
	var ends []func() error
	defer func() { // last, so that the control socket tells of the stop
		for _, end := range ends {
			err = errors.Join(err, end())
		}
	}()
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.openAll(ctx); err != nil {
		return err
	}
	served := make(chan error, 2)
	if ends, err = d.listen(dir, served); err != nil {
		return err
	}
	d.ready = true
	fmt.Fprintf(d.params.Out, "roce-xdp: ready: %s; sockets in %s\n", strings.Join(d.cfg.Names(), ", "), d.cfg.RuntimeDir)
	d.tellManager()
	return d.attend(ctx, served)
}

// openAll opens the interfaces of the configuration. One that cannot be opened is a
// mistake at this time.
func (d *Daemon) openAll(ctx context.Context) error {
	for _, name := range d.cfg.Names() {
		if ctx.Err() != nil {
			return nil // Run ends as it was told to
		}
		v := d.add(name, d.cfg)
		if err := d.openDevice(v); err != nil {
			return err
		}
	}
	return nil
}

// add enters a device that is not open yet.
func (d *Daemon) add(name string, cfg *config.Config) *device {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := &device{name: name, index: d.next, settings: cfg.Interface(name), options: cfg.Options(name), pins: cfg.PinsOf(name), err: errGone}
	d.next++
	d.devices[name] = v
	return v
}

// list are the devices in the order of their indices.
func (d *Daemon) list() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*device, 0, len(d.devices))
	for _, v := range d.devices {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *device) int { return cmp.Compare(a.index, b.index) })
	return all
}

// listen makes the sockets and answers at them. ends undo it.
func (d *Daemon) listen(dir *runDir, served chan<- error) (ends []func() error, err error) {
	serve := func(what string, l *net.UnixListener, f func(*net.UnixListener) error) {
		go func() {
			if err := f(l); err != nil {
				served <- fmt.Errorf("%s: %w", what, err)
			}
		}()
	}
	v, err := dir.listen("unixpacket", session.SocketName, 0o666, -1)
	if err != nil {
		return nil, err
	}
	ends = append(ends, func() error { return ignoreClosed(v.Close()) })
	serve(session.SocketName, v, d.service.Serve)
	mode, gid := os.FileMode(0o600), -1
	if g := d.policy.controlGroup(); g >= 0 {
		mode, gid = 0o660, g
	}
	l, err := dir.listen("unix", control.SocketName, mode, gid)
	if err != nil {
		return ends, err
	}
	s := control.NewServer(d, d.policy.control, d.log)
	ends = append(ends, s.Close)
	serve(control.SocketName, l, s.Serve)
	return ends, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// attend looks after the daemon until ctx ends or it can serve no more.
func (d *Daemon) attend(ctx context.Context, served <-chan error) error {
	var watchdog <-chan time.Time
	if every := d.notify.Interval(); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		watchdog = t.C
	}
	var retry <-chan time.Time // set while a device is missing
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case f := <-d.failed:
			d.lose(f)
			retry = time.After(retryEvery)
		case <-d.missing:
			retry = time.After(retryEvery)
		case <-retry:
			retry = nil
			if !d.reopen() {
				retry = time.After(retryEvery)
			}
		case <-d.params.Reload:
			if _, err := d.Reload(); err != nil {
				d.log.Error("reload", "error", err)
			}
		case <-watchdog:
			d.tell(d.notify.Watchdog())
		}
	}
}

// stop disconnects peers, in the time that there is, and closes everything.
func (d *Daemon) stop() error {
	d.stopping.Store(true)
	d.tell(d.notify.Stopping())
	d.reloading.Lock() // a reload that the control socket asked for ends first
	defer d.reloading.Unlock()
	var errs []error
	d.mu.Lock()
	timeout := d.cfg.StopTimeout.Std()
	d.mu.Unlock()
	d.log.Info("stopping", "timeout", timeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := d.service.Shutdown(ctx); err != nil {
		d.log.Warn("not all programs have ended in time", "timeout", timeout, "error", err)
	}
	close(d.ended)
	for _, v := range d.list() {
		errs = append(errs, d.closeDevice(v, d.ready || d.tookOver(v)))
	}
	d.watchers.Wait()
	return errors.Join(errs...)
}

// tellManager tells the service manager which devices are there.
func (d *Daemon) tellManager() { d.tell(d.notify.Ready(d.status())) }

// status is a line about all devices.
func (d *Daemon) status() string {
	var parts []string
	for _, v := range d.list() {
		if h := v.healthOf(d); h.State == control.StateOpen {
			parts = append(parts, v.name)
		} else {
			parts = append(parts, v.name+" ("+h.Error+")")
		}
	}
	return "Serving " + strings.Join(parts, ", ")
}

// healthOf is health under the lock.
func (v *device) healthOf(d *Daemon) control.DeviceHealth {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.health()
}

func (d *Daemon) tell(err error) {
	if err != nil {
		d.log.Warn("service manager", "error", err)
	}
}

// newLogger writes text. The journal puts the time in front itself.
func newLogger(w io.Writer, level slog.Leveler, getenv func(string) string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(w, o))
}
