// Package explain tells how a peer is reached, step by step.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/opener"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrOptions says that the options do not make a question.
var ErrOptions = errors.New("bad option")

// Options are a question and where the answer goes.
type Options struct {
	Peer      string // address, with a zone (fe80::1%eth0) if link-local, or host name
	Interface string // to leave by; empty: any
	Source    string // own address; empty: what the kernel prefers
	TOS       int    // 0 to 255
	Timeout   time.Duration
	Way       opener.Way // who is asked
	JSON      bool
	Out       io.Writer
}

// answer is the JSON form. What is not known is left out.
type answer struct {
	Destination  string `json:"destination"`
	Local        bool   `json:"local"`
	Device       string `json:"device,omitempty"`
	Interface    string `json:"interface,omitempty"`
	VLAN         uint16 `json:"vlan,omitempty"`
	Source       string `json:"source,omitempty"`
	SourceMAC    string `json:"source_mac,omitempty"`
	GID          string `json:"gid,omitempty"`
	GIDIndex     *int   `json:"gid_index,omitempty"`
	Gateway      string `json:"gateway,omitempty"`
	Table        int    `json:"table,omitempty"`
	NextHop      string `json:"next_hop,omitempty"`
	MAC          string `json:"mac,omitempty"`
	Neighbour    string `json:"neighbour,omitempty"`
	LinkMTU      int    `json:"link_mtu,omitempty"`
	PathMTU      int    `json:"path_mtu,omitempty"`
	RDMAMTU      int    `json:"rdma_mtu"`
	HopLimit     uint8  `json:"hop_limit,omitempty"`
	GSIPort      uint16 `json:"gsi_source_port,omitempty"`
	ErrorMessage string `json:"error,omitempty"`
}

// Run answers in the network namespace of the calling thread, or of the daemon when
// that is asked. When there is no way it writes how far it got, and returns why. Errors
// are ErrOptions, those of package resolve, and those of verbs.Open.
func Run(ctx context.Context, o *Options) error {
	req, err := o.request(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	a, failure := o.ask(ctx, req)
	if a == nil {
		return failure
	}
	if failure != nil {
		a.ErrorMessage = failure.Error()
	}
	if o.JSON {
		enc := json.NewEncoder(o.Out)
		enc.SetIndent("", "  ")
		err = enc.Encode(a)
	} else {
		err = a.write(o.Out)
	}
	return errors.Join(failure, err)
}

// ask finds the answer, as far as there is one; nil if the question could not be asked.
func (o *Options) ask(ctx context.Context, req *verbs.ResolveRequest) (*answer, error) {
	if o.Way == opener.Daemon {
		return o.askDaemon(ctx, req)
	}
	r, err := resolve.New()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	res, failure := r.Resolve(ctx, req)
	if errors.Is(failure, resolve.ErrInvalid) {
		return nil, fmt.Errorf("%w: %w", ErrOptions, failure)
	}
	a := describe(req, &res)
	if res.Interface == "" {
		return a, failure
	}
	table := func() ([]verbs.GIDEntry, error) { return datapath.PlanGIDs(res.Device) }
	if o.Way == opener.Either {
		if served, _ := opener.Serves(res.Device); served {
			table = func() ([]verbs.GIDEntry, error) { return servedGIDs(res.Device) }
		}
	}
	if gids, err := table(); err == nil { // else the index is not known
		a.source(gids, &res)
	}
	return a, failure
}

// servedGIDs are the GIDs of a daemon's device.
func servedGIDs(ifname string) ([]verbs.GIDEntry, error) {
	dev, err := verbs.Open(ifname)
	if err != nil {
		return nil, err
	}
	gids, err := dev.GIDs()
	return gids, errors.Join(err, dev.Close())
}

// askDaemon asks a device of the daemon, which knows no ways but its own.
func (o *Options) askDaemon(ctx context.Context, req *verbs.ResolveRequest) (a *answer, err error) {
	dev, err := verbs.Open(o.Interface)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	req.Interface = "" // a device's interface may be one on top of the one that it is named after
	res, failure := dev.Resolve(ctx, req)
	if errors.Is(failure, verbs.ErrInvalid) {
		return nil, fmt.Errorf("%w: %w", ErrOptions, failure)
	}
	a = describe(req, &res)
	if gids, err := dev.GIDs(); err == nil && res.Interface != "" {
		a.source(gids, &res)
	}
	return a, failure
}

// request makes a question of the options.
func (o *Options) request(ctx context.Context) (*verbs.ResolveRequest, error) {
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("%w: timeout %v: more than 0 is needed", ErrOptions, o.Timeout)
	}
	if o.TOS < 0 || o.TOS > 255 {
		return nil, fmt.Errorf("%w: type of service %d: 0 to 255 are possible", ErrOptions, o.TOS)
	}
	req := &verbs.ResolveRequest{Interface: o.Interface, TOS: uint8(o.TOS)}
	var err error
	if o.Source != "" {
		if req.Src, err = netip.ParseAddr(o.Source); err != nil {
			return nil, fmt.Errorf("%w: the source %q is no IP address", ErrOptions, o.Source)
		}
	}
	if req.Dst, err = netip.ParseAddr(o.Peer); err == nil {
		return req, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", o.Peer)
	if err != nil {
		return nil, fmt.Errorf("%q is no IP address, and no host that can be looked up: %w", o.Peer, err)
	}
	req.Dst = all[0].Unmap()
	return req, nil
}

// describe makes the answer of a resolution, which is empty where there is no way.
func describe(req *verbs.ResolveRequest, res *verbs.Resolution) *answer {
	if res.Interface == "" {
		return &answer{Destination: req.Dst.String()}
	}
	a := &answer{
		Destination: res.Dst.String(), Local: res.Local, Device: res.Device, Interface: res.Interface, VLAN: res.VLAN,
		Source: res.Src.String(), SourceMAC: mac(res.SrcMAC), Table: res.Table, NextHop: res.NextHop.String(), MAC: mac(res.DstMAC),
		Neighbour: res.Neighbour, LinkMTU: res.LinkMTU, PathMTU: res.PathMTU, RDMAMTU: res.MTU.Bytes(), HopLimit: res.HopLimit,
		GSIPort: wire.PortFromQPN(verbs.GSIQPN),
	}
	if res.Gateway() {
		a.Gateway = a.NextHop
	}
	return a
}

// source adds the GID of the source address, if it is in a device's table.
func (a *answer) source(gids []verbs.GIDEntry, res *verbs.Resolution) {
	for i := range gids {
		if g := &gids[i]; g.GID == verbs.GID(res.Src.As16()) && g.IfIndex == res.IfIndex {
			a.GID, a.GIDIndex = netip.AddrFrom16(g.GID).String(), &g.Index
		}
	}
}

func mac(m [6]byte) string {
	if m == [6]byte{} {
		return ""
	}
	return net.HardwareAddr(m[:]).String()
}
