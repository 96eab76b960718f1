package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// TestGuestWithoutNetwork: where the guest's packages cannot be had, what makes its image says
// what is missing, why, and what to do.
func TestGuestWithoutNetwork(t *testing.T) {
	for _, program := range []string{"apt-get", "bash", "qemu-system-x86_64", "cpio", "depmod", "ip", "tcpdump", "xz"} {
		if _, err := exec.LookPath(program); err != nil {
			netns.Missing(t, "rxe", err.Error())
		}
	}
	ns := netns.ForTest(t) // it has no way to anywhere
	cache := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "guest/build")
	cmd.Env = append(os.Environ(), "ROCE_XDP_RXE_CACHE="+cache, "ROCE_XDP_RXE_SUITE=trixie")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out []byte
	err := ns.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{
		"build: cannot fetch the package lists of trixie from http", "    Failed to fetch http", "InRelease",
		"Connect this machine to a network", "copy " + cache + "/trixie from a machine", cache + "/trixie/apt.log",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}
