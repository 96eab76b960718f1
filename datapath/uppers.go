package datapath

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownOf lists the addresses of an interface and of the VLAN and macvlan
// interfaces on top of it, whose frames go through it as well. uppers are these
// interfaces by index, also those that are down.
func ownOf(h *netlink.Handle, link netlink.Link) (list []ownAddr, uppers map[int]bool, err error) {
	add := func(l netlink.Link, vlan uint16, mac [6]byte) error {
		addrs, err := addressesOf(h, l)
		for _, a := range addrs {
			list = append(list, ownAddr{place{a, l.Attrs().Index, vlan}, mac})
		}
		return err
	}
	if err := add(link, 0, [6]byte{}); err != nil {
		return nil, nil, err
	}
	links, err := h.LinkList()
	if err != nil {
		return nil, nil, err
	}
	uppers = map[int]bool{}
	for _, l := range links {
		a := l.Attrs()
		// With a NetNsID the parent is in another namespace.
		if a.ParentIndex != link.Attrs().Index || a.NetNsID >= 0 {
			continue
		}
		vlan := uint16(0)
		switch v := l.(type) {
		case *netlink.Vlan:
			if v.VlanProtocol != netlink.VLAN_PROTOCOL_8021Q {
				continue // there is one kind of tag that we send
			}
			vlan = uint16(v.VlanId)
		case *netlink.Macvlan:
		default:
			continue
		}
		uppers[a.Index] = true
		if a.Flags&net.FlagUp == 0 || len(a.HardwareAddr) != 6 {
			continue
		}
		if err := add(l, vlan, [6]byte(a.HardwareAddr)); err != nil {
			return nil, nil, err
		}
	}
	return list, uppers, nil
}

// addressesOf lists the addresses of an interface that can be used: not those
// which the kernel still checks for duplicates, or has found to be one.
func addressesOf(h *netlink.Handle, link netlink.Link) ([]netip.Addr, error) {
	list, err := h.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for i := range list {
		if list[i].IPNet == nil || list[i].Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			continue
		}
		if a, ok := netip.AddrFromSlice(list[i].IP); ok {
			addrs = append(addrs, a.Unmap())
		}
	}
	return addrs, nil
}
