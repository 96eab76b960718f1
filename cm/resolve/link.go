package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// link finds an interface by its name or number, and checks that it is up.
// Errors: ErrNoDevice.
func (r *Resolver) link(name string) (netlink.Link, error) {
	l, err := r.links.LinkByName(name)
	if err != nil {
		if index, bad := strconv.Atoi(name); bad == nil && index > 0 {
			l, err = r.links.LinkByIndex(index)
		}
	}
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing) || errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("%w: there is no interface %s in this network namespace, there are %s", ErrNoDevice, name, r.names())
	case err != nil:
		return nil, fmt.Errorf("%w: look up interface %s: %w", ErrNoDevice, name, err)
	}
	if a := l.Attrs(); a.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("%w: %s is down: ip link set %s up", ErrNoDevice, a.Name, a.Name)
	}
	return l, nil
}

// Index is the index of an interface, by its name or that number. Errors: ErrNoDevice,
// also of one that is down; ErrClosed.
func (r *Resolver) Index(name string) (int, error) {
	if err := r.use(); err != nil {
		return 0, err
	}
	defer r.using.RUnlock()
	l, err := r.link(name)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}

// names lists the interfaces that there are.
func (r *Resolver) names() string {
	links, err := r.links.LinkList()
	if err != nil || len(links) == 0 {
		return "none"
	}
	all := make([]string, len(links))
	for i := range links {
		all[i] = links[i].Attrs().Name
	}
	return strings.Join(all, ", ")
}

// addresses are those of one interface, or of all (nil), that can be used, by the
// index of the interface: not those which the kernel still checks for duplicates,
// or has found to be one.
func (r *Resolver) addresses(of netlink.Link) ([]ownAddr, error) {
	list, err := r.links.AddrList(of, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("%w: read the addresses: %w", ErrNoSource, err)
	}
	var all []ownAddr
	for i := range list {
		if list[i].IPNet == nil || list[i].Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
			continue
		}
		all = append(all, ownAddr{addrOf(list[i].IP), list[i].LinkIndex})
	}
	return all, nil
}

// ownAddr is an address of this host and the interface that has it.
type ownAddr struct {
	addr  netip.Addr
	index int
}

// holders are the interfaces that have an address.
func (r *Resolver) holders(a netip.Addr) ([]int, error) {
	all, err := r.addresses(nil)
	var found []int
	for _, own := range all {
		if own.addr == a {
			found = append(found, own.index)
		}
	}
	return found, err
}

// sourceOn chooses a source address on an interface: want if it has that, else
// the first that reaches as far as dst.
func (r *Resolver) sourceOn(l netlink.Link, want, dst netip.Addr) (netip.Addr, error) {
	all, err := r.addresses(l)
	if err != nil {
		return netip.Addr{}, err
	}
	if slices.ContainsFunc(all, func(o ownAddr) bool { return o.addr == want }) {
		return want, nil
	}
	for _, narrow := range []bool{dst.IsLinkLocalUnicast() || dst.IsLinkLocalMulticast(), true} {
		for _, o := range all {
			if o.addr.Is4() == dst.Is4() && (o.addr.Is4() || o.addr.IsLinkLocalUnicast() == narrow) {
				return o.addr, nil
			}
		}
	}
	name := l.Attrs().Name
	return netip.Addr{}, fmt.Errorf("%w: %s has no %s address to reach %s from: ip address add ADDRESS dev %s", ErrNoSource, name, familyName(dst), dst, name)
}

func familyName(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// lower is the interface whose frames those of l are: l itself, or what a VLAN
// (802.1Q) or macvlan interface is on top of.
func (r *Resolver) lower(l netlink.Link) (device netlink.Link, vlan uint16) {
	a := l.Attrs()
	if a.ParentIndex == 0 || a.NetNsID >= 0 { // or the parent is in another namespace
		return l, 0
	}
	switch v := l.(type) {
	case *netlink.Vlan:
		if v.VlanProtocol != netlink.VLAN_PROTOCOL_8021Q {
			return l, 0
		}
		vlan = uint16(v.VlanId)
	case *netlink.Macvlan:
	default:
		return l, 0
	}
	if below, err := r.links.LinkByIndex(a.ParentIndex); err == nil {
		return below, vlan
	}
	return l, 0
}
