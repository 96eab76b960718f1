package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// connected are two daemons with a program at each, and a connection between these.
func connected(t *testing.T) (a, b *runningDaemon, client, server *cm.Conn) {
	t.Helper()
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	dir := netns.ShortTempDir(t)
	a = startDaemon(t, pair.A.NS, filepath.Join(dir, "a"), "--user nobody eth0")
	b = startDaemon(t, pair.B.NS, filepath.Join(dir, "b"), "--user nobody eth0")
	open := func(d *runningDaemon) *verbs.Context {
		t.Helper()
		t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
		dev, err := verbs.Open("eth0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	devA, devB := open(a), open(b)
	const port = "7471"
	l, err := cm.Listen(devB, ":"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type accepted struct {
		c   *cm.Conn
		err error
	}
	done := make(chan accepted, 1)
	go func() {
		c, err := l.Accept(ctx)
		done <- accepted{c, err}
	}()
	if client, err = cm.Dial(ctx, devA, pair.B.IPv4.String()+":"+port, nil); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	return a, b, client, got.c
}

// A daemon that is told to stop tells the peers of its programs.
func TestNetnsStopDisconnects(t *testing.T) {
	a, b, _, server := connected(t)
	if rows := a.rowsOf(t, "cm_id"); len(rows) != 1 || rows[0]["ps"] != "TCP" || rows[0]["qp-type"] != "RC" ||
		!strings.HasSuffix(rows[0]["dst-addr"].(string), ":7471") {
		t.Errorf("ids %v", rows)
	}
	a.stop(t)
	select {
	case <-server.Done():
	case <-time.After(10 * time.Second):
		t.Error("the peer does not know")
	}
	b.stop(t)
}

// A signal that comes twice at once, as timeout(1) sends it, is one: the daemon cleans
// up. The next one ends a daemon that waits for peers which do not answer, and the
// daemon after it finds its way, whatever that one left.
func TestNetnsSecondSignal(t *testing.T) {
	for _, tt := range []struct {
		name     string
		twice    bool
		signaled bool
	}{
		{"at once", true, false},
		{"later", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b, _, _ := connected(t)
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait() // killed
			ended := make(chan error, 1)
			terminate(t, a)
			if tt.twice {
				terminate(t, a)
			}
			go func() { ended <- a.cmd.Wait() }()
			var err error
			for running := true; running; {
				select {
				case err = <-ended:
					running = false
				case <-time.After(50 * time.Millisecond):
					if tt.signaled {
						terminate(t, a)
					}
				}
			}
			var exit *exec.ExitError
			signaled := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
			if signaled != tt.signaled || !signaled && err != nil {
				t.Errorf("it ended with %v; want it ended by the signal: %v", err, tt.signaled)
			}
			startDaemon(t, a.ns, a.dir, "--user nobody eth0").stop(t)
		})
	}
}

// terminate sends SIGTERM to a daemon that may have ended.
func terminate(t *testing.T, d *runningDaemon) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}
