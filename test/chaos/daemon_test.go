package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/daemon"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// beDaemon is `roce-xdp run --user nobody eth0`, which also counts what it has.
func beDaemon(ctx context.Context, a *answers) error {
	src := &config.Source{
		Flags:      map[string]string{"runtime-dir": os.Getenv(dirAEnv), "user": "nobody", "stop-timeout": "3s"},
		Interfaces: []string{netns.Ifname},
	}
	var service daemon.Service
	d, err := daemon.Start(daemon.Params{
		Load: src.Load, Out: lines{}, Log: os.Stderr, Getenv: func(string) string { return "" },
		NewService: func(p daemon.Policy, log *slog.Logger) daemon.Service {
			service = daemon.Clients(p, log)
			return service
		},
	})
	if err != nil {
		return err
	}
	a.by(map[string]func() string{"census": func() string {
		c := inside{Objects: map[string]int{}}
		for _, kind := range control.Kinds {
			c.Objects[kind] = len(service.Resources(kind))
		}
		debug.FreeOSMemory()
		c.Goroutines = runtime.NumGoroutine()
		b, err := json.Marshal(c)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}})
	return d.Run(ctx)
}

// inside is what a daemon knows of itself.
type inside struct {
	Goroutines int
	Objects    map[string]int // by kind, of all clients
}

// lines tells what is written to it.
type lines struct{}

func (lines) Write(b []byte) (int, error) {
	tell("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// server is a daemon that runs.
type server struct {
	*child
	name string
	ns   *netns.NS
	dir  string
}

// newServer starts a daemon in a host's namespace.
func newServer(t *testing.T, name string, host *netns.End) *server {
	t.Helper()
	s := &server{name: name, ns: host.NS, dir: filepath.Join(netns.ShortTempDir(t), "run")}
	s.begin(t)
	return s
}

// begin starts the daemon, once more where it has been killed.
func (s *server) begin(t *testing.T) {
	t.Helper()
	s.child = start(t, "daemon", options{ns: s.ns, root: true, env: []string{dirAEnv + "=" + s.dir}})
	s.wait(t, "roce-xdp: ready: ")
}

// hosts are two daemons, whose interfaces are the ends of a link.
type hosts struct{ a, b *server }

func newHosts(t *testing.T) *hosts {
	t.Helper()
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 4200})
	return &hosts{newServer(t, "a", pair.A), newServer(t, "b", pair.B)}
}

// program starts a program that has both daemons in its environment.
func (h *hosts) program(t *testing.T, role string, seed uint64, more ...string) *child {
	t.Helper()
	return programAt(t, role, h.a, h.b, seed, more...)
}

func programAt(t *testing.T, role string, a, b *server, seed uint64, more ...string) *child {
	t.Helper()
	return start(t, role, options{env: []string{
		dirAEnv + "=" + a.dir, dirBEnv + "=" + b.dir, fmt.Sprintf("%s=%d", seedEnv, seed), moreEnv + "=" + strings.Join(more, " "),
	}})
}

// stop ends both daemons in order.
func (h *hosts) stop(t *testing.T) {
	t.Helper()
	h.a.stop(t)
	h.b.stop(t)
}
