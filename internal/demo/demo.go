package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/perf"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrChecks reports that not all checks passed.
var ErrChecks = errors.New("not all checks passed")

// Options choose what is demonstrated.
type Options struct {
	Open     func(ifname string) (*verbs.Context, error)
	LinkMTU  int  // bytes; the path MTU is the largest that fits
	Queues   int  // receive and transmit queues of each end
	IPv6     bool // use IPv6 addresses instead of IPv4
	JSON     bool
	Out      io.Writer
	Progress io.Writer // what is going on; may be nil
	// Quick leaves out the largest messages and shortens the measurements: for
	// tests, not for looking at.
	Quick bool
}

// Report is what a demonstration found.
type Report struct {
	LinkMTU  int        `json:"link_mtu"`
	PathMTU  int        `json:"path_mtu"`
	Queues   int        `json:"queues"`
	A        Host       `json:"a"`
	B        Host       `json:"b"`
	Checks   []Check    `json:"checks"`
	Passed   int        `json:"passed"`
	Failed   int        `json:"failed"`
	Latency  Latency    `json:"latency"`
	Transfer []Transfer `json:"bandwidth"`
	Seconds  float64    `json:"seconds"`
}

// Host is one of the two ends.
type Host struct {
	Namespace string            `json:"namespace"`
	Device    string            `json:"device"`
	Address   string            `json:"address"`
	XDPMode   string            `json:"xdp_mode"`
	ZeroCopy  bool              `json:"zero_copy"`
	XDP       map[string]uint64 `json:"xdp"`      // what the program counted
	Counters  map[string]uint64 `json:"counters"` // all others of the device
}

// Latency compares 64-byte messages; the histogram is of RDMA WRITE.
type Latency struct {
	Write     perf.Latency `json:"write"`
	TCP       perf.Latency `json:"tcp"`
	Histogram []Bar        `json:"histogram"`
}

// Transfer is a line of the bandwidth table.
type Transfer struct {
	Name  string  `json:"name"`
	Bytes int     `json:"message_bytes"`
	Rate  float64 `json:"bytes_per_second"`
}

// Run demonstrates. It is ErrChecks when a check failed, ctx's error when it was
// interrupted; the report has then what was found until there.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if _, err := netns.Sweep(); err != nil {
		return nil, err
	}
	start := time.Now()
	d := &demo{Options: o, report: &Report{LinkMTU: o.LinkMTU, Queues: o.Queues}}
	err = d.run(ctx)
	if cerr := d.close(); err == nil {
		err = cerr
	}
	d.report.Seconds = time.Since(start).Seconds()
	if ctx.Err() != nil {
		return d.report, ctx.Err()
	}
	return d.report, err
}

// demo is a demonstration in progress.
type demo struct {
	Options
	report *Report
	pair   *netns.Pair
	a, b   *host
}

func (d *demo) run(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"two namespaces, a veth pair, a device on each end", d.setUp},
		{"every operation on random data", d.check},
		{"latency", d.latency},
		{"bandwidth", d.bandwidth},
		{"counters of the XDP programs", d.counters},
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(d.Progress, "demo: %s\n", s.what)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// close takes everything down, the devices before the namespaces under them.
func (d *demo) close() error {
	var err error
	for _, h := range []*host{d.a, d.b} {
		if h != nil {
			err = errors.Join(err, h.dev.Close())
		}
	}
	if d.pair != nil {
		err = errors.Join(err, d.pair.Close())
	}
	return err
}
