package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestRunDirIsOneDaemons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := openRunDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openRunDir(path); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), path) {
		t.Errorf("second: %v", err)
	}
	if _, err := prepareDir(path, 4711, 4711); !errors.Is(err, ErrRunning) {
		t.Errorf("prepare: %v", err)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	d, err = openRunDir(path)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	d.close()
}

func TestListenReplacesADeadSocket(t *testing.T) {
	d, err := openRunDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for range 2 {
		l, err := d.listen("unixpacket", "x.sock", 0o640, os.Getegid())
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(d.path, "x.sock"))
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v", info, err)
		}
		c, err := net.Dial("unixpacket", filepath.Join(d.path, "x.sock"))
		if err != nil {
			t.Error(err)
		} else {
			c.Close()
		}
		l.Close() // the file stays, as if the daemon had been killed
	}
	long := &runDir{path: "/" + strings.Repeat("x", maxSocketPath)}
	if _, err := long.listen("unix", "y", 0o600, -1); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long path: %v", err)
	}
	if _, err := (&runDir{path: "/nonexistent"}).listen("unix", "y", 0o600, -1); err == nil {
		t.Error("a directory that is not there")
	}
}

// Who waits for the daemon to come back never finds a socket that it may not use yet.
func TestListenHasItsPermissionsFromTheStart(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	d, err := openRunDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.path, "x.sock")
	seen := make(chan os.FileMode, 1)
	go func() {
		for {
			if info, err := os.Stat(path); err == nil {
				seen <- info.Mode().Perm()
				return
			}
		}
	}()
	// A socket that was left with the name of one that is not ready is no obstacle.
	if err := os.WriteFile(path+unready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := d.listen("unixpacket", "x.sock", 0o666, -1)
	if err != nil {
		t.Fatal(err)
	}
	if mode := <-seen; mode != 0o666 {
		t.Errorf("it appeared with permissions %v", mode)
	}
	l.Close()
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(d.path); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The directory goes to the daemon's user, unless it holds other things.
func TestPrepareDir(t *testing.T) {
	netns.RequireRoot(t, "files are given away (CAP_CHOWN)")
	owner := func(path string) int {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Sys().(*syscall.Stat_t).Uid)
	}
	path := filepath.Join(t.TempDir(), "run")
	if _, err := prepareDir(path, 4711, 4711); err != nil || owner(path) != 4711 {
		t.Errorf("new: owner %d, %v", owner(path), err)
	}
	if err := os.WriteFile(filepath.Join(path, control.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDir(path, 4712, 4712); err != nil || owner(path) != 4712 {
		t.Errorf("another daemon's: owner %d, %v", owner(path), err)
	}
	if err := os.WriteFile(filepath.Join(path, "diary"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDir(path, 4713, 4713); err != nil || owner(path) != 4712 {
		t.Errorf("somebody's: owner %d, %v", owner(path), err)
	}
}
