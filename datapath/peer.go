package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// localHopLimit is that of what does not leave the device.
const localHopLimit = 64

// pathFinder knows how the kernel reaches a peer; resolve.Resolver is one.
type pathFinder interface {
	Route(req *verbs.ResolveRequest) (verbs.Resolution, error)
	// Index is that of an interface with a name or number.
	Index(name string) (int, error)
	// Neighbour has the next hop of what Route has found answer.
	Neighbour(ctx context.Context, res verbs.Resolution) (verbs.Resolution, error)
}

// search is a request and what the device had when it came.
type search struct {
	dev  *Device
	req  verbs.ResolveRequest
	gids gidTable
	link linkInfo
	mac  [6]byte

	oif   int // of the interface that the request names; 0: none
	named string

	preferred verbs.Resolution // what the kernel says without an interface; asking is most of the work
}

// Resolve finds out how the device reaches a peer; see verbs.Context.Resolve.
func (d *Device) Resolve(ctx context.Context, req *verbs.ResolveRequest) (verbs.Resolution, error) {
	if d.closed.Load() {
		return verbs.Resolution{}, ErrClosed
	}
	if err := d.checkThere(); err != nil {
		return verbs.Resolution{}, err
	}
	d.mu.Lock()
	s := &search{dev: d, req: *req, gids: gidTable{slices.Clone(d.gids.entries)}, link: d.link, mac: d.link.mac}
	d.mu.Unlock()
	if err := s.understand(); err != nil {
		return verbs.Resolution{}, err
	}
	if i := s.own(s.dst()); i >= 0 {
		return s.local(i)
	}
	if d.paths == nil {
		return s.neighbour(ctx)
	}
	return s.find(ctx)
}

func (s *search) dst() netip.Addr { return s.req.Dst.Unmap().WithZone("") }
func (s *search) src() netip.Addr { return s.req.Src.Unmap().WithZone("") }

