package pingpong

import (
	"errors"
	"fmt"
	"io"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrOptions reports options that no run is possible with.
var ErrOptions = errors.New("bad options")

// DefaultPort is the TCP port of the C programs.
const DefaultPort = 18515

// Options are those of the C programs. Defaults returns their values.
type Options struct {
	Open      func(ifname string) (*verbs.Context, error)
	Interface string // empty: the one that the TCP connection uses
	GIDIndex  int    // negative: the address that the TCP connection uses, else the device's default
	Server    string // empty: be the server
	Port      int
	Size      int  // bytes of each message
	MTU       int  // path MTU in bytes; both ends must be told the same; not for UD
	RxDepth   int  // receives kept posted
	QPs       int  // RunSRQ: queue pairs, up to RxDepth; both ends must be told the same
	Iters     int  // messages each way; both ends must be told the same
	SL        int  // service level, 0 to 7
	Events    bool // sleep on completion events instead of polling
	Validate  bool // check what the C programs check
	JSON      bool
	Out       io.Writer
	Listening func(port int) // called when a server waits for its client; may be nil
}

// DefaultsSRQ are the values that ibv_srq_pingpong has without options.
func DefaultsSRQ() Options {
	o := Defaults(verbs.RC)
	o.QPs = 16
	return o
}

// maxQPs is the most queue pairs of a run: the C program has one entry less than
// its message has room for.
const maxQPs = 255

func (o *Options) checkSRQ() error {
	if err := o.check(verbs.RC); err != nil {
		return err
	}
	if most := min(maxQPs, o.RxDepth); o.QPs < 1 || o.QPs > most {
		return fmt.Errorf("%w: num-qp (-q) is %d: 1 to %d, and no more than rx-depth (-r), are possible", ErrOptions, o.QPs, most)
	}
	return nil
}

// Defaults are the values that the C program of a transport service has without
// options.
func Defaults(service verbs.QPType) Options {
	o := Options{GIDIndex: -1, Port: DefaultPort, Size: 4096, MTU: 1024, RxDepth: 500, Iters: 1000}
	if service == verbs.UD {
		o.Size = 1024
	}
	return o
}

func (o *Options) check(service verbs.QPType) error {
	if service != verbs.RC && service != verbs.UC && service != verbs.UD {
		return fmt.Errorf("%w: no ping-pong over %s: RC, UC and UD are there", ErrOptions, service)
	}
	for _, r := range []struct {
		name         string
		v, low, high int
	}{
		{"port (-p)", o.Port, 0, 65535},
		{"size (-s)", o.Size, 1, 1 << 30},
		{"rx-depth (-r)", o.RxDepth, 1, 1 << 16},
		{"iters (-n)", o.Iters, 1, 1<<31 - 1},
		{"service level (-l)", o.SL, 0, 7},
	} {
		if r.v < r.low || r.v > r.high {
			return fmt.Errorf("%w: %s is %d: %d to %d are possible", ErrOptions, r.name, r.v, r.low, r.high)
		}
	}
	if service != verbs.UD && o.mtu() == 0 {
		return fmt.Errorf("%w: mtu (-m) is %d: 256, 512, 1024, 2048 and 4096 are possible", ErrOptions, o.MTU)
	}
	return nil
}

func (o *Options) mtu() verbs.MTU { return connect.PathMTU(o.MTU) }
