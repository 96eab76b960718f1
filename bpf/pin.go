package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pinRoot is the directory below which PinPath has one for each interface.
const pinRoot = "/sys/fs/bpf/roce-xdp"

// pinLink is the name of the link's pin; the maps' pins have the maps' names.
const pinLink = "link"

// PinPath is the usual [Options].PinDir for an interface. BPF file systems do
// not allow dots in names, so that those of VLAN interfaces are written as %2E.
func PinPath(ifname string) string {
	return filepath.Join(pinRoot, strings.ReplaceAll(ifname, ".", "%2E"))
}

// pins is a pin directory that this process alone uses.
type pins struct {
	dir string
	// lock is the open directory with an advisory lock on it. The kernel releases
	// it when the process dies, so that the pins of a dead process are free to
	// take and those of a live one are not.
	lock *os.File
}

// openPins makes the directory if need be and locks it.
func openPins(dir string) (*pins, error) {
	if err := checkBPFFS(dir); err != nil {
		return nil, err
	}
	// The owner before may remove the directory between open and lock.
	for range 8 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPin, err)
		}
		p, err := lockPins(dir)
		if p != nil || err != nil {
			return p, err
		}
	}
	return nil, fmt.Errorf("%w: %s keeps vanishing", ErrPin, dir)
}

// lockPins gives nil without error when the directory is not there any more.
func lockPins(dir string) (*pins, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: a running process uses %s (%w)", ErrBusy, dir, err)
		}
		return nil, fmt.Errorf("%w: lock %s: %w", ErrPin, dir, err)
	}
	locked, err := f.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = os.Stat(dir); err == nil && os.SameFile(locked, now) {
			return &pins{dir: dir, lock: f}, nil
		}
	}
	f.Close()
	return nil, ignoreMissing(err)
}

// checkBPFFS wants dir, or the nearest of its parents that exists, on a BPF file
// system: else MkdirAll would leave directories where they do not belong.
func checkBPFFS(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%w: %q is not an absolute path", ErrPin, dir)
	}
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		var st unix.Statfs_t
		err := unix.Statfs(at, &st)
		switch {
		case errors.Is(err, unix.ENOENT) && at != "/":
			continue
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: %s: %w (BPF file systems allow no dots in names, see PinPath)", ErrPin, at, err)
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrPin, at, err)
		case st.Type != unix.BPF_FS_MAGIC:
			return fmt.Errorf("%w: %s is not on a BPF file system: mount one (mount -t bpf bpf /sys/fs/bpf); "+
				"\"ip netns exec\" hides it, enter namespaces with nsenter --net instead", ErrPin, at)
		}
		return nil
	}
}

func (p *pins) path(name string) string { return filepath.Join(p.dir, name) }

// pinnedMaps gives the maps by the names of their pins.
func (s *Steer) pinnedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		steerMapXsks: s.objects.Xsks, steerMapQpns: s.objects.Qpns, steerMapAddresses: s.objects.Addresses,
		steerMapConfig: s.objects.Config, steerMapCounters: s.objects.Counters,
	}
}

// publish pins the maps, each in place of the one before it, and a new link. The
// link comes last: where there is one, there are maps.
func (p *pins) publish(a attachment, maps map[string]*ebpf.Map) error {
	for name, m := range maps {
		if err := replacePin(m, p.path(name), p.path("next_"+name)); err != nil {
			return fmt.Errorf("%w: pin map %s: %w", ErrPin, name, err)
		}
	}
	if a.pinned {
		return nil
	}
	if err := a.link.Pin(p.path(pinLink)); err != nil {
		return fmt.Errorf("%w: pin link: %w", ErrPin, err)
	}
	return nil
}

// replacePin pins the map at path in one step, whatever is there. Map.Pin does not
// replace, so that the map gets there by way of next.
func replacePin(m *ebpf.Map, path, next string) error {
	// Left by a process that died half way.
	if err := ignoreMissing(os.Remove(next)); err != nil {
		return err
	}
	if err := m.Pin(next); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, m.Unpin())
	}
	return m.Unpin() // makes the Map forget next, which is gone
}

// remove deletes the pins. The directory stays, and stays locked.
func (p *pins) remove() error {
	var errs []error
	names := []string{pinLink, steerMapXsks, steerMapQpns, steerMapAddresses, steerMapConfig, steerMapCounters}
	for _, name := range names {
		errs = append(errs, ignoreMissing(os.Remove(p.path(name))))
	}
	return errors.Join(errs...)
}

// close ends the use of the directory and leaves the pins; a directory without
// pins goes.
func (p *pins) close() error {
	err := ignoreMissing(os.Remove(p.dir))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY) { // pins, a mount point
		err = nil
	}
	return errors.Join(err, p.lock.Close())
}

// Unpin removes the pins, so that the program is detached when the Steer is
// closed or the process ends. The pin directory is not used again. It is no error
// that nothing is pinned.
func (s *Steer) Unpin() error {
	return s.locked("unpin", nil, func() error {
		if s.pins == nil {
			return nil
		}
		err := errors.Join(s.pins.remove(), s.pins.close())
		s.pins = nil
		return err
	})
}
