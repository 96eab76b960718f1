//go:build soak

package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// machine is a systemd that runs in namespaces of its own.
type machine struct {
	t   *testing.T
	pid int // of systemd, as it is seen here
	log *bytes.Buffer
}

// boot starts it; it ends with the test.
func boot(t *testing.T, program string) *machine {
	t.Helper()
	netns.RequireRoot(t, "systemd runs in namespaces")
	group := cgroup(t)
	m := &machine{t: t, log: &bytes.Buffer{}}
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc", "--net", "testdata/boot.sh", ".", program)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	eventually(t, "systemd runs", func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if err != nil {
			return err
		}
		if m.pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return err
		}
		out, err := m.run("systemctl is-system-running")
		if err != nil && !strings.Contains(out, "running") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return m
}

// cgroup is one of version 2 for the test alone.
func cgroup(t *testing.T) *os.File {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var s unix.Statfs_t
		if unix.Statfs(root, &s) != nil || s.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(root, fmt.Sprintf("roce-xdp-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { eventually(t, "the control groups go", func() error { return removeGroups(dir) }) })
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	netns.Missing(t, "cgroup2", "there is no hierarchy of control groups of version 2")
	return nil
}

// removeGroups removes a control group and those below.
func removeGroups(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	for _, g := range slices.Backward(all) {
		err = errors.Join(err, os.Remove(g))
	}
	return err
}

// run is a shell's output inside.
func (m *machine) run(script string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(m.pid), "-m", "-p", "-n", "-C", "-u", "-i", "--", "sh", "-ec", script).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must is the output of a script that has to succeed.
func (m *machine) must(script string) string {
	m.t.Helper()
	out, err := m.run(script)
	if err != nil {
		daemon, _ := m.run("cat /mnt/said")
		m.t.Fatalf("%s: %v: %s\nthe daemon: %s\nsystemd: %s", script, err, out, daemon, m.log)
	}
	return out
}

// dropIn changes the unit.
func (m *machine) dropIn(name, text string) {
	m.t.Helper()
	m.must(fmt.Sprintf("cat >/mnt/units/roce-xdp.service.d/%s.conf <<'END'\n%s\nEND\nsystemctl daemon-reload", name, text))
}

// wants waits until a property of the unit is as it should be.
func (m *machine) wants(property, value string) {
	m.t.Helper()
	eventually(m.t, property+" is "+value, func() error {
		if got := m.must("systemctl show roce-xdp -P " + property); got != value {
			said, _ := m.run("tail -n 5 /mnt/said")
			return fmt.Errorf("it is %q; the daemon said %s", got, said)
		}
		return nil
	})
}

func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = cond(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not in 30 s: %v", what, err)
}
