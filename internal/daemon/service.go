package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/roce-xdp/roce-xdp/internal/buildinfo"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Service gives devices to other programs. Its methods are safe for concurrent use.
type Service interface {
	AddDevice(dev *verbs.Context) error
	// RemoveDevice ends what programs have of the device, which is closed afterwards. It
	// is no error that there is none.
	RemoveDevice(ctx context.Context, name string) error
	// Serve answers at l until Shutdown, which is no error.
	Serve(l *net.UnixListener) error
	// Resources are the rows of the kind, see control.Kinds. Each begins with the ifname
	// of its device.
	Resources(kind string) []control.Row
	// Counts are how many rows Resources has of each kind, by device and kind.
	Counts() map[string]map[string]int
	// Problems are what somebody has to mend, in words.
	Problems() []string
	// Shutdown disconnects programs' peers and ends the programs' devices, in the time
	// that ctx gives.
	Shutdown(ctx context.Context) error
}

// NewService makes the Service of a daemon.
type NewService func(policy Policy, log *slog.Logger) Service

// clients is package serve as a Service.
type clients struct{ *serve.Server }

// Clients is the NewService of the real thing.
func Clients(policy Policy, log *slog.Logger) Service {
	return clients{serve.New(serve.Config{Name: "roce-xdp " + buildinfo.Get().Version, Policy: policy, Log: log})}
}

func (c clients) Serve(l *net.UnixListener) error {
	if err := c.Server.Serve(l); !errors.Is(err, serve.ErrServerClosed) {
		return err
	}
	return nil
}

func (c clients) RemoveDevice(ctx context.Context, name string) error {
	if err := c.Server.RemoveDevice(ctx, name); !errors.Is(err, verbs.ErrInvalid) {
		return err
	}
	return nil // Shutdown has removed it
}
