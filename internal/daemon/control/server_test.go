package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/internal/buildinfo"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// TestMain finds goroutines that are left. A refused request's lingers half a second, by
// net/http's own choice.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// fixed is a Source that says always the same.
type fixed struct {
	health Health
	err    error
}

func (f *fixed) Links() []Row { return []Row{{{"ifname", "eth0"}}, {{"ifname", "eth1"}}} }
func (f *fixed) Resources(kind string) []Row {
	return []Row{{{"ifname", "eth0"}, {"kind", "it is " + kind}}}
}
func (f *fixed) Statistics() ([]Row, error) { return []Row{{{"sent_pkts", uint64(7)}}}, f.err }
func (f *fixed) Health() Health             { return f.health }
func (f *fixed) Reload() (Reloaded, error) {
	return Reloaded{Changes: []string{"a"}, Pending: []string{}}, f.err
}

// serve gives the runtime directory of a server.
func serve(t *testing.T, source Source, allow func(*shm.Cred) bool) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(source, allow, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func everyone(*shm.Cred) bool { return true }

func TestClientAndServer(t *testing.T) {
	source := &fixed{health: Health{Status: StatusOK, PID: 12, Devices: []DeviceHealth{{Name: "eth0", State: StateOpen}}}}
	c := NewClient(serve(t, source, everyone))
	ctx := t.Context()
	check := func(what string, got any, err error, want any) {
		t.Helper()
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", what, err, d)
		}
	}
	rows, err := c.Links(ctx)
	check("links", rows, err, source.Links())
	rows, err = c.Resources(ctx, "")
	check("resources", rows[0].Text("kind"), err, "it is ")
	for _, kind := range Kinds {
		rows, err = c.Resources(ctx, kind)
		check(kind, rows[0].Text("kind"), err, "it is "+kind)
	}
	rows, err = c.Statistics(ctx)
	check("statistics", rows[0].Text("sent_pkts"), err, "7")
	h, err := c.Health(ctx)
	check("health", h, err, source.health)
	r, err := c.Reload(ctx)
	check("reload", r, err, Reloaded{Changes: []string{"a"}, Pending: []string{}})
}

func TestServerErrors(t *testing.T) {
	source := &fixed{err: errors.New("the reason")}
	c := NewClient(serve(t, source, everyone))
	_, statistics := c.Statistics(t.Context())
	_, reload := c.Reload(t.Context())
	_, kind := c.Resources(t.Context(), "spoon")
	for _, tt := range []struct {
		name string
		err  error
		says string
	}{
		{"statistics", statistics, "the reason"},
		{"reload", reload, "the reason"},
		{"unknown kind", kind, `there are no resources "spoon", but pd, cq`},
		{"unknown path", c.do(t.Context(), http.MethodGet, "spoons", nil), "there is no GET /v1/spoons"},
		{"wrong method", c.do(t.Context(), http.MethodPost, "link", nil), "there is no POST /v1/link"},
	} {
		if !errors.Is(tt.err, ErrRefused) || !strings.Contains(tt.err.Error(), tt.says) {
			t.Errorf("%s: %v, want that it says %q", tt.name, tt.err, tt.says)
		}
	}
}

// status asks for a path and gives the answer's status.
func status(t *testing.T, c *Client, path string) (int, string) {
	t.Helper()
	r, err := c.http.Get("http://daemon" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// A daemon that lacks a device is alive and not ready.
func TestReady(t *testing.T) {
	source := &fixed{health: Health{Status: StatusDegraded, Devices: []DeviceHealth{{Name: "eth0", State: StateGone, Error: "away"}}}}
	c := NewClient(serve(t, source, everyone))
	if code, text := status(t, c, "/v1/ready"); code != http.StatusServiceUnavailable || !strings.Contains(text, `"error":"away"`) {
		t.Errorf("ready: %d %s", code, text)
	}
	if code, _ := status(t, c, "/v1/health"); code != http.StatusOK {
		t.Errorf("health: %d", code)
	}
	source.health.Status = StatusOK
	if code, _ := status(t, c, "/v1/ready"); code != http.StatusOK {
		t.Errorf("ready: %d", code)
	}
	if code, text := status(t, c, "/v1/version"); code != http.StatusOK || !strings.Contains(text, buildinfo.Get().Go) {
		t.Errorf("version: %d %s", code, text)
	}
}

// Whom the server does not know gets no answer, and it knows who asks.
func TestWhoAsks(t *testing.T) {
	seen := make(chan shm.Cred, 1)
	c := NewClient(serve(t, &fixed{}, func(p *shm.Cred) bool { seen <- *p; return false }))
	if _, err := c.Links(t.Context()); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "only root") {
		t.Error(err)
	}
	if p := <-seen; p.PID != os.Getpid() || int(p.UID) != os.Getuid() {
		t.Errorf("it was %+v", p)
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewClient(dir).Links(t.Context()); !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "roce-xdp run") {
		t.Errorf("no socket: %v", err)
	}
	// One that a daemon left which was killed.
	path := filepath.Join(dir, SocketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := NewClient(dir).Links(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("dead socket: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewClient(dir).Links(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What is no request of HTTP ends the connection and nothing else.
func TestGarbage(t *testing.T) {
	dir := serve(t, &fixed{}, everyone)
	for _, garbage := range [][]byte{
		{}, {0}, []byte("GET\r\n\r\n"), []byte("GET /v1/link HTTP/9.9\r\n\r\n"), bytes.Repeat([]byte("x"), maxHeader*2),
		append([]byte("GET /v1/link HTTP/1.1\r\nHost: x\r\nA: "), bytes.Repeat([]byte("y"), maxHeader*2)...),
	} {
		conn, err := net.Dial("unix", filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(garbage)
		_ = conn.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if bytes.Contains(answer, []byte(" 200 ")) {
			t.Errorf("%.40q is answered: %s", garbage, answer)
		}
	}
	if _, err := NewClient(dir).Links(t.Context()); err != nil {
		t.Error(err)
	}
}
