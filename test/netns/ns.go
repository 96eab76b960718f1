package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Dir is where namespaces are bind-mounted, as iproute2 expects.
const Dir = "/run/netns"

// ErrClosed reports use of a namespace after Close.
var ErrClosed = errors.New("network namespace is closed")

// NS is a network namespace. Its methods are safe for concurrent use.
type NS struct {
	name string

	mu sync.Mutex
	fd *os.File // nil once closed
}

var (
	counter atomic.Uint64

	liveMu sync.Mutex
	live   = map[*NS]struct{}{}
)

// New makes a namespace with its loopback interface up.
func New() (*NS, error) {
	name := fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), counter.Add(1))
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w: run as root", Dir, err)
	}
	path := filepath.Join(Dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w: run as root", path, err)
	}
	f.Close()

	if err := onThrowawayThread(func() error { return unshareTo(path) }); err != nil {
		_ = removePath(path)
		return nil, err
	}
	fd, err := os.Open(path)
	if err != nil {
		_ = removePath(path)
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	n := &NS{name: name, fd: fd}
	liveMu.Lock()
	live[n] = struct{}{}
	liveMu.Unlock()

	if err := n.Do(loopbackUp); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// unshareTo moves the thread into a new namespace and mounts that at path.
func unshareTo(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare network namespace: %w: needs CAP_SYS_ADMIN, run as root", err)
	}
	// No bind mount of Dir onto itself, which iproute2 makes: it would outlive us.
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount namespace at %s: %w", path, err)
	}
	return nil
}

// Name is the last element of Path, usable with `ip -n NAME`.
func (n *NS) Name() string { return n.name }

// Path is the file that names the namespace to other programs.
func (n *NS) Path() string { return filepath.Join(Dir, n.name) }

// Do runs fn on a thread that is in the namespace, in a goroutine of its own, and
// waits for it. What fn opens stays in the namespace for its whole life; a
// goroutine that fn starts does not. A test's FailNow inside fn ends the caller
// as well.
func (n *NS) Do(fn func() error) error {
	file, err := n.file()
	if err != nil {
		return err
	}
	defer file.Close()

	var (
		result   error
		finished bool
		done     = make(chan struct{})
	)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result, finished = fmt.Errorf("open own namespace: %w", err), true
			runtime.UnlockOSThread()
			return
		}
		defer home.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			result, finished = fmt.Errorf("enter namespace %s: %w", n.name, err), true
			runtime.UnlockOSThread()
			return
		}
		defer func() {
			// A thread that cannot come home stays locked: it dies with this goroutine
			// instead of running other goroutines in the wrong namespace.
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		result = fn()
		finished = true
	}()
	<-done
	if !finished {
		runtime.Goexit()
	}
	return result
}

// Handle opens a netlink handle that works in the namespace from any goroutine.
func (n *NS) Handle() (*netlink.Handle, error) {
	var h *netlink.Handle
	err := n.Do(func() (err error) {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netlink in %s: %w", n.name, err)
	}
	return h, nil
}

// file duplicates the descriptor, so that a Close meanwhile does no harm.
func (n *NS) file() (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd == nil {
		return nil, fmt.Errorf("%s: %w", n.name, ErrClosed)
	}
	fd, err := unix.FcntlInt(n.fd.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor of %s: %w", n.name, err)
	}
	return os.NewFile(uintptr(fd), n.name), nil
}

// Close removes the namespace's name. The kernel ends the namespace, with the
// links in it, when the last socket and process in it are gone. A second Close
// does nothing.
func (n *NS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd == nil {
		return nil
	}
	err := errors.Join(n.fd.Close(), removePath(n.Path()))
	n.fd = nil
	liveMu.Lock()
	delete(live, n)
	liveMu.Unlock()
	return err
}

// onThrowawayThread runs fn on a thread that ends afterwards.
func onThrowawayThread(fn func() error) error {
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		errc <- fn()
	}()
	return <-errc
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}
