package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/roce-xdp/roce-xdp/datapath"
)

// openPinned opens v's interface. Pins that a daemon with another configuration left are
// taken over first, else its program would be in the way, and then removed.
func (d *Daemon) openPinned(v *device) (*datapath.Device, error) {
	if v.options.PinDir != "" || v.pins == "" {
		return d.open(v.name, v.options)
	}
	if _, err := os.Lstat(v.pins); err != nil {
		return d.open(v.name, v.options)
	}
	o := *v.options
	o.PinDir = v.pins
	dev, err := d.open(v.name, &o)
	if err != nil {
		return nil, err
	}
	d.log.Info("pins removed", "interface", v.name, "directory", v.pins)
	if err := dev.Unpin(); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

// tookOver reports whether the pins of an open device were there before it.
func (d *Daemon) tookOver(v *device) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return v.dev != nil && v.dev.TookOver()
}

// preparePins makes the directory of all pins for the user that the daemon is about to
// become, who has to be able to get there, and tells which directories it has made, also with
// an error.
func preparePins(dir string, uid, gid int) (made []string, err error) {
	if made, err = makeDir(dir, 0o700); err != nil {
		return made, fmt.Errorf("pin directory: %w; is a BPF file system mounted there? \"ip netns exec\" hides it, "+
			"enter namespaces with nsenter --net instead", err)
	}
	return made, givePins(dir, uid, gid)
}

// givePins gives the directory of all pins, and what is in it, to a user.
func givePins(dir string, uid, gid int) error {
	if uid == 0 {
		return nil
	}
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("pin directory: %w", err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("pin directory: user %d cannot enter %s: chmod o+x %s, or set pin_dir to a BPF file system of its own", uid, at, at)
		}
		if at == "/" {
			break
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Chown(path, uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
