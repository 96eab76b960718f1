package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

const (
	// headers is what rdma_cm takes away from the link MTU for the headers of a packet.
	headers = 96
	// defaultHopLimit is that of routes that have none.
	defaultHopLimit = 64
)

// wish is a request that has been understood.
type wish struct {
	dst, src netip.Addr   // without zones; src may be invalid
	link     netlink.Link // nil: any
	tos      uint8
}

// understand checks a request and finds the interfaces that it names.
func (r *Resolver) understand(req *verbs.ResolveRequest) (w wish, err error) {
	if req == nil || !req.Dst.IsValid() || req.Dst.Unmap().IsUnspecified() || req.Dst.IsInterfaceLocalMulticast() {
		return w, fmt.Errorf("%w: the address of a peer is needed", ErrInvalid)
	}
	w = wish{dst: plain(req.Dst), tos: req.TOS}
	if req.Src.IsValid() && !req.Src.Unmap().IsUnspecified() {
		w.src = plain(req.Src)
		if w.src.Is4() != w.dst.Is4() {
			return w, fmt.Errorf("%w: the peer's address %s and the source %s are of different families", ErrInvalid, w.dst, w.src)
		}
	}
	for _, name := range []string{req.Interface, req.Dst.Zone(), req.Src.Zone()} {
		if name == "" {
			continue
		}
		l, err := r.link(name)
		if err != nil {
			return w, err
		}
		if w.link != nil && w.link.Attrs().Index != l.Attrs().Index {
			return w, fmt.Errorf("%w: two interfaces are named, %s and %s", ErrInvalid, w.link.Attrs().Name, l.Attrs().Name)
		}
		w.link = l
	}
	return w, r.checkSource(&w)
}

