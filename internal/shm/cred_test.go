package shm

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// dialEnv makes the test binary a client of that socket.
const dialEnv = "SHM_TEST_DIAL"

// dialAndWait is that client. It stays until the server has looked at it.
func dialAndWait(path string) {
	c, err := net.Dial("unix", path)
	if err != nil {
		os.Exit(1)
	}
	_, _ = c.Read(make([]byte, 1))
	os.Exit(0)
}

func TestCredOf(t *testing.T) {
	netns.RequireRoot(t, "clients of other users are started (CAP_SETUID)")
	// Other users cannot enter the test's own directory.
	dir, err := os.MkdirTemp("/tmp", "shm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	many := make([]uint32, 100)
	for i := range many {
		many[i] = uint32(2000 + i)
	}
	for _, want := range []Cred{
		{UID: 0, GID: 0},
		{UID: 1234, GID: 77, Groups: []uint32{77, 88}},
		{UID: 65534, GID: 3, Groups: many},
	} {
		t.Run(strconv.Itoa(int(want.UID)), func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), dialEnv+"="+path)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: want.UID, Gid: want.GID, Groups: want.Groups}}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			c, err := l.AcceptUnix()
			if err != nil {
				t.Fatal(err)
			}
			got, err := CredOf(c)
			c.Close()
			if waited := cmd.Wait(); waited != nil {
				t.Error(waited)
			}
			if err != nil || got.UID != want.UID || got.GID != want.GID || !slices.Equal(got.Groups, want.Groups) || got.PID != cmd.Process.Pid {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
			if !got.In(want.GID) || got.In(999) || len(want.Groups) > 0 && !got.In(want.Groups[1]) {
				t.Errorf("membership of %+v", got)
			}
		})
	}
}
