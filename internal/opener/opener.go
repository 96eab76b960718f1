// Package opener opens the device of an interface for a command: through the daemon
// that serves the interface, or in the command's own process.
package opener

import (
	"errors"
	"fmt"
	"net"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Way says how a device is opened.
type Way uint8

const (
	// Either is through the daemon when one serves the interface, else in this process.
	Either Way = iota
	// Daemon is through the daemon only, which needs no privileges.
	Daemon
	// InProcess is in this process only, which then owns the interface.
	InProcess
)

// Open opens the device of an interface. Options are those of a device in this
// process; a daemon's has its own. Errors are those of packages verbs and datapath.
func Open(ifname string, way Way, o *datapath.Options) (*verbs.Context, error) {
	switch way {
	case Daemon:
		return verbs.Open(ifname)
	case InProcess:
		return datapath.Open(ifname, o)
	default:
	}
	served, why := Serves(ifname)
	if served {
		return verbs.Open(ifname)
	}
	dev, err := datapath.Open(ifname, o)
	if errors.Is(err, bpf.ErrPrivilege) || errors.Is(err, bpf.ErrBusy) { // a daemon would help, or has it
		err = fmt.Errorf("%w; %w", err, why)
	}
	return dev, err
}

// errNotServed: there is a daemon, which does not serve the interface.
var errNotServed = errors.New("not served by the daemon")

// Serves reports whether the daemon has a device of this interface that this user may
// open, and if not, why, with what to do about it.
func Serves(ifname string) (bool, error) {
	all, err := verbs.Devices()
	switch {
	case errors.Is(err, verbs.ErrNoDaemon):
		return false, fmt.Errorf("or have a daemon serve it to everybody with `sudo roce-xdp run %s`: %w at %s (%s names another directory)",
			ifname, verbs.ErrNoDaemon, session.Dir(), session.DirVariable)
	case err != nil:
		return false, fmt.Errorf("nor by the daemon: %w", err)
	}
	for i := range all {
		switch {
		case all[i].Name != ifname && isHere(&all[i], ifname): // it was renamed since
			return true, nil
		case all[i].Name != ifname:
		case sameHere(&all[i]):
			return true, nil
		default:
			return false, fmt.Errorf("%w at %s, whose %s is one of another network namespace: --daemon opens that", errNotServed, session.Dir(), ifname)
		}
	}
	return false, fmt.Errorf("%w at %s either: add %s to the interfaces that it serves", errNotServed, session.Dir(), ifname)
}

// sameHere reports whether a daemon's device is that of the interface with its name
// here: the directory of a daemon's socket is seen from all network namespaces, in which
// one name stands for many interfaces. Where there is no such interface, as in a
// container, only the daemon's can be meant.
func sameHere(d *verbs.DeviceInfo) bool {
	_, err := net.InterfaceByName(d.Name)
	return err != nil || isHere(d, d.Name)
}

// isHere reports whether a daemon's device is that of the interface of a name here.
func isHere(d *verbs.DeviceInfo, ifname string) bool {
	i, err := net.InterfaceByName(ifname)
	if err != nil {
		return false
	}
	here, err := resolve.Namespace()
	return err == nil && here == d.NetNS && i.Index == d.IfIndex
}
