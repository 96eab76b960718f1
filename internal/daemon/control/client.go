package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"
)

// Errors of a Client; compare with errors.Is.
var (
	// ErrNoDaemon: nobody answers in the runtime directory.
	ErrNoDaemon = errors.New("no daemon runs")
	// ErrDenied: the daemon does not answer this user.
	ErrDenied = errors.New("not allowed")
	// ErrRefused: the daemon answered with an error.
	ErrRefused = errors.New("the daemon refuses")
)

// clientTimeout is how long an answer may take. A reload opens devices.
const clientTimeout = 30 * time.Second

// maxAnswer bounds an answer: a million queue pairs are less.
const maxAnswer = 1 << 30

// Client asks the daemon of a runtime directory.
type Client struct {
	dir  string
	http http.Client
}

// NewClient makes a client; nothing is opened before the first question.
func NewClient(runtimeDir string) *Client {
	path := filepath.Join(runtimeDir, SocketName)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{dir: runtimeDir, http: http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   clientTimeout,
	}}
}

// Links are the devices.
func (c *Client) Links(ctx context.Context) ([]Row, error) { return c.rows(ctx, "link") }

// Resources are the objects of a kind, or their numbers for an empty kind.
func (c *Client) Resources(ctx context.Context, kind string) ([]Row, error) {
	if kind == "" {
		return c.rows(ctx, "resource")
	}
	return c.rows(ctx, "resource/"+kind)
}

// Statistics are the counters.
func (c *Client) Statistics(ctx context.Context) ([]Row, error) { return c.rows(ctx, "statistic") }

// Health asks whether the daemon does all of its work.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.do(ctx, http.MethodGet, "health", &h)
}

// Reload has the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context) (r Reloaded, err error) {
	return r, c.do(ctx, http.MethodPost, "reload", &r)
}

func (c *Client) rows(ctx context.Context, what string) (rows []Row, err error) {
	return rows, c.do(ctx, http.MethodGet, what, &rows)
}

func (c *Client) do(ctx context.Context, method, what string, to any) error {
	// The host does not matter: there is one at the socket.
	r, err := http.NewRequestWithContext(ctx, method, "http://daemon/v1/"+what, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.explain(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return c.explain(err)
	}
	if answer.StatusCode == http.StatusOK {
		return json.Unmarshal(text, to)
	}
	var f failure
	if err := json.Unmarshal(text, &f); err != nil || f.Error == "" {
		f.Error = answer.Status
	}
	if answer.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%w: %s", ErrDenied, f.Error)
	}
	return fmt.Errorf("%w: %s", ErrRefused, f.Error)
}

// explain says what to do when the daemon cannot be asked.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w in %s: start one with roce-xdp run IFACE, or name its directory with --runtime-dir", ErrNoDaemon, c.dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root, the daemon's user and its control group may use %s", ErrDenied, filepath.Join(c.dir, SocketName))
	default:
		return fmt.Errorf("ask the daemon in %s: %w", c.dir, err)
	}
}
