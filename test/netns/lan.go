package netns

import (
	"errors"
	"fmt"
	"os/exec"
)

// maxHosts is how many hosts a LAN has at most.
const maxHosts = 16

// LAN is a number of hosts on one bridge.
type LAN struct {
	Hosts  []*End
	Bridge *NS
	// Taps are the bridge's ports towards the hosts, for captures.
	Taps []string
}

// LANOptions describe a LAN beyond its links.
type LANOptions struct {
	PairOptions // of all links; Bridge and StaticNeighbors mean nothing
	// Snooping has the bridge forward a group's frames only to the ports behind
	// which somebody has joined it, as managed switches do. It sends queries itself.
	Snooping bool
}

// NewLAN makes n hosts, 1 to 16, with the addresses 192.0.2.1 and 2001:db8::1 and
// those that follow. Nothing is left behind when it fails.
func NewLAN(n int, o LANOptions) (*LAN, error) {
	if n < 1 || n > maxHosts {
		return nil, fmt.Errorf("LAN of %d hosts: want 1 to %d", n, maxHosts)
	}
	if o.MTU == 0 {
		o.MTU = 1500
	}
	if o.Queues == 0 {
		o.Queues = 1
	}
	l := &LAN{}
	if err := l.build(n, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *LAN) build(n int, o LANOptions) (err error) {
	if l.Bridge, err = New(); err != nil {
		return err
	}
	if err := l.Bridge.Do(func() error { return setSysctls(!o.Snooping) }); err != nil {
		return err
	}
	for i := range n {
		ns, err := New()
		if err != nil {
			return err
		}
		e := newEnd(ns, i, o.PairOptions)
		l.Hosts = append(l.Hosts, e)
		l.Taps = append(l.Taps, fmt.Sprintf("port-%d", i))
		if err := ns.Do(func() error { return setSysctls(o.NoIPv6) }); err != nil {
			return err
		}
		if err := addVeth(ns, Ifname, l.Bridge, l.Taps[i], o.PairOptions); err != nil {
			return err
		}
	}
	if err := l.Bridge.Do(func() error { return makeBridge(o.MTU, l.Taps) }); err != nil {
		return err
	}
	for _, e := range l.Hosts {
		if err := e.configure(); err != nil {
			return err
		}
	}
	for _, e := range l.Hosts {
		if err := e.waitReady(); err != nil {
			return err
		}
	}
	if !o.Snooping {
		return nil
	}
	// Its queries come from an address of its own.
	if err := (&End{NS: l.Bridge, Ifname: "br0"}).waitReady(); err != nil {
		return err
	}
	return l.Bridge.Do(snoop)
}

// snoop has br0 watch reports, and ask for them: it trusts what it has learned
// after the response interval, which is a fifth of a second here.
func snoop() error {
	for _, option := range [][]string{
		// The kernel takes the interval at the moment at which it becomes the querier.
		{"mcast_query_response_interval", "20"}, {"mcast_igmp_version", "3"}, {"mcast_mld_version", "2"},
		{"mcast_snooping", "1"}, {"mcast_querier", "1"},
	} {
		args := append([]string{"link", "set", "br0", "type", "bridge"}, option...)
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("multicast snooping of the bridge: %w: %s", err, out)
		}
	}
	return nil
}

// Close removes the namespaces and the links. It is safe on a LAN that was only
// partly made.
func (l *LAN) Close() error {
	var err error
	for _, e := range l.Hosts {
		_ = e.NS.Do(e.removeLink)
		err = errors.Join(err, e.NS.Close())
	}
	if l.Bridge != nil {
		err = errors.Join(err, l.Bridge.Close())
	}
	return err
}
