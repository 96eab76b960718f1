package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// madeEnv tells the program that executes again, with fewer privileges, which directories it
// has made before.
const madeEnv = "ROCE_XDP_MADE"

// makeDir is os.MkdirAll which tells the directories that it has made, innermost first.
func makeDir(path string, mode fs.FileMode) (made []string, err error) {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !strings.Contains(at, "\n") { // which keepMade could not hand on
			made = append(made, at)
		}
	}
	if err := os.MkdirAll(path, mode); err != nil {
		removeDirs(made)
		return nil, err
	}
	return made, nil
}

// removeDirs removes directories that were made, in their order, unless others have put
// something into them since, or the user that the daemon has become may not.
func removeDirs(made []string) {
	for _, dir := range made {
		_ = unix.Rmdir(dir)
	}
}

// keepMade hands directories on to the program that executes again.
func keepMade(made []string) error { return os.Setenv(madeEnv, strings.Join(made, "\n")) }

// takeMade takes what keepMade has handed on.
func takeMade() []string {
	list := os.Getenv(madeEnv)
	_ = os.Unsetenv(madeEnv) // which it is, whatever this says
	if list == "" {
		return nil
	}
	return strings.Split(list, "\n")
}
