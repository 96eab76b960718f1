package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// programs is how many programs each daemon serves at a time.
const programs = 8

// hostDaemon is a daemon that serves a host.
type hostDaemon struct {
	cmd *exec.Cmd
	dir string
	log *netns.Await
}

// reexec is the test binary as a child, which ends with ctx.
func reexec(ctx context.Context, what string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(append(os.Environ(), childEnv+"="+what), env...)
	cmd.Dir = "/"
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // shows where it hangs
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// daemonAt has a daemon serve a host until stop.
func daemonAt(t *testing.T, host *netns.End, dir string) *hostDaemon {
	t.Helper()
	d := &hostDaemon{dir: dir, log: netns.NewAwait("\n")}
	out := netns.NewAwait("roce-xdp: ready: ")
	d.cmd = reexec(context.Background(), childDaemon, dirsEnv+"="+dir)
	d.cmd.Stdout, d.cmd.Stderr = out, d.log
	must(t, host.NS.Do(d.cmd.Start))
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil { // the test did not stop it
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := out.Wait(ctx); err != nil {
		t.Fatalf("not ready: %v; it said %s", err, d.log)
	}
	return d
}

// stop wants the daemon to have nothing of its programs left, and to end well.
func (d *hostDaemon) stop(t *testing.T) {
	t.Helper()
	c := control.NewClient(d.dir)
	for _, kind := range []string{"client", "qp", "mr", "cm_id"} {
		rows := func() []control.Row {
			rows, err := c.Resources(t.Context(), kind)
			must(t, err)
			return rows
		}
		left := len(rows())
		for end := time.Now().Add(10 * time.Second); left != 0 && time.Now().Before(end); left = len(rows()) {
			time.Sleep(20 * time.Millisecond) // the daemon learns of the end of a program a moment later
		}
		// Queue pair 1 is the daemon's own.
		if own := map[string]int{"qp": 1, "mr": 1}[kind]; left > own {
			t.Errorf("%d %s left: %v", left, kind, rows())
		}
	}
	must(t, d.cmd.Process.Signal(syscall.SIGTERM))
	kill := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Signal(syscall.SIGQUIT) })
	defer kill.Stop()
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v; it said %s", err, d.log)
	}
}

// TestDaemons has two daemons, one on each of two hosts, and eight programs of a user
// without privileges at each of them, all at the same time: every operation of every
// transport service moves what it should, to where it should, and connections by the
// connection manager do.
func TestDaemons(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	dir := netns.ShortTempDir(t)
	a, b := daemonAt(t, hosts.A, filepath.Join(dir, "a")), daemonAt(t, hosts.B, filepath.Join(dir, "b"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range programs {
		wg.Go(func() {
			cmd := reexec(ctx, childProgram, dirsEnv+"="+a.dir+":"+b.dir, hostEnv+"="+hosts.A.IPv4.String())
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("program %d: %v: %s", i, err, bytes.TrimSpace(out))
			}
		})
	}
	// They are there at the same time, and do not keep the daemon's own tools waiting.
	most := 0
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		rows, err := control.NewClient(a.dir).Resources(ctx, "client")
		must(t, err)
		most = max(most, len(rows))
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	if most < programs {
		t.Errorf("%d programs at a time at most, want %d", most, programs)
	}
	a.stop(t)
	b.stop(t)
}

// childWithDaemons does what children do that have to do with daemons, and reports
// whether name is the name of one.
func childWithDaemons(name string) bool {
	var err error
	switch name {
	case childDaemon:
		err = beDaemon()
	case childProgram:
		err = beProgram()
	default:
		return false
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// TestVerbsThroughDaemons runs the tests that every provider of verbs has to pass, as an
// ordinary user, at the daemons of two hosts. Those of queue pair 1 need a privilege, and
// those left out here look for the addresses of devices in memory.
func TestVerbsThroughDaemons(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	dir := netns.ShortTempDir(t)
	binary := filepath.Join(dir, "verbs.test")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "github.com/roce-xdp/roce-xdp/verbs/verbstest").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a, b := daemonAt(t, hosts.A, filepath.Join(dir, "a")), daemonAt(t, hosts.B, filepath.Join(dir, "b"))
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.run", "/through_the_daemons", "-test.skip", "^Test(Queries|Resolve|Errors)$|//GSI")
	cmd.Env = append(os.Environ(), "ROCE_XDP_VERBSTEST_DAEMONS="+a.dir+":"+b.dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	t.Logf("%d tests passed", bytes.Count(out, []byte("--- PASS: ")))
	if n := bytes.Count(out, []byte("--- PASS: ")); n < 30 {
		t.Errorf("only %d tests passed: %s", n, out)
	}
	a.stop(t)
	b.stop(t)
}
