package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// The answer comes within a round trip as a rule.
	firstLook = 200 * time.Microsecond
	lastLook  = 50 * time.Millisecond
)

// State is that of an entry of the neighbour table (NUD_...), 0 if there is none.
type State int

const usable State = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
	netlink.NUD_PERMANENT | netlink.NUD_NOARP

// String is the state as `ip neighbour` names it, empty for none.
func (s State) String() string {
	for _, n := range []struct {
		state State
		name  string
	}{
		{netlink.NUD_INCOMPLETE, "INCOMPLETE"}, {netlink.NUD_REACHABLE, "REACHABLE"}, {netlink.NUD_STALE, "STALE"},
		{netlink.NUD_DELAY, "DELAY"}, {netlink.NUD_PROBE, "PROBE"}, {netlink.NUD_FAILED, "FAILED"},
		{netlink.NUD_NOARP, "NOARP"}, {netlink.NUD_PERMANENT, "PERMANENT"},
	} {
		if s&n.state != 0 {
			return n.name
		}
	}
	return ""
}

// neighbour is an entry; mac counts if the state is usable.
type neighbour struct {
	mac   [6]byte
	state State
}

func (n neighbour) known() bool { return n.state&usable != 0 }

// UsableNeighbour takes address and link-layer address out of an entry that has
// both.
func UsableNeighbour(n *netlink.Neigh) (addr netip.Addr, mac [6]byte, ok bool) {
	addr, ok = netip.AddrFromSlice(n.IP)
	if !ok || State(n.State)&usable == 0 || len(n.HardwareAddr) != len(mac) {
		return addr, mac, false
	}
	return addr.Unmap(), [6]byte(n.HardwareAddr), true
}

// leg is the way to a next hop.
type leg struct {
	oif      int
	src, hop netip.Addr
}

// silence says that nobody answered.
type silence struct{ waited time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("no answer within %v", s.waited) }

// await looks the next hop up and has it asked until it has answered.
func (r *Resolver) await(ctx context.Context, l leg) (neighbour, error) {
	begun := time.Now()
	limit := DefaultWait
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begun.Add(limit))
		defer cancel()
	}
	for look := firstLook; ; look = min(2*look, lastLook) {
		n, err := r.neighbour(l.oif, l.hop)
		switch {
		case err != nil:
			return n, fmt.Errorf("%w: look up %s on %s: %w", ErrNoNeighbour, l.hop, r.nameOf(l.oif), err)
		case n.known():
			if n.state&netlink.NUD_STALE != 0 {
				// RoCE passes the kernel by: that would never find out that it is wrong.
				_ = r.ask(l)
			}
			return n, nil
		}
		if ctx.Err() == nil {
			err = r.ask(l)
		}
		if err != nil {
			return n, fmt.Errorf("%w: ask for %s on %s: %w", ErrNoNeighbour, l.hop, r.nameOf(l.oif), err)
		}
		timer := time.NewTimer(look)
		select {
		case <-timer.C:
		case <-r.done:
			timer.Stop()
			return n, ErrClosed
		case <-ctx.Done():
			timer.Stop()
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				return n, err
			}
			return n, &silence{waited: rounded(limit)}
		}
	}
}

// rounded is a duration as people say it.
func rounded(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond} {
		if d >= 10*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Millisecond)
}

// neighbour looks an address up in the kernel's table.
func (r *Resolver) neighbour(oif int, hop netip.Addr) (neighbour, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.Sockets = r.asker
	req.AddData(&netlink.Ndmsg{Family: uint8(familyOf(hop)), Index: uint32(oif)})
	req.AddData(nl.NewRtAttr(unix.NDA_DST, hop.AsSlice()))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return neighbour{}, nil
	case err != nil:
		return neighbour{}, err
	case len(msgs) == 0 || len(msgs[0]) < unix.SizeofNdMsg:
		return neighbour{}, errors.New("the kernel gave no answer")
	}
	entry, err := netlink.NeighDeserialize(msgs[0])
	if err != nil {
		return neighbour{}, err
	}
	n := neighbour{state: State(entry.State)}
	if !n.known() {
		return n, nil
	}
	if len(entry.HardwareAddr) != len(n.mac) {
		return neighbour{}, fmt.Errorf("its link-layer address %v is not one of Ethernet", entry.HardwareAddr)
	}
	n.mac = [6]byte(entry.HardwareAddr)
	return n, nil
}

// ask has the kernel send an ARP request or a neighbour solicitation, as if a
// packet were to be sent; who may not ask for that sends one.
func (r *Resolver) ask(l leg) error {
	err := r.links.NeighSet(&netlink.Neigh{
		LinkIndex: l.oif, Family: familyOf(l.hop), IP: l.hop.AsSlice(), Flags: netlink.NTF_USE,
	})
	if errors.Is(err, unix.EPERM) {
		return r.probe.send(l)
	}
	return err
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
