package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// childEnv makes the test binary a child: its value says what the child does.
const childEnv = "ROCE_XDP_INTEGRATION_CHILD"

// What children do. Each runs in the network namespace in which it was started.
const (
	childOpen = "open" // open the device, close it
	childHold = "hold" // open the device, wait for the end of standard input
)

// runChild does what a child is for, tells the parent in one line how it went,
// where an empty one is success, and ends the process.
func runChild(name string) {
	if childWithDaemons(name) {
		os.Exit(0)
	}
	dev, err := datapath.Open(netns.Ifname, nil)
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	fmt.Println()
	if name == childHold {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends when the parent does
	}
	if err := dev.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is the test binary running as another process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  string // its only line
}

// limits are what a child may do; the zero value is root.
type limits struct {
	nobody  bool      // it runs as nobody
	caps    []uintptr // with these capabilities
	memlock uint64    // RLIMIT_MEMLOCK in bytes; 0: as it is
}

// startChild starts a child in a host's namespace and waits for its line.
// Through /proc/self/exe other users can run it, who may not enter the directory
// where go test has put it.
func startChild(t *testing.T, host *netns.End, name string, l limits) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: l.caps}
	if l.nobody {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	if l.memlock != 0 {
		limitMemlock(t, l.memlock)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.NS.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin}
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child died: %v", err)
	}
	c.said = strings.TrimSpace(line)
	return c
}

// kill ends the child as `kill -9` does; killing twice is fine.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	_ = c.stdin.Close()
}

// limitMemlock sets the limit of locked memory, which children inherit, until the
// test ends.
func limitMemlock(t *testing.T, bytes uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: max(bytes, old.Max)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
			t.Error(err)
		}
	})
}
