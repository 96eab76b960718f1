package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// readyWait bounds the wait for a new link to carry frames.
const readyWait = 5 * time.Second

// Addr is the end's IPv4 address, or the IPv6 address when it has no other.
func (e *End) Addr() netip.Addr {
	if e.IPv4.IsValid() {
		return e.IPv4
	}
	return e.IPv6
}

// Addrs are the end's addresses but the link-local one.
func (e *End) Addrs() []netip.Addr {
	var all []netip.Addr
	for _, a := range []netip.Addr{e.IPv4, e.IPv6} {
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return all
}

// configure gives the interface its addresses and sets it up.
func (e *End) configure() error {
	return e.NS.Do(func() error {
		link, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return fmt.Errorf("find %s: %w", e.Ifname, err)
		}
		e.Ifindex, e.MAC = link.Attrs().Index, link.Attrs().HardwareAddr
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", e.Ifname, err)
		}
		for _, a := range e.Addrs() {
			if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network(a), Flags: unix.IFA_F_NODAD}); err != nil {
				return fmt.Errorf("add %s to %s: %w", a, e.Ifname, err)
			}
		}
		return nil
	})
}

// waitReady returns when the link carries frames and every address of it, the
// link-local one too, can be used.
func (e *End) waitReady() error {
	return e.NS.Do(func() error {
		deadline := time.Now().Add(readyWait)
		for {
			link, err := netlink.LinkByName(e.Ifname)
			if err != nil {
				return fmt.Errorf("find %s: %w", e.Ifname, err)
			}
			addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
			if err != nil {
				return fmt.Errorf("addresses of %s: %w", e.Ifname, err)
			}
			tentative := slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 })
			if link.Attrs().OperState == netlink.OperUp && !tentative {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s in %s is not ready after %v: state %s, addresses %v", e.Ifname, e.NS.Name(), readyWait, link.Attrs().OperState, addrs)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func (e *End) addNeighbors(peer *End) error {
	return e.NS.Do(func() error {
		var errs error
		for _, a := range peer.Addrs() {
			family := netlink.FAMILY_V4
			if a.Is6() {
				family = netlink.FAMILY_V6
			}
			errs = errors.Join(errs, netlink.NeighSet(&netlink.Neigh{
				LinkIndex: e.Ifindex, Family: family, State: netlink.NUD_PERMANENT,
				IP: a.AsSlice(), HardwareAddr: peer.MAC,
			}))
		}
		return errs
	})
}

func (e *End) removeLink() error {
	link, err := netlink.LinkByName(e.Ifname)
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// SetUp sets the interface up or down, as an administrator would.
func (e *End) SetUp(up bool) error {
	return e.NS.Do(func() error {
		link, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return fmt.Errorf("find %s: %w", e.Ifname, err)
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
}

// SetMTU changes the MTU of the interface.
func (e *End) SetMTU(mtu int) error {
	return e.NS.Do(func() error {
		link, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return fmt.Errorf("find %s: %w", e.Ifname, err)
		}
		return netlink.LinkSetMTU(link, mtu)
	})
}

func network(a netip.Addr) *net.IPNet {
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}

// setSysctls makes IPv6 addresses usable at once, or turns IPv6 off. It holds for
// interfaces made later in the thread's namespace.
func setSysctls(noIPv6 bool) error {
	const conf = "/proc/sys/net/ipv6/conf/"
	if _, err := os.Stat(conf); errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without IPv6; adding addresses says so
	}
	settings := map[string]string{"accept_dad": "0", "accept_ra": "0"}
	if noIPv6 {
		settings = map[string]string{"disable_ipv6": "1"}
	}
	for name, value := range settings {
		for _, scope := range []string{"all/", "default/"} {
			if err := os.WriteFile(conf+scope+name, []byte(value), 0); err != nil {
				return fmt.Errorf("sysctl net.ipv6.conf.%s%s: %w", scope, name, err)
			}
		}
	}
	return nil
}
