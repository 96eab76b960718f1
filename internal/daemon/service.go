package daemon

import (
	"context"
	"log/slog"
	"net"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
)

// Service gives devices to other programs. Its methods are safe for concurrent use.
type Service interface {
	AddDevice(d *datapath.Device) error
	// RemoveDevice ends what programs have of the device, which is closed afterwards.
	RemoveDevice(name string) error
	// Serve answers at l until Shutdown.
	Serve(l *net.UnixListener) error
	// Resources are the rows of the kind, see control.Kinds; each begins with the
	// ifname of its device, which stands for what Daemon puts there.
	Resources(kind string) []control.Row
	// Shutdown disconnects programs' peers and ends the programs' devices, in the time
	// that ctx gives.
	Shutdown(ctx context.Context) error
}

// NewService makes the Service of a daemon.
type NewService func(policy Policy, log *slog.Logger) (Service, error)
