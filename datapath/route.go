package datapath

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// nextHop is where frames to a peer go first.
type nextHop struct {
	addr netip.Addr // of the peer, or of the gateway
	mac  [6]byte
}

// route is the way of the packets of a queue pair or an address handle. It is kept so that the headers can
// be made again when a link-layer address changes.
type route struct {
	set    bool
	local  bool  // the peer is on this device
	group  bool  // the peers are a multicast group
	mute   bool  // the own address is gone
	from   place // the own address
	hop    netip.Addr
	fields wire.PathFields
}

// findRoute finds the way to the peer of an address vector, all but the source
// port, and the own address that it names. It waits for the next hop until ctx ends.
func (d *Device) findRoute(ctx context.Context, av *ibv.AddressVector) (self ibv.GID, r route, err error) {
	dst := addrOf(av.DGID)
	d.mu.Lock()
	src, ok := d.gids.at(av.SGIDIndex)
	own, link, mac, gids := d.gids.has(dst), d.link, d.macOf(src), d.gids.describe()
	d.mu.Unlock()
	switch {
	case !ok:
		return self, r, fmt.Errorf("%w: index %d on %s, which has %s", ErrNoGID, av.SGIDIndex, link.name, gids)
	case dst.IsUnspecified() || dst.IsInterfaceLocalMulticast():
		return self, r, fmt.Errorf("%w: %s is not the address of a peer", ErrInvalid, dst)
	case dst.Is4() != src.addr.Is4():
		return self, r, fmt.Errorf("%w: the peer's address %s and the own %s (GID index %d) are of different families; %s has %s",
			ErrInvalid, dst, src.addr, av.SGIDIndex, link.name, gids)
	}
	hop, group := nextHop{addr: dst, mac: mac}, dst.IsMulticast()
	switch {
	case group:
		hop.mac = wire.MulticastMAC((*[16]byte)(&av.DGID))
	case own:
	case src.oif == 0:
		hop, err = d.staticHop(src.place, dst)
	default:
		hop, err = d.routes.resolve(ctx, leg{src.oif, src.addr, dst})
	}
	if err != nil {
		return self, r, err
	}
	return gidOf(src.addr), route{set: true, local: own, group: group, from: src.place, hop: hop.addr, fields: wire.PathFields{
		DstMAC: hop.mac, SrcMAC: mac, SrcGID: gidOf(src.addr), DstGID: av.DGID, Tagged: src.vlan != 0, VLAN: src.vlan, PCP: av.SL,
		TOS: av.TrafficClass, TTL: av.HopLimit, FlowLabel: av.FlowLabel & 0xFFFFF,
	}}, nil
}

// findRoute finds the way of a connection to a queue pair number of the peer.
func (q *qp) findRoute(ctx context.Context, attr *ibv.QPAttr, remote uint32) (self ibv.GID, r route, err error) {
	if dst := attr.AV.DGID.Addr(); dst.IsMulticast() {
		return self, r, fmt.Errorf("%w: %s is not the address of a peer: datagrams go to groups, connections do not", ErrInvalid, dst)
	}
	if self, r, err = q.dev.findRoute(ctx, &attr.AV); err != nil {
		return self, r, err
	}
	label := r.fields.FlowLabel
	if label == 0 {
		label = wire.FlowLabelFromQPNs(q.num, remote&0xFFFFFF)
	}
	r.fields.UDPSrcPort = wire.FlowLabelToPort(label)
	if q.cfg.DCQCN != nil {
		r.fields.TOS = r.fields.TOS&^ecnMask | ect0
	}
	return self, r, nil
}

// setRoute remembers the way of q's packets.
func (d *Device) setRoute(q *qp, r route) {
	d.mu.Lock()
	q.route = r
	d.mu.Unlock()
}

// rebuildPaths lets change alter the routes of queue pairs and address handles
// and makes the headers of those for which it returns true again. change runs
// with the device's lock, in parts. A route that was found before is not taken once this
// has begun, so all that are not seen have been found since.
func (d *Device) rebuildPaths(change func(r *route) bool) {
	d.following.Lock() // the last change of the world is the last of each route
	defer d.following.Unlock()
	d.mu.Lock()
	d.changes.Add(1)
	d.mu.Unlock()
	d.changeHandles(change)
	for part := range slices.Chunk(keysOf(d, d.qps), walkStep) {
		d.rebuildSome(part, change)
	}
}

// rebuildSome does that for a part of the queue pairs.
func (d *Device) rebuildSome(part []*qp, change func(r *route) bool) {
	type update struct {
		q  *qp
		at whereabouts
	}
	var updates []update
	d.routing.Lock() // who alters a route last also applies it last
	defer d.routing.Unlock()
	walk(d, part, func(q *qp) {
		if !q.route.set || !change(&q.route) {
			return
		}
		u := update{q: q}
		if u.at.lay(&q.route) == nil {
			updates = append(updates, u)
		}
	})
	for i := range updates {
		u := &updates[i]
		// An error says that the device is closed.
		_ = u.q.w.control(func() { u.q.at = u.at })
	}
}

// neighbourChanged takes notice of the link-layer address of a next hop on an
// interface.
func (d *Device) neighbourChanged(oif int, addr netip.Addr, mac [6]byte) {
	d.hops.forget()
	d.rebuildPaths(func(r *route) bool {
		if r.local || r.group || r.hop != addr || r.from.oif != oif || r.fields.DstMAC == mac {
			return false
		}
		r.fields.DstMAC = mac
		return true
	})
}
