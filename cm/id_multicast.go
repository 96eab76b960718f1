package cm

import (
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// JoinMulticast joins a multicast group (rdma_join_multicast), with the queue pair of
// CreateQP, or, for an id without, on the program's own account: it attaches then
// itself. MULTICAST_JOIN has the way to the group, its queue pair number and Q_Key. The
// id is one of UD that is on a device, by BindAddr or ResolveAddr.
func (id *ID) JoinMulticast(group netip.Addr) error {
	group = plain(group)
	return id.run("join "+group.String()+" with", func(e end) error {
		switch _, joined := id.groups[group]; {
		case id.typ != verbs.UD:
			return invalid("groups are for ids of UD")
		case !group.IsMulticast():
			return invalid("it is not a multicast address")
		case joined:
			return stateErr("it is joined")
		}
		av := verbs.AddressVector{DGID: ibv.GIDOf(group), TrafficClass: id.opt.TOS, HopLimit: 1, Port: 1}
		index, err := id.groupSource(e, group)
		if err != nil {
			return err
		}
		av.SGIDIndex = index
		if id.qp != nil {
			if err := id.qp.AttachMulticast(av.DGID); err != nil {
				id.post(Event{Type: EventMulticastError, Err: err, AV: av})
				return nil
			}
		}
		if id.groups == nil {
			id.groups = map[netip.Addr]verbs.GID{}
		}
		id.groups[group] = av.DGID
		id.post(Event{Type: EventMulticastJoin, AV: av, Param: ConnParam{QPN: verbs.MulticastQPN, QKey: DefaultQKey}})
		return nil
	})
}

// groupSource is the index of the own address that datagrams to a group come from.
func (id *ID) groupSource(e end, group netip.Addr) (int, error) {
	if local := id.LocalAddr().Addr(); local.Is4() == group.Is4() && !local.IsUnspecified() {
		if id.way.found {
			return gidIndex(e.d.dev, local, id.way.VLAN)
		}
		return e.d.dev.GIDIndex(local)
	}
	gids, err := e.d.dev.GIDs()
	if err != nil {
		return 0, err
	}
	for _, g := range gids {
		if g.GID.Addr().Is4() == group.Is4() {
			return g.Index, nil
		}
	}
	return 0, invalid("the device has no address of the group's family")
}

// LeaveMulticast undoes JoinMulticast (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	group = plain(group)
	return id.run("leave "+group.String()+" with", func(end) error {
		gid, joined := id.groups[group]
		if !joined {
			return stateErr("it is not joined")
		}
		delete(id.groups, group)
		if id.qp == nil {
			return nil
		}
		return id.qp.DetachMulticast(gid)
	})
}
