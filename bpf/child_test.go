package bpf

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Environment of the test binary when it runs as a child of a test.
const (
	childEnv   = "ROCE_XDP_TEST_CHILD"
	childPins  = "ROCE_XDP_TEST_PINS"
	childIndex = "ROCE_XDP_TEST_IFINDEX"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "load":
		report(loadAsChild())
	case "hold":
		report(holdAsChild())
	}
}

// report tells the parent how it went; an empty line is success.
func report(err error) {
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	fmt.Println()
}

// loadAsChild is what a process with few capabilities tries.
func loadAsChild() error {
	s, err := Load(nil)
	if err != nil {
		return err
	}
	return s.Close()
}

// holdAsChild attaches in the namespace of descriptor 3 and waits to be killed.
func holdAsChild() error {
	index, err := strconv.Atoi(os.Getenv(childIndex))
	if err != nil {
		return err
	}
	s, err := Load(&Options{PinDir: os.Getenv(childPins)})
	if err != nil {
		return err
	}
	err = onThread(func() error {
		if err := unix.Setns(3, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return s.Attach(index, ModeAuto)
	})
	if err != nil {
		return err
	}
	report(nil)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startChild runs the test binary as a child and gives its first line. Through
// /proc/self/exe other users can run it too, who cannot see go test's directory.
func startChild(t *testing.T, attr *syscall.SysProcAttr, files []*os.File, env ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child died: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

// TestCapabilities loads as another user with some capabilities. CAP_PERFMON
// must not be among those that are needed.
func TestCapabilities(t *testing.T) {
	load(t, nil)
	if os.Geteuid() != 0 {
		t.Skip("needs CAP_SETUID, CAP_SETGID and CAP_SETPCAP to start a process with fewer capabilities")
	}
	for _, c := range []struct {
		name string
		caps []uintptr
		want string
	}{
		{"none", nil, ErrPrivilege.Error()},
		{"CAP_BPF", []uintptr{unix.CAP_BPF}, ErrPrivilege.Error()},
		{"CAP_NET_ADMIN", []uintptr{unix.CAP_NET_ADMIN}, ErrPrivilege.Error()},
		{"CAP_BPF and CAP_NET_ADMIN", []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, line := startChild(t, &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: c.caps,
			}, nil, childEnv+"=load")
			if c.want == "" && line != "" || !strings.Contains(line, c.want) {
				t.Errorf("the child says %q, want %q", line, c.want)
			}
		})
	}
}
