package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// neighbourWait is how long the next hop has to answer for its address; the
	// kernel asks three times, a second apart.
	neighbourWait = 3 * time.Second
	// The kernel's answer comes within a round trip as a rule.
	neighbourFirstLook = 200 * time.Microsecond
	neighbourLastLook  = 50 * time.Millisecond

	neighbourUsable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
		netlink.NUD_PERMANENT | netlink.NUD_NOARP
)

// netResolver asks the kernel for routes and neighbours, in the namespace in
// which its handle was made.
type netResolver struct {
	handle *netlink.Handle
	name   string
	index  int
	closed <-chan struct{} // ends a wait
}

// resolve finds the next hop from src to dst through an interface, and its
// link-layer address. Errors: ErrNoRoute, ErrNoNeighbour, ErrClosed.
func (r *netResolver) resolve(l leg) (nextHop, error) {
	hop, err := r.hop(l)
	if err != nil {
		return nextHop{}, err
	}
	deadline := time.Now().Add(neighbourWait)
	for look := neighbourFirstLook; ; look = min(2*look, neighbourLastLook) {
		mac, known, err := r.neighbour(l.oif, hop)
		if err != nil {
			return nextHop{}, fmt.Errorf("%w: look up %s on %s: %w", ErrNoNeighbour, hop, r.nameOf(l.oif), err)
		}
		if known {
			return nextHop{addr: hop, mac: mac}, nil
		}
		if time.Now().After(deadline) {
			return nextHop{}, r.silent(l, hop)
		}
		if err := r.ask(l.oif, hop); err != nil {
			return nextHop{}, fmt.Errorf("%w: ask for %s on %s: %w", ErrNoNeighbour, hop, r.nameOf(l.oif), err)
		}
		select {
		case <-time.After(look):
		case <-r.closed:
			return nextHop{}, ErrClosed
		}
	}
}

// nameOf names an interface in errors.
func (r *netResolver) nameOf(oif int) string {
	if oif == r.index {
		return r.name
	}
	if l, err := r.handle.LinkByIndex(oif); err == nil {
		return l.Attrs().Name
	}
	return fmt.Sprintf("interface %d", oif)
}

func (r *netResolver) silent(l leg, hop netip.Addr) error {
	what := "the peer is down or not on this network"
	if hop != l.dst {
		what = fmt.Sprintf("it is the gateway to %s", l.dst)
	}
	return fmt.Errorf("%w: nobody answered for %s on %s within %v (%s)", ErrNoNeighbour, hop, r.nameOf(l.oif), neighbourWait, what)
}

// hop is the address of the next hop.
func (r *netResolver) hop(l leg) (netip.Addr, error) {
	src, dst := l.src, l.dst
	fail := func(why string, err error) (netip.Addr, error) {
		if err != nil {
			why = fmt.Sprintf("%s (%v)", why, err)
		}
		return netip.Addr{}, fmt.Errorf("%w: from %s to %s through %s: %s", ErrNoRoute, src, dst, r.nameOf(l.oif), why)
	}
	routes, err := r.handle.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{OifIndex: l.oif, SrcAddr: src.AsSlice()})
	switch {
	case errors.Is(err, unix.ENETDOWN):
		return fail("the interface is down", nil)
	case err != nil:
		return fail("ip route get shows what the kernel knows", err)
	case len(routes) == 0:
		return fail("the kernel names none", nil)
	}
	rt := &routes[0]
	switch {
	case rt.Type == unix.RTN_LOCAL:
		return fail("the address is this host's own, but not of this interface", nil)
	case rt.Type != unix.RTN_UNICAST:
		return fail("it is not the address of one host", nil)
	case dst.Is4() && rt.Table == unix.RT_TABLE_UNSPEC:
		// Asked for a way through an interface, IPv4 takes every address to be on
		// its link that no table has.
		return fail("add one with ip route add", nil)
	case rt.LinkIndex != l.oif:
		return fail("the route leads through another interface", nil)
	}
	gw := rt.Gw
	if via, ok := rt.Via.(*netlink.Via); ok && via != nil {
		gw = via.Addr
	}
	if hop, ok := netip.AddrFromSlice(gw); ok && !hop.IsUnspecified() {
		return hop.Unmap(), nil
	}
	return dst, nil
}

// neighbour looks a link-layer address up in the kernel's table.
func (r *netResolver) neighbour(oif int, hop netip.Addr) (mac [6]byte, known bool, err error) {
	list, err := r.handle.NeighList(oif, familyOf(hop))
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return mac, false, err
	}
	for i := range list {
		if addr, m, ok := usableNeighbour(&list[i]); ok && addr == hop {
			return m, true, nil
		}
	}
	return mac, false, nil
}

// usableNeighbour takes address and link-layer address out of an entry that has
// both.
func usableNeighbour(n *netlink.Neigh) (addr netip.Addr, mac [6]byte, ok bool) {
	addr, ok = netip.AddrFromSlice(n.IP)
	if !ok || n.State&neighbourUsable == 0 || len(n.HardwareAddr) != len(mac) {
		return addr, mac, false
	}
	return addr.Unmap(), [6]byte(n.HardwareAddr), true
}

// ask has the kernel send an ARP request or a neighbour solicitation, as if a
// packet were to be sent.
func (r *netResolver) ask(oif int, hop netip.Addr) error {
	return r.handle.NeighSet(&netlink.Neigh{
		LinkIndex: oif, Family: familyOf(hop), IP: hop.AsSlice(), Flags: netlink.NTF_USE,
	})
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
