package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// host is one end: a namespace with a device.
type host struct {
	end  *netns.End
	dev  *verbs.Context
	gid  verbs.GIDEntry
	port verbs.PortAttr
}

// setUp makes the namespaces, the link and the devices.
func (d *demo) setUp(context.Context) (err error) {
	o := netns.PairOptions{MTU: d.LinkMTU, Queues: d.Queues, NoIPv4: d.IPv6, NoIPv6: !d.IPv6}
	if d.pair, err = netns.NewPair(o); err != nil {
		return err
	}
	if d.a, err = d.openHost(d.pair.A); err != nil {
		return err
	}
	if d.b, err = d.openHost(d.pair.B); err != nil {
		return err
	}
	d.report.PathMTU = min(d.a.port.ActiveMTU, d.b.port.ActiveMTU).Bytes()
	if d.report.A, err = d.a.describe(); err != nil {
		return err
	}
	d.report.B, err = d.b.describe()
	return err
}

func (d *demo) openHost(end *netns.End) (*host, error) {
	h := &host{end: end}
	err := end.NS.Do(func() (err error) {
		h.dev, err = d.Open(end.Ifname)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", end.Ifname, err)
	}
	if h.port, err = h.dev.QueryPort(); err == nil {
		h.gid, err = connect.GID(h.dev, -1, end.Addr())
	}
	if err != nil {
		h.dev.Close()
		return nil, err
	}
	return h, nil
}

func (h *host) describe() (Host, error) {
	attr, err := h.dev.QueryDevice()
	if err != nil {
		return Host{}, err
	}
	return Host{
		Namespace: h.end.NS.Name(), Device: h.dev.Name(), Address: h.end.Addr().String(),
		XDPMode: attr.XDPMode, ZeroCopy: attr.ZeroCopy,
	}, nil
}

// path has the attributes of every connection of the demonstration.
func (d *demo) path() connect.Path {
	return connect.Path{MTU: connect.PathMTU(d.report.PathMTU)}
}

// counters reads what the XDP programs and the devices counted.
func (d *demo) counters(context.Context) error {
	if err := d.a.count(&d.report.A); err != nil {
		return err
	}
	return d.b.count(&d.report.B)
}

// xdpPrefix begins the names of counters that the steering program keeps.
const xdpPrefix = "xdp_"

func (h *host) count(out *Host) error {
	all, err := h.dev.Counters()
	if err != nil {
		return err
	}
	out.XDP, out.Counters = map[string]uint64{}, map[string]uint64{}
	for _, c := range all {
		if name, ok := strings.CutPrefix(c.Name, xdpPrefix); ok {
			out.XDP[name] = c.Value
		} else {
			out.Counters[c.Name] = c.Value
		}
	}
	return nil
}
