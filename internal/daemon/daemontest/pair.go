// Package daemontest makes devices for tests that programs reach through a daemon:
// the daemons run in the test's process, over devices that are joined in memory, and
// what is between them and the program is the real socket and shared memory.
package daemontest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Daemon is a server of one device in a runtime directory of its own.
type Daemon struct {
	Server *serve.Server
	Dir    string         // the runtime directory
	Device *verbs.Context // that it serves

	name   string
	served chan error
}

// Start has a daemon serve a device until the test ends, or Stop.
func Start(t testing.TB, dev *verbs.Context, cfg serve.Config) *Daemon {
	t.Helper()
	d := &Daemon{Server: serve.New(cfg), Dir: t.TempDir(), Device: dev, name: dev.Name(), served: make(chan error, 1)}
	if err := d.Server.AddDevice(dev); err != nil {
		t.Fatal(err)
	}
	l, err := shm.Listen(session.SocketPath(d.Dir), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	go func() { d.served <- d.Server.Serve(l) }()
	t.Cleanup(func() { d.Stop(t) })
	return d
}

// Stop ends the daemon in order. Twice is no error.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if d.served == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := d.Server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-d.served; !errors.Is(err, serve.ErrServerClosed) {
		t.Errorf("serve: %v", err)
	}
	d.served = nil
}

// Open opens the daemon's device as a program does. It ends with the test. Tests that
// use it are not parallel: the directory is in the environment.
func (d *Daemon) Open(t testing.TB) *verbs.Context {
	t.Helper()
	t.Setenv(session.DirVariable, d.Dir)
	dev, err := verbs.Open(d.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
}

// Daemons are two daemons whose devices are joined.
func Daemons(t testing.TB, o datapathtest.Options, cfg serve.Config) (a, b *Daemon) {
	t.Helper()
	da, db := datapathtest.Pair(t, o)
	return Start(t, da, cfg), Start(t, db, cfg)
}

// Pair is datapathtest.Pair with a daemon in front of each device.
func Pair(t testing.TB, o datapathtest.Options) (a, b *verbs.Context) {
	t.Helper()
	da, db := Daemons(t, o, serve.Config{Name: "test", Policy: func(serve.Cred) (serve.Limits, error) { return serve.Limits{Privileged: true}, nil }})
	return da.Open(t), db.Open(t)
}
