package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
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
// /proc/self/exe can be executed by who may not enter the directory of the test's binary.
func asNobody(ctx context.Context, dir, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", strings.Fields(line)...)
	cmd.Env = append(os.Environ(), beProgram+"=1", session.DirVariable+"="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // shows where it hangs
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs a command in a namespace, and returns what it prints and its exit code.
func output(t *testing.T, ns *netns.NS, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// Without privileges and without a daemon the error names both ways out.
func TestNetnsNeitherWay(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tt := range []struct {
		name, flags string
		says        []string
	}{
		{"either", "", []string{`run as root or see docs/privileges\.md`, "or have a daemon serve it to everybody with `sudo roce-xdp run eth0`", session.DirVariable}},
		{"daemon", " --daemon", []string{"no daemon listens at .*/verbs.sock: start one with `roce-xdp run"}},
		{"in this process", " --in-process", []string{`run as root or see docs/privileges\.md`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, code := output(t, pair.A.NS, asNobody(ctx, shortTempDir(t), "pingpong rc -d eth0"+tt.flags))
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
