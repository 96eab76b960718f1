package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

const prefix = "rxdp-"

var namePattern = regexp.MustCompile(`^` + prefix + `([0-9]+)-[0-9]+$`)

// CloseAll closes every namespace that this process made and still has: the
// last resort of a command that is told to end.
func CloseAll() error {
	liveMu.Lock()
	all := make([]*NS, 0, len(live))
	for n := range live {
		all = append(all, n)
	}
	liveMu.Unlock()
	var err error
	for _, n := range all {
		err = errors.Join(err, n.Close())
	}
	return err
}

// Sweep removes the namespaces of processes that no longer exist and returns
// their names. Namespaces of living processes and of other programs are left
// alone.
func Sweep() ([]string, error) {
	entries, err := os.ReadDir(Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Dir, err)
	}
	var removed []string
	var errs error
	for _, e := range entries {
		m := namePattern.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil || processExists(pid) {
			continue
		}
		if err := removePath(filepath.Join(Dir, e.Name())); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, errs
}

func processExists(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// removePath unmounts and removes the name of a namespace; a name that is not
// mounted, or gone already, is fine.
func removePath(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace: %w", err)
	}
	return nil
}
