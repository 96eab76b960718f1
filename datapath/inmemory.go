package datapath

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// PortsConfig is what a device is made of that has no network interface: ports
// that carry frames otherwise, and what the kernel would have told.
type PortsConfig struct {
	Name      string
	MAC       net.HardwareAddr // 6 bytes
	MTU       int              // bytes of the link
	Addresses []netip.Addr
	Neighbors map[netip.Addr]net.HardwareAddr // all peers that there are
	// Ports share a UMEM with Options.Frames frames for each of them. Waiters are
	// theirs.
	Ports   []xsk.Port
	Waiters []xsk.Waiter
	Options *Options
}

// OpenPorts makes a device over ports instead of a network interface: for tests
// and simulations, which need no privileges then. It may do what CAP_NET_RAW allows, as
// nobody else is on its link. The ports are closed with it, the UMEM is not.
func OpenPorts(c *PortsConfig) (*verbs.Context, error) {
	if len(c.Ports) == 0 || len(c.Ports) != len(c.Waiters) || len(c.MAC) != 6 || activeMTU(c.MTU) == 0 {
		return nil, fmt.Errorf("datapath: open ports: %w: %d ports, %d waiters, link-layer address %v, MTU %d",
			ErrConfig, len(c.Ports), len(c.Waiters), c.MAC, c.MTU)
	}
	opts, err := c.Options.complete(len(c.Ports), smallMachine)
	if err != nil {
		return nil, fmt.Errorf("datapath: open ports: %w", err)
	}
	share := newShare(&opts)
	if have, need := c.Ports[0].UMEM().Frames(), share.frames()*len(c.Ports); have < need {
		return nil, fmt.Errorf("datapath: open ports: %w: the UMEM has %d frames, %d are needed", ErrConfig, have, need)
	}
	d := newDevice(config{
		opts: opts, umem: c.Ports[0].UMEM(), ports: c.Ports, waiters: c.Waiters, mode: "memory",
		link:  linkInfo{name: c.Name, index: 1, mac: [6]byte(c.MAC), mtu: c.MTU, running: true},
		steer: noSteering{}, routes: neighborTable(maps.Clone(c.Neighbors)), joins: noJoins{},
	})
	d.root.privileged = func() bool { return true }
	if err := d.setAddresses(c.Addresses); err != nil {
		return nil, fmt.Errorf("datapath: open ports: %w", err)
	}
	d.root.events.drain() // of the addresses that were there from the start
	d.start()
	return verbs.NewContext(d), nil
}

// noSteering is for ports at which all frames arrive.
type noSteering struct{}

func (noSteering) AddQPN(uint32) error              { return nil }
func (noSteering) DelQPN(uint32) error              { return nil }
func (noSteering) AddAddress(netip.Addr) error      { return nil }
func (noSteering) DelAddress(netip.Addr) error      { return nil }
func (noSteering) Counters() ([]bpf.Counter, error) { return nil, nil }

// neighborTable knows the next hops of a link without a kernel: the peers
// themselves. It does not change.
type neighborTable map[netip.Addr]net.HardwareAddr

func (t neighborTable) resolve(_ context.Context, l leg) (nextHop, error) {
	mac, ok := t[l.dst]
	if !ok || len(mac) != 6 {
		return nextHop{}, fmt.Errorf("%w: from %s to %s: it is no neighbour", ErrNoRoute, l.src, l.dst)
	}
	return nextHop{addr: l.dst, mac: [6]byte(mac)}, nil
}

func (t neighborTable) hop(l leg) (netip.Addr, error) {
	hop, err := t.resolve(context.Background(), l)
	return hop.addr, err
}

// noJoins is for a link that delivers all groups.
type noJoins struct{}

func (noJoins) join(netip.Addr) error  { return nil }
func (noJoins) leave(netip.Addr) error { return nil }
