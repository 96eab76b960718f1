package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// preparePins makes the directory of all pins for the user that the daemon is about to
// become, who has to be able to get there.
func preparePins(dir string, uid, gid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pin directory: %w; is a BPF file system mounted there? \"ip netns exec\" hides it, "+
			"enter namespaces with nsenter --net instead", err)
	}
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
