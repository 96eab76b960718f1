package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeService remembers what it was told.
type fakeService struct {
	mu       sync.Mutex
	did      []string
	policy   Policy
	refuse   string // the device that it does not take
	stuck    bool   // programs do not end
	problems []string
	ended    chan struct{} // closed by Shutdown
}

func newFakeService() *fakeService { return &fakeService{ended: make(chan struct{})} }

func (f *fakeService) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

func (f *fakeService) history() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.did)
}

var errRefused = errors.New("the service does not take it")

func (f *fakeService) AddDevice(d *verbs.Context) error {
	f.note("add %s", d.Name())
	if d.Name() == f.refuse {
		return errRefused
	}
	return nil
}

func (f *fakeService) RemoveDevice(_ context.Context, name string) error {
	f.note("remove %s", name)
	return nil
}

func (f *fakeService) Serve(l *net.UnixListener) error {
	<-f.ended
	return l.Close()
}

// Problems are those that a test says there are.
func (f *fakeService) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems
}

func (f *fakeService) Shutdown(ctx context.Context) error {
	f.note("shutdown")
	close(f.ended)
	if f.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeService) Resources(kind string) []control.Row {
	if kind != "qp" {
		return nil
	}
	return []control.Row{
		{{Key: "ifname", Value: "mem1"}, {Key: "lqpn", Value: 18}},
		{{Key: "ifname", Value: "mem0"}, {Key: "lqpn", Value: 17}},
	}
}

func (f *fakeService) Counts() map[string]map[string]int {
	one := map[string]int{"qp": 1}
	return map[string]map[string]int{"mem0": one, "mem1": one}
}

// rig is a daemon over two devices in memory, mem0 and mem1.
type rig struct {
	t       *testing.T
	dir     string
	file    string
	out     *netns.Await
	log     *netns.Await
	env     map[string]string
	reload  chan os.Signal
	service *fakeService
	d       *Daemon
	stop    context.CancelFunc
	ended   chan error
	client  *control.Client

	mu      sync.Mutex
	devices map[string]*datapath.Device // that can be opened
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, out: netns.NewAwait("ready: "), log: netns.NewAwait("\n"), env: map[string]string{}, reload: make(chan os.Signal, 1),
		service: newFakeService(), devices: map[string]*datapath.Device{}, ended: make(chan error, 1),
	}
	dir, err := os.MkdirTemp("/tmp", "daemon-") // a name that leaves room for that of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r.dir, r.file = filepath.Join(dir, "run"), filepath.Join(dir, "toml")
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	r.devices["mem0"], r.devices["mem1"] = a.Provider().(*datapath.Device), b.Provider().(*datapath.Device)
	return r
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

var errAbsent = errors.New("no such interface")

func (r *rig) open(name string, _ *datapath.Options) (*datapath.Device, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.devices[name]; d != nil {
		return d, nil
	}
	return nil, errAbsent
}

// begin makes the daemon and runs it.
func (r *rig) begin(text string) {
	r.t.Helper()
	r.write(text)
	source := &config.Source{File: r.file, Flags: map[string]string{"runtime-dir": r.dir}}
	var err error
	r.d, err = New(Params{
		Load: source.Load, Out: r.out, Log: r.log, Reload: r.reload,
		Getenv: func(name string) string { return r.env[name] },
		NewService: func(p Policy, _ *slog.Logger) Service {
			r.service.policy = p
			return r.service
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.d.open = r.open
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { r.ended <- r.d.Run(ctx) }()
	r.t.Cleanup(stop)
	r.client = control.NewClient(r.dir)
}

// start is begin, and the daemon gets ready.
func (r *rig) start(text string) {
	r.t.Helper()
	r.begin(text)
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	if err := r.out.Wait(ctx); err != nil {
		r.t.Fatalf("not ready: %v, %s", err, r.log)
	}
}

// end waits for the daemon to end.
func (r *rig) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		left, globErr := filepath.Glob(filepath.Join(r.dir, "*"))
		if globErr != nil || len(left) > 0 {
			r.t.Errorf("left behind: %v, %v", left, globErr)
		}
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("it does not end: %s", r.log)
		return nil
	}
}

// eventually waits for a condition.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	r.t.Fatalf("%s: never; it did %v and said %s", what, r.service.history(), r.log)
}

func (r *rig) health() control.Health {
	r.t.Helper()
	h, err := r.client.Health(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r *rig) wantHistory(want string) {
	r.t.Helper()
	if got := strings.Join(r.service.history(), ", "); got != want {
		r.t.Errorf("the service was told %q, want %q", got, want)
	}
}
