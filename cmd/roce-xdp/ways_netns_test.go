package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// nobody is a user without any privilege.
const nobody = 65534

// asNobody is the program in a namespace, run by nobody, with the daemon of a directory.
// Through a copy, because nobody may not enter the directory of the test's binary.
func asNobody(ctx context.Context, ns *netns.NS, binary, dir, line string) *exec.Cmd {
	args := append([]string{"--net=" + ns.Path(), "setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups", binary}, strings.Fields(line)...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), beProgram+"=1", session.DirVariable+"="+dir)
	cmd.Dir = "/"
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // shows where it hangs
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// copyOfProgram is one that everybody can execute.
func copyOfProgram(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(dir, "roce-xdp")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close(), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// output is what a command prints and its exit code.
func output(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Without privileges and without a daemon the error names both ways out.
func TestNetnsNeitherWay(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := netns.ShortTempDir(t)
	binary := copyOfProgram(t, dir)
	for _, tt := range []struct {
		name, flags string
		says        []string
	}{
		{"either", "", []string{`run as root or see docs/privileges\.md`, "or have a daemon serve it to everybody with `sudo roce-xdp run eth0`", session.DirVariable}},
		{"daemon", " --daemon", []string{"no daemon listens at .*/verbs.sock: start one with `roce-xdp run"}},
		{"in this process", " --in-process", []string{`run as root or see docs/privileges\.md`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, code := output(t, asNobody(ctx, pair.A.NS, binary, dir, "pingpong rc -d eth0"+tt.flags))
			if code != exitFailure {
				t.Errorf("exit code %d", code)
			}
			wantMatch(t, "error", text, tt.says...)
			if daemon := strings.Contains(text, "daemon"); daemon == strings.Contains(tt.flags, "in-process") {
				t.Errorf("it speaks of daemons: %v: %s", daemon, text)
			}
		})
	}
}

// Programs of a user without privileges, at the daemons of two hosts, find the daemon by
// themselves.
func TestNetnsThroughDaemons(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	dir := netns.ShortTempDir(t)
	binary := copyOfProgram(t, dir)
	a := startDaemon(t, pair.A.NS, filepath.Join(dir, "a"), "--user nobody eth0")
	b := startDaemon(t, pair.B.NS, filepath.Join(dir, "b"), "--user nobody eth0")
	server := pair.A.Addr().String()
	for _, tt := range []struct{ server, client, want string }{
		{"ping -s", "ping -c -V -C 50 -a " + server, "50 rounds of 64 bytes, 0 lost"},
		{"ping -s -a ::0 --daemon", "ping -c -V -S 65535 -C 20 -a 2001:db8::1 --daemon", "20 rounds of 65535 bytes, 0 lost"},
		{"pingpong rc -n 50 -c", "pingpong rc -n 50 -c " + server, "409600 bytes in "},
		{"pingpong rc -n 50 -e -s 9000 -m 4096", "pingpong rc -n 50 -e -s 9000 -m 4096 " + server, "900000 bytes in "},
		{"pingpong uc -n 50 -s 9000", "pingpong uc -n 50 -s 9000 " + server, "900000 bytes in "},
		{"pingpong ud -n 50 -c", "pingpong ud -n 50 -c " + server, "102400 bytes in "},
		{"pingpong srq -n 200 -c", "pingpong srq -n 200 -c " + server, "1638400 bytes in "},
		{"perf write-bw", "perf write-bw -n 50 " + server, "65536      50 "},
		{"perf write-lat", "perf write-lat -n 50 " + server, "2          49 "},
		{"perf send-bw -d eth0 --daemon", "perf send-bw -d eth0 --daemon -R -q 3 -n 50 " + server, "rdma_cm QPs     : ON"},
		{"perf read-lat", "perf read-lat -s 4096 -n 50 " + server, "4096       49 "},
		{"perf atomic-bw", "perf atomic-bw -n 50 " + server, "8          50 "},
	} {
		t.Run(tt.server, func(t *testing.T) {
			bothEnds(t, tt.want, func(ctx context.Context) (server, client *exec.Cmd) {
				return asNobody(ctx, pair.A.NS, binary, a.dir, tt.server), asNobody(ctx, pair.B.NS, binary, b.dir, tt.client)
			})
		})
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Run("resolve", func(t *testing.T) {
		for _, line := range []string{"resolve 192.0.2.1", "resolve 192.0.2.1 --daemon", "resolve 192.0.2.1 --daemon -I eth0"} {
			text, code := output(t, asNobody(ctx, pair.B.NS, binary, b.dir, line))
			if code != 0 {
				t.Errorf("%s: exit code %d", line, code)
			}
			wantMatch(t, line, text, `^source       192\.0\.2\.2, GID ::ffff:192\.0\.2\.2, index 1$`, `^next hop     192\.0\.2\.1 at ..:`)
		}
		text, code := output(t, asNobody(ctx, pair.B.NS, binary, b.dir, "resolve 192.0.2.99 --daemon --timeout 200ms"))
		if code != exitFailure {
			t.Errorf("a peer that does not answer: exit code %d", code)
		}
		wantMatch(t, "a peer that does not answer", text, `^source       192\.0\.2\.2, GID`, `^next hop     192\.0\.2\.99, which does not answer$`, `nobody answered for 192\.0\.2\.99`)
	})
	t.Run("an interface with the same name of another namespace", func(t *testing.T) {
		text, code := output(t, asNobody(ctx, pair.B.NS, binary, a.dir, "pingpong rc -d eth0"))
		if code != exitFailure {
			t.Errorf("exit code %d", code)
		}
		wantMatch(t, "error", text, "whose eth0 is one of another network namespace: --daemon opens that")
	})
	if got := a.ask(t, "resource show client -j"); got != "[]\n" {
		t.Errorf("left at the daemon: %s", got)
	}
	a.stop(t)
	b.stop(t)
}
