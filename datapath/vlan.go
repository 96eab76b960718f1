package datapath

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// VLANAddr is an address of a device in a VLAN for which the kernel has no
// interface.
type VLANAddr struct {
	Addr netip.Addr
	VLAN uint16 // 1 to 4094
	// Neighbors are the link-layer addresses of the peers, for which the kernel
	// cannot ask in such a VLAN.
	Neighbors map[netip.Addr]net.HardwareAddr
}

const maxVLAN = 4094

// check refuses what cannot be an address in a VLAN.
func (v *VLANAddr) check() error {
	switch a := v.Addr; {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast():
		return fmt.Errorf("%w: VLANAddrs: %v is not the address of a host", ErrConfig, a)
	case v.VLAN < 1 || v.VLAN > maxVLAN:
		return fmt.Errorf("%w: VLANAddrs: %v is in VLAN %d: 1 to %d are possible", ErrConfig, a, v.VLAN, maxVLAN)
	}
	for peer, mac := range v.Neighbors {
		if len(mac) != 6 || peer.Is4() != v.Addr.Unmap().Is4() {
			return fmt.Errorf("%w: VLANAddrs: %v cannot have the neighbour %v with link-layer address %v", ErrConfig, v.Addr, peer, mac)
		}
	}
	return nil
}

func (v *VLANAddr) place() place {
	return place{addr: v.Addr.Unmap().WithZone(""), vlan: v.VLAN}
}

// staticAddrs are the addresses of options.
func staticAddrs(list []VLANAddr) []ownAddr {
	out := make([]ownAddr, len(list))
	for i := range list {
		out[i].place = list[i].place()
	}
	return out
}

// staticHop finds the next hop of an address of options.
func (d *Device) staticHop(from place, dst netip.Addr) (nextHop, error) {
	for i := range d.opts.VLANAddrs {
		v := &d.opts.VLANAddrs[i]
		if mac, ok := v.Neighbors[dst]; ok && v.place() == from {
			return nextHop{addr: dst, mac: [6]byte(mac)}, nil
		}
	}
	return nextHop{}, fmt.Errorf("%w: %s is in VLAN %d, of which the kernel knows nothing: name %s in VLANAddr.Neighbors", ErrNoNeighbour, from.addr, from.vlan, dst)
}

// tagSet is what a device accepts of tagged frames. It does not change: another
// takes its place.
type tagSet struct {
	addrs map[tagKey]struct{} // unicast
	vlans map[uint16]struct{} // multicast
}

type tagKey struct {
	gid  [16]byte
	vlan uint16
}

func newTagSet(entries []ownAddr) *tagSet {
	s := &tagSet{addrs: map[tagKey]struct{}{}, vlans: map[uint16]struct{}{}}
	for _, e := range entries {
		if e.vlan != 0 {
			s.addrs[tagKey{e.addr.As16(), e.vlan}] = struct{}{}
			s.vlans[e.vlan] = struct{}{}
		}
	}
	return s
}

// tagFits reports whether the packet, which has a VLAN tag, comes from the VLAN
// of the address that it is for: of a connection, or of any that queue pairs of
// datagrams may have. Two tags are of nobody. A packet without a tag may have had
// one that the driver took off (see docs/architecture.md), and fits all.
func (d *Device) tagFits(q *qp, p *wire.Packet) bool {
	if p.OuterVLAN != 0 {
		return false
	}
	if !q.datagram {
		return q.at.vlan == p.VLAN
	}
	_, ok := d.tags.Load().addrs[tagKey{p.DstGID, p.VLAN}]
	return ok
}

// groupTagFits is tagFits for a group, which is in all VLANs of the device.
func (d *Device) groupTagFits(p *wire.Packet) bool {
	_, ok := d.tags.Load().vlans[p.VLAN]
	return ok && p.OuterVLAN == 0
}
