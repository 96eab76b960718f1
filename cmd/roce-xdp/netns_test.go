package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestNetnsDemo(t *testing.T) {
	netns.Require(t)
	runAll(t, []command{
		{
			line: "demo --quick",
			stdout: []string{
				`SEND with immediate +0 1 3 4 63 64 4095 4096 4097 1Mi-1 +20 ok`, `fetch and add`,
				`RDMA WRITE, polling memory`, `TCP over the same link`, `^all 108 checks passed in`,
			},
			stderr: []string{`^demo: latency$`},
		},
		{
			line: "demo --quick -j --mode generic --ipv6 --mtu 1500",
			stdout: []string{
				`\A\{`, `"path_mtu": 1024`, `"xdp_mode": "generic"`, `"failed": 0`, `"address": "2001:db8::1"`,
			},
		},
	})
}

// Either signal ends the demonstration cleanly, with the exit code of an
// interrupted program, while its devices are open and working.
func TestNetnsDemoInterrupted(t *testing.T) {
	netns.Require(t)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "demo")
			cmd.Env = append(os.Environ(), beProgram+"=1")
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer kill.Stop()
			var last string
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				last = lines.Text()
				if strings.Contains(last, "random data") {
					_ = cmd.Process.Signal(sig)
				}
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || last != "roce-xdp: interrupted" {
				t.Errorf("ended with %v after %q, want exit code %d", err, last, exitInterrupted)
			}
			left, err := filepath.Glob(fmt.Sprintf("%s/rxdp-%d-*", netns.Dir, cmd.Process.Pid))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// perf and pingpong as two processes on two hosts, found by the address alone.
func TestNetnsTwoProcesses(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	server := pair.A.Addr().String()
	tests := []struct {
		server, client string
		want           string
	}{
		{"perf write-bw", "perf write-bw -n 50 " + server, "65536      50 "},
		{"perf send-lat -d eth0", "perf send-lat -d eth0 -n 50 -s 64 -I 64 " + server, "64         49 "},
		{"perf send-bw", "perf send-bw -R -q 3 -n 50 " + server, "rdma_cm QPs     : ON"},
		{"perf write-lat -R", "perf write-lat -R -n 50 2001:db8::1", "GID: 2001:db8::2"},
		{"pingpong rc -n 50", "pingpong rc -n 50 " + server, "50 iters in "},
		{"pingpong uc -n 50 -s 9000", "pingpong uc -n 50 -s 9000 " + server, "900000 bytes in "},
		{"ping -s", "ping -c -V -C 50 -a " + server, "50 rounds of 64 bytes, 0 lost"},
		{"ping -s -a ::0", "ping -c -V -S 65535 -C 50 -a 2001:db8::1", "50 rounds of 65535 bytes, 0 lost"},
		{"pingpong ud -n 50 -c", "pingpong ud -n 50 -c " + server, "102400 bytes in "},
		{"pingpong rc -n 50 -e -s 9000 -m 4096", "pingpong rc -n 50 -e -s 9000 -m 4096 " + server, "900000 bytes in "},
	}
	for _, tt := range tests {
		t.Run(tt.server, func(t *testing.T) {
			bothEnds(t, tt.want, func(ctx context.Context) (server, client *exec.Cmd) {
				return program(ctx, pair.A.NS, tt.server), program(ctx, pair.B.NS, tt.client)
			})
		})
	}
}

// bothEnds runs a server, its client once it waits for one, and wants both to succeed and to
// print a text.
func bothEnds(t *testing.T, want string, ends func(context.Context) (server, client *exec.Cmd)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	a, b := ends(ctx)
	waiting := make(chan struct{})
	errA := &trigger{want: "waiting for the client", seen: waiting}
	a.Stderr = errA
	var outA, outB strings.Builder
	a.Stdout = &outA
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waiting:
	case <-time.After(20 * time.Second):
		t.Error("the server does not wait for its client")
		_ = a.Process.Kill()
	}
	b.Stdout, b.Stderr = &outB, &outB
	if err := b.Run(); err != nil {
		t.Errorf("client: %v\n%s", err, outB.String())
		_ = a.Process.Kill()
	}
	if err := a.Wait(); err != nil {
		t.Errorf("server: %v\n%s%s", err, outA.String(), errA.text.String())
	}
	for who, out := range map[string]string{"server": outA.String(), "client": outB.String()} {
		if !strings.Contains(out, want) {
			t.Errorf("%s does not print %q:\n%s", who, want, out)
		}
	}
}

// program is the program in a namespace, ended after a time.
func program(ctx context.Context, ns *netns.NS, line string) *exec.Cmd {
	args := append([]string{"--net=" + ns.Path(), os.Args[0]}, strings.Fields(line)...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), beProgram+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // shows where it hangs
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// trigger closes seen when want has been written.
type trigger struct {
	want string
	seen chan struct{}
	text strings.Builder
	done bool
}

func (w *trigger) Write(b []byte) (int, error) {
	w.text.Write(b)
	if !w.done && strings.Contains(w.text.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return len(b), nil
}