// understand checks the addresses. A loopback address becomes one of the device.
func (s *search) understand() error {
	dst := s.dst()
	if !dst.IsValid() || dst.IsUnspecified() || dst.IsInterfaceLocalMulticast() {
		return fmt.Errorf("%w: %s is not the address of a peer", ErrInvalid, dst)
	}
	if err := s.name(); err != nil {
		return err
	}
	if src := s.src(); !src.IsValid() || src.IsUnspecified() {
		s.req.Src = netip.Addr{}
	} else if src.Is4() != dst.Is4() {
		return fmt.Errorf("%w: the peer's address %s and the source %s are of different families", ErrInvalid, dst, src)
	} else if !s.gids.has(src) {
		return fmt.Errorf("%w: %s is no address of %s, which has %s", ErrNoSource, src, s.link.name, s.gids.describe())
	} else if s.oif != 0 && src.IsLinkLocalUnicast() && s.own(src) < 0 {
		return fmt.Errorf("%w: %s does not have the address %s, the addresses of %s are %s", ErrNoSource, s.named, src, s.link.name, s.gids.describe())
	}
	if !dst.IsLoopback() {
		return nil
	}
	for _, narrow := range []bool{false, true} {
		i := s.index(func(e ownAddr) bool { return e.addr.Is4() == dst.Is4() && e.addr.IsLinkLocalUnicast() == narrow })
		if i >= 0 {
			s.req.Dst, s.req.Interface, s.oif = s.gids.entries[i].addr, "", 0
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no address to stand for %s, it has %s", ErrNoSource, s.link.name, dst, s.gids.describe())
}

// name finds the interface that the request names, by zones too.
func (s *search) name() error {
	for _, name := range []string{s.req.Interface, s.req.Dst.Zone(), s.req.Src.Zone()} {
		if name == "" {
			continue
		}
		oif, err := s.interfaceOf(name)
		switch {
		case err != nil:
			return err
		case s.oif != 0 && s.oif != oif:
			return fmt.Errorf("%w: two interfaces are named, %s and %s", ErrInvalid, s.named, name)
		}
		s.named, s.oif = name, oif
	}
	return nil
}

// interfaceOf is the index of an interface by name or number.
func (s *search) interfaceOf(name string) (int, error) {
	if name == s.link.name {
		return s.link.index, nil
	}
	if s.dev.paths != nil {
		return s.dev.paths.Index(name)
	}
	n, err := strconv.Atoi(name)
	if err != nil || n <= 0 || n != s.link.index && s.index(func(e ownAddr) bool { return e.oif == n }) < 0 {
		return 0, fmt.Errorf("%w: there is no interface %s here, neither %s nor on top of it", ErrNoDevice, name, s.link.name)
	}
	return n, nil
}

// own is the entry of an own address, -1 if it is none. One that is link-local is an
// address of the interface that is named; another is the host's, whatever the way to it.
func (s *search) own(a netip.Addr) int {
	i := s.index(func(e ownAddr) bool { return e.addr == a && (s.oif == 0 || e.oif == s.oif) })
	if i < 0 && !a.IsLinkLocalUnicast() {
		i = s.index(func(e ownAddr) bool { return e.addr == a })
	}
	return i
}

// index is the first entry of the GID table that fits, -1 if none does.
func (s *search) index(fits func(ownAddr) bool) int {
	return slices.IndexFunc(s.gids.entries, func(e ownAddr) bool { return e.addr.IsValid() && fits(e) })
}

// describe is what an entry of the GID table tells of the way from it.
func (s *search) describe(i int) verbs.Resolution {
	e := s.gids.entries[i]
	res := verbs.Resolution{
		Dst: s.dst(), Src: e.addr, SGIDIndex: i, NextHop: s.dst(),
		Interface: s.link.name, IfIndex: s.link.index, Device: s.link.name, VLAN: e.vlan,
		SrcMAC: s.mac, LinkMTU: s.link.mtu, PathMTU: s.link.mtu, MTU: resolve.PathMTU(s.link.mtu), HopLimit: localHopLimit,
	}
	if e.mac != [6]byte{} {
		res.SrcMAC = e.mac
	}
	if e.oif != 0 {
		res.IfIndex = e.oif
	}
	return res
}

// local is the answer for an address of the device.
func (s *search) local(i int) (verbs.Resolution, error) {
	if s.req.Src.IsValid() {
		if i = s.own(s.src()); i < 0 {
			i = s.index(func(e ownAddr) bool { return e.addr == s.src() })
		}
	}
	res := s.describe(i)
	res.Local, res.DstMAC = true, res.SrcMAC
	if oif := s.gids.entries[i].oif; oif != 0 && oif != s.link.index && s.dev.paths != nil {
		known, err := s.dev.paths.Route(&verbs.ResolveRequest{Dst: res.Src, Interface: strconv.Itoa(oif)})
		if err != nil {
			return res, err
		}
		res.Interface, res.IfIndex, res.LinkMTU, res.PathMTU, res.MTU = known.Interface, oif, known.LinkMTU, known.PathMTU, known.MTU
	}
	return res, nil
}

// neighbour is the answer of a device that has no kernel behind it, or for an
// address of which the kernel knows nothing.
func (s *search) neighbour(ctx context.Context) (verbs.Resolution, error) {
	i := s.index(func(e ownAddr) bool {
		fits := e.addr == s.src() || !s.req.Src.IsValid() && e.addr.Is4() == s.dst().Is4()
		return fits && (s.oif == 0 || e.oif == s.oif)
	})
	if i < 0 {
		return verbs.Resolution{}, fmt.Errorf("%w: %s has no address to reach %s from, it has %s", ErrNoSource, s.link.name, s.dst(), s.gids.describe())
	}
	res := s.describe(i)
	if s.dst().IsMulticast() {
		group := s.dst().As16()
		res.DstMAC = wire.MulticastMAC(&group)
		return res, nil
	}
	var hop nextHop
	var err error
	if e := s.gids.entries[i]; e.oif == 0 {
		hop, err = s.dev.staticHop(e.place, s.dst())
	} else {
		hop, err = s.dev.routes.resolve(ctx, leg{e.oif, e.addr, s.dst()})
	}
	res.NextHop, res.DstMAC = hop.addr, hop.mac
	return res, err
}

// find asks the kernel for a way through an interface of the device.
func (s *search) find(ctx context.Context) (verbs.Resolution, error) {
	if s.req.Src.IsValid() && s.index(func(e ownAddr) bool { return e.addr == s.src() && e.oif != 0 }) < 0 {
		return s.neighbour(ctx)
	}
	var first error
	for _, name := range s.interfaces() {
		req := s.req
		req.Interface = name
		res, i, err := s.through(&req)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if res, err = s.dev.paths.Neighbour(ctx, res); s.dev.closed.Load() {
			err = ErrClosed
		}
		res.SGIDIndex = i
		return res, err
	}
	return verbs.Resolution{}, first
}

// through finds a way and the index of its source address in the GID table.
func (s *search) through(req *verbs.ResolveRequest) (verbs.Resolution, int, error) {
	res, err := s.preferred, error(nil)
	if res.IfIndex == 0 || req.Interface != strconv.Itoa(res.IfIndex) {
		res, err = s.dev.paths.Route(req)
	}
	switch {
	case err != nil:
		return res, -1, err
	case res.Local:
		return res, -1, fmt.Errorf("%w: %s is this host's own address, of %s, not of %s, which has %s",
			ErrNoRoute, res.Dst, res.Interface, s.link.name, s.gids.describe())
	}
	i := s.index(func(e ownAddr) bool { return e.addr == res.Src && e.oif == res.IfIndex })
	switch {
	case i >= 0:
		return res, i, nil
	case s.index(func(e ownAddr) bool { return e.oif == res.IfIndex }) < 0 && res.IfIndex != s.link.index:
		return res, -1, fmt.Errorf("%w: the way to %s is through %s, which is neither %s nor on top of it", ErrNoDevice, res.Dst, res.Interface, s.link.name)
	}
	return res, -1, fmt.Errorf("%w: %s is not in the GID table of %s, which has %s", ErrNoSource, res.Src, s.link.name, s.gids.describe())
}

// interfaces are those to try, in order: the one that is asked for or has the
// source, else what the kernel prefers, the device's and those on top of it.
func (s *search) interfaces() []string {
	if s.oif != 0 {
		return []string{strconv.Itoa(s.oif)}
	}
	var all []string
	if s.req.Src.IsValid() {
		for _, e := range s.gids.entries {
			if e.addr == s.src() && e.oif != 0 {
				all = append(all, strconv.Itoa(e.oif))
			}
		}
		return all
	}
	all = append(all, strconv.Itoa(s.link.index))
	for _, e := range s.gids.entries {
		if name := strconv.Itoa(e.oif); e.addr.IsValid() && e.oif != 0 && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if scoped := s.dst().IsLinkLocalUnicast() || s.dst().IsLinkLocalMulticast(); !scoped {
		res, err := s.dev.paths.Route(&s.req)
		if preferred := strconv.Itoa(res.IfIndex); err == nil && slices.Contains(all, preferred) {
			s.preferred = res
			return append([]string{preferred}, all...)
		}
	}
	return all
}
