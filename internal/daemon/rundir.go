package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// ErrRunning says that another daemon uses the runtime directory.
var ErrRunning = errors.New("a daemon runs already")

// runDir is the runtime directory, which one daemon uses at a time.
type runDir struct {
	path  string
	lock  *os.File // the open directory; the kernel releases its lock with the process
	socks []string // that were made in it
	made  []string // directories that were made for it, innermost first
}

// openRunDir makes the directory if need be and locks it.
func openRunDir(path string) (*runDir, error) {
	// A daemon whose start fails may remove the directory between open and lock.
	for range 8 {
		d, err := lockRunDir(path)
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, fmt.Errorf("runtime directory: %s keeps vanishing", path)
}

// lockRunDir gives nil without error when the directory is not there any more.
func lockRunDir(path string) (d *runDir, err error) {
	made, err := makeDir(path, 0o755)
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	defer func() {
		if err != nil {
			removeDirs(made)
		}
	}()
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, fmt.Errorf("%w in %s: stop it, or give this one another directory with --runtime-dir", ErrRunning, path)
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock the runtime directory %s: %w", path, err)
	}
	locked, err := f.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = os.Stat(path); err == nil && os.SameFile(locked, now) {
			return &runDir{path: path, lock: f, made: made}, nil
		}
	}
	f.Close()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, fmt.Errorf("runtime directory: %w", err)
}

// maxSocketPath is what an address of a unix socket holds, with its final zero.
const maxSocketPath = 108

// unready ends the name of a socket that does not have its permissions yet.
const unready = ".new"

// listen makes a socket of the network, "unix" or "unixpacket". What another daemon
// left there is replaced: the lock says that it is dead. gid is not negative when the
// socket gets another group.
//
// The socket gets its name last: a program that waits for a daemon to come back finds
// none, or one whose permissions are what they will be. close removes it.
func (d *runDir) listen(network, name string, mode fs.FileMode, gid int) (*net.UnixListener, error) {
	path := filepath.Join(d.path, name)
	early := path + unready
	if len(early) >= maxSocketPath {
		return nil, fmt.Errorf("the runtime directory's name is too long: %s has %d bytes, a socket's path has at most %d", early, len(early), maxSocketPath-1)
	}
	if err := os.Remove(early); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: early, Net: network})
	if err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	if gid >= 0 {
		err = os.Chown(early, -1, gid)
	}
	if err == nil {
		err = os.Chmod(early, mode)
	}
	if err == nil {
		err = os.Rename(early, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("runtime directory: %w", err), l.Close())
	}
	d.socks = append(d.socks, path)
	return l, nil
}

// close removes the sockets and gives the directory up.
func (d *runDir) close() error { return errors.Join(d.removeSockets(), d.lock.Close()) }

func (d *runDir) removeSockets() error {
	var errs []error
	for _, path := range d.socks {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("runtime directory: %w", err))
		}
	}
	return errors.Join(errs...)
}

// undo is close that also removes the directories that were made: nobody else has used them,
// as the lock is still held.
func (d *runDir) undo() error {
	err := d.removeSockets()
	removeDirs(d.made)
	return errors.Join(err, d.lock.Close())
}

// prepareDir makes the directory for the user that the daemon is about to become, and tells
// which directories it has made. It is not touched while another daemon uses it.
func prepareDir(path string, uid, gid int) (made []string, err error) {
	d, err := openRunDir(path)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := give(path, uid, gid); err != nil {
		removeDirs(d.made)
		return nil, err
	}
	return d.made, nil
}

// give gives a runtime directory to a user.
func give(path string, uid, gid int) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("runtime directory: %w", err)
	}
	// A directory with other contents may be somebody's by mistake.
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), unready); name != control.SocketName && name != session.SocketName {
			return nil
		}
	}
	if err := os.Chown(path, uid, gid); err != nil {
		return fmt.Errorf("runtime directory: %w", err)
	}
	return nil
}
