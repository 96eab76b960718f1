package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Ifname is the name of the interface that a pair has in each namespace.
const Ifname = "eth0"

// PairOptions describe two hosts and the link between them. The zero value is a
// veth pair of MTU 1500 with one queue, IPv4 and IPv6 addresses.
type PairOptions struct {
	MTU    int  // bytes of the link, 68 to 65535; 0: 1500
	Queues int  // receive and transmit queues of each end; 0: 1
	NoIPv4 bool // no IPv4 addresses
	NoIPv6 bool // no IPv6 at all, not even link-local
	// Bridge puts a third namespace with a bridge between the two: frames can be
	// captured there, which no XDP program at the ends hides.
	Bridge bool
	// StaticNeighbors enters each end's addresses at the other, so that no ARP or
	// neighbour discovery goes over the link.
	StaticNeighbors bool
}

// End is one host of a pair.
type End struct {
	NS      *NS
	Ifname  string
	Ifindex int
	MAC     net.HardwareAddr
	MTU     int
	IPv4    netip.Addr // 192.0.2.1 or .2; not valid without IPv4
	IPv6    netip.Addr // 2001:db8::1 or ::2; not valid without IPv6
}

// Pair is two hosts joined by a link.
type Pair struct {
	A, B   *End
	Bridge *NS // the namespace in the middle, nil without one
	// Taps are the bridge's ports towards A and B, for captures.
	Taps [2]string
}

// NewPair makes the namespaces and the link and waits until the link carries
// frames and its addresses can be used. Nothing is left behind when it fails.
func NewPair(o PairOptions) (*Pair, error) {
	if o.MTU == 0 {
		o.MTU = 1500
	}
	if o.Queues == 0 {
		o.Queues = 1
	}
	if o.NoIPv4 && o.NoIPv6 {
		return nil, errors.New("pair without addresses: leave IPv4 or IPv6 on")
	}
	if o.MTU < 68 || o.MTU > 65535 || o.Queues < 1 || o.Queues > 64 {
		return nil, fmt.Errorf("pair with MTU %d and %d queues: want an MTU of 68 to 65535 and 1 to 64 queues", o.MTU, o.Queues)
	}
	p := &Pair{}
	if err := p.build(o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Pair) build(o PairOptions) error {
	for i, end := range []**End{&p.A, &p.B} {
		ns, err := New()
		if err != nil {
			return err
		}
		*end = newEnd(ns, i, o)
		if err := ns.Do(func() error { return setSysctls(o.NoIPv6) }); err != nil {
			return err
		}
	}
	connect := p.connectDirect
	if o.Bridge {
		connect = p.connectBridge
	}
	if err := connect(o); err != nil {
		return err
	}
	for _, e := range []*End{p.A, p.B} {
		if err := e.configure(); err != nil {
			return err
		}
	}
	for _, e := range []*End{p.A, p.B} {
		if err := e.waitReady(); err != nil {
			return err
		}
	}
	if o.StaticNeighbors {
		return errors.Join(p.A.addNeighbors(p.B), p.B.addNeighbors(p.A))
	}
	return nil
}

func newEnd(ns *NS, i int, o PairOptions) *End {
	e := &End{NS: ns, Ifname: Ifname, MTU: o.MTU}
	if !o.NoIPv4 {
		e.IPv4 = netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
	}
	if !o.NoIPv6 {
		e.IPv6 = netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))
	}
	return e
}

// connectDirect makes one veth with an end in each namespace.
func (p *Pair) connectDirect(o PairOptions) error {
	return addVeth(p.A.NS, Ifname, p.B.NS, Ifname, o)
}

// connectBridge makes a veth from each end to a bridge in a namespace between.
func (p *Pair) connectBridge(o PairOptions) error {
	mid, err := New()
	if err != nil {
		return err
	}
	p.Bridge, p.Taps = mid, [2]string{"port-a", "port-b"}
	if err := mid.Do(func() error { return setSysctls(true) }); err != nil {
		return err
	}
	for i, e := range []*End{p.A, p.B} {
		if err := addVeth(e.NS, Ifname, mid, p.Taps[i], o); err != nil {
			return err
		}
	}
	return mid.Do(func() error { return makeBridge(o.MTU, p.Taps[:]) })
}

func addVeth(ns *NS, name string, peer *NS, peerName string, o PairOptions) error {
	file, err := peer.file()
	if err != nil {
		return err
	}
	defer file.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, o.MTU
	attrs.NumTxQueues, attrs.NumRxQueues = o.Queues, o.Queues
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: peerName, PeerNamespace: netlink.NsFd(file.Fd())}
	return ns.Do(func() error {
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make veth pair: %w", err)
		}
		return nil
	})
}

func makeBridge(mtu int, ports []string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "br0", mtu
	snooping := false // groups reach both ends without queries
	br := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(br); err != nil {
		return fmt.Errorf("make bridge: %w", err)
	}
	if err := netlink.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge up: %w", err)
	}
	for _, name := range ports {
		port, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find bridge port %s: %w", name, err)
		}
		if err := errors.Join(netlink.LinkSetMaster(port, br), netlink.LinkSetUp(port)); err != nil {
			return fmt.Errorf("add bridge port %s: %w", name, err)
		}
	}
	return nil
}

// Close removes both namespaces, the one between them and the link. It is safe
// on a pair that was only partly made.
func (p *Pair) Close() error {
	var err error
	for _, e := range []*End{p.A, p.B} {
		if e != nil {
			// The kernel ends namespaces in the background; the link goes now.
			_ = e.NS.Do(e.removeLink)
			err = errors.Join(err, e.NS.Close())
		}
	}
	if p.Bridge != nil {
		err = errors.Join(err, p.Bridge.Close())
	}
	return err
}
