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
}

// openRunDir makes the directory if need be and locks it.
func openRunDir(path string) (*runDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
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
	return &runDir{path: path, lock: f}, nil
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
func (d *runDir) close() error {
	var errs []error
	for _, path := range d.socks {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("runtime directory: %w", err))
		}
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// prepareDir makes the directory for the user that the daemon is about to become. It is
// not touched while another daemon uses it.
func prepareDir(path string, uid, gid int) error {
	d, err := openRunDir(path)
	if err != nil {
		return err
	}
	defer d.close()
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
