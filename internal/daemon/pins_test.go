package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// The directory of pins goes to the daemon's user, who has to be able to get there.
func TestPreparePins(t *testing.T) {
	netns.RequireRoot(t, "files are given away (CAP_CHOWN)")
	root, err := os.MkdirTemp("/tmp", "daemon-pins-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	dir := filepath.Join(root, "pins")
	if err := os.MkdirAll(filepath.Join(dir, "eth0"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = preparePins(dir, 4711, 4711)
	if err == nil || !strings.Contains(err.Error(), "user 4711 cannot enter "+root+": chmod o+x "+root) {
		t.Errorf("behind a closed directory: %v", err)
	}
	if _, err := preparePins(dir, 0, 0); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := preparePins(dir, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "eth0")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != 4711 || s.Gid != 4712 {
			t.Errorf("%s belongs to %d %d", path, s.Uid, s.Gid)
		}
	}
	if _, err := preparePins(filepath.Join("/proc", "pins"), 4711, 4711); err == nil || !strings.Contains(err.Error(), "nsenter --net") {
		t.Errorf("where none can be made: %v", err)
	}
}