// checkSource finds the interface of the source address.
func (r *Resolver) checkSource(w *wish) error {
	if !w.src.IsValid() {
		return nil
	}
	on, err := r.holders(w.src)
	switch {
	case err != nil:
		return err
	case len(on) == 0:
		return fmt.Errorf("%w: %s is no address of this host: ip address shows those that are", ErrNoSource, w.src)
	case w.link != nil && !slices.Contains(on, w.link.Attrs().Index):
		return fmt.Errorf("%w: %s is an address of %s, not of %s", ErrNoSource, w.src, r.nameOf(on[0]), w.link.Attrs().Name)
	case w.link == nil && len(on) == 1:
		w.link, err = r.link(strconv.Itoa(on[0]))
	}
	return err
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// find answers a wish, but for the link-layer address of the next hop unless the
// kernel knows it.
func (r *Resolver) find(w wish) (verbs.Resolution, error) {
	scoped := w.dst.Is6() && (w.dst.IsLinkLocalUnicast() || w.dst.IsLinkLocalMulticast())
	if on, err := r.holders(w.dst); err != nil {
		return verbs.Resolution{}, err
	} else if index, ok := r.ownOn(on, &w); ok {
		return r.local(w, index)
	} else if len(on) > 0 && !scoped {
		return verbs.Resolution{}, fmt.Errorf("%w: %s is this host's own address, of %s, not of %s", ErrNoRoute, w.dst, r.nameOf(on[0]), w.link.Attrs().Name)
	}
	if scoped && w.link == nil {
		return verbs.Resolution{}, fmt.Errorf("%w: %s may be on any link: name the interface, %s%%NAME; there are %s", ErrNoDevice, w.dst, w.dst, r.names())
	}
	q := question{src: w.src, dst: w.dst, tos: w.tos}
	if w.link != nil {
		q.oif = w.link.Attrs().Index
	}
	a, err := r.lookup(q)
	if err == nil && a.typ == unix.RTN_LOCAL && w.link == nil { // 127.0.0.2, or of a local route
		return r.local(w, a.oif)
	}
	if a, err = r.reach(q); err != nil {
		return verbs.Resolution{}, err
	}
	link := w.link
	if link == nil {
		if link, err = r.link(strconv.Itoa(a.oif)); err != nil {
			return verbs.Resolution{}, err
		}
	}
	res, err := r.onLink(w, link)
	if err != nil {
		return verbs.Resolution{}, err
	}
	if !w.src.IsValid() {
		if res.Src, err = r.sourceOn(link, a.src, w.dst); err != nil {
			return verbs.Resolution{}, err
		}
		// Rules may send what comes from this address another way.
		q.oif, q.src = res.IfIndex, res.Src
		if a, err = r.reach(q); err != nil {
			return verbs.Resolution{}, err
		}
	}
	return r.complete(res, &a)
}

// ownOn tells on which interface the destination is this host's own address. A
// link-local address may be on several.
func (r *Resolver) ownOn(on []int, w *wish) (index int, own bool) {
	switch {
	case len(on) == 0:
		return 0, false
	case w.link != nil:
		index = w.link.Attrs().Index
		return index, slices.Contains(on, index)
	case w.dst.IsLinkLocalUnicast() && len(on) > 1:
		return 0, false
	}
	return on[0], true
}

// local is the answer for an address of this host.
func (r *Resolver) local(w wish, index int) (verbs.Resolution, error) {
	link, err := r.links.LinkByIndex(index)
	if err != nil {
		return verbs.Resolution{}, fmt.Errorf("%w: look up interface %d: %w", ErrNoDevice, index, err)
	}
	res := r.describe(w, link)
	if !res.Src.IsValid() {
		res.Src = w.dst
	}
	res.Local, res.NextHop, res.DstMAC = true, w.dst, res.SrcMAC
	res.HopLimit, res.PathMTU = defaultHopLimit, res.LinkMTU
	res.MTU = PathMTU(res.PathMTU)
	return res, nil
}

// onLink begins the answer for what leaves by a link. Errors: ErrNoDevice.
func (r *Resolver) onLink(w wish, link netlink.Link) (verbs.Resolution, error) {
	if a := link.Attrs(); len(a.HardwareAddr) != 6 {
		return verbs.Resolution{}, fmt.Errorf("%w: %s leads to %s, but has no Ethernet address (type %s)", ErrNoDevice, a.Name, w.dst, link.Type())
	}
	return r.describe(w, link), nil
}

func (r *Resolver) describe(w wish, link netlink.Link) verbs.Resolution {
	a := link.Attrs()
	device, vlan := r.lower(link)
	res := verbs.Resolution{
		Dst: w.dst, Src: w.src, SGIDIndex: -1,
		Interface: a.Name, IfIndex: a.Index, Device: device.Attrs().Name, VLAN: vlan, LinkMTU: a.MTU,
	}
	if len(a.HardwareAddr) == len(res.SrcMAC) {
		res.SrcMAC = [6]byte(a.HardwareAddr)
	}
	return res
}

// complete adds what the route says.
func (r *Resolver) complete(res verbs.Resolution, a *answer) (verbs.Resolution, error) {
	res.NextHop, res.Table = a.hop(res.Dst), int(a.table)
	res.PathMTU = res.LinkMTU
	if a.mtu != 0 {
		res.PathMTU = min(res.PathMTU, a.mtu)
	}
	res.MTU = PathMTU(res.PathMTU)
	res.HopLimit = defaultHopLimit
	if a.hopLimit > 0 && a.hopLimit < 256 {
		res.HopLimit = uint8(a.hopLimit)
	}
	if res.Dst.IsMulticast() {
		group := res.Dst.As16()
		res.NextHop, res.DstMAC = res.Dst, wire.MulticastMAC(&group)
		return res, nil
	}
	n, err := r.neighbour(res.IfIndex, res.NextHop)
	if err == nil {
		res.DstMAC, res.Neighbour = n.mac, n.state.String()
	}
	return res, nil // Resolve asks again, and has an error then
}

// PathMTU is the largest path MTU for the MTU of a link or route in bytes, 0 if
// there is none.
func PathMTU(linkMTU int) verbs.MTU {
	for m := verbs.MTU4096; m >= verbs.MTU256; m-- {
		if m.Bytes()+headers <= linkMTU {
			return m
		}
	}
	return 0
}
