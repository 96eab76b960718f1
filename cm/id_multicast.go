package cm

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// JoinMulticast joins a multicast group (rdma_join_multicast), with the queue pair of
// CreateQP, or, for an id without, on the program's own account: it attaches then
// itself. MULTICAST_JOIN has the way to the group, its queue pair number and Q_Key. The
// id is one of UD that is on a device, by BindAddr or ResolveAddr. A zone of the group says
// from which interface's address datagrams go there, in place of that of the id.
func (id *ID) JoinMulticast(group netip.Addr) error {
	zoned := group.Unmap()
	group = zoned.WithZone("")
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
		index, err := id.groupSource(e, zoned)
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
	local := id.LocalAddr().Addr()
	switch own := local.Is4() == group.Is4() && !local.IsUnspecified(); {
	case own && group.Zone() == "" && id.way.found:
		return gidIndex(e.d.dev, local, id.way.VLAN)
	case own && group.Zone() == "":
		return e.d.dev.GIDIndex(local)
	}
	g, err := groupSource(e.d.dev, group, netip.Addr{})
	return g.Index, err
}

// groupSource is the entry that datagrams from a device to a group come from: that of
// src, if there is one, else any of the family, on the interface that the group names.
func groupSource(dev *verbs.Context, group, src netip.Addr) (verbs.GIDEntry, error) {
	if group.Zone() != "" {
		r, err := dev.Resolve(context.Background(), &verbs.ResolveRequest{Src: src, Dst: group})
		if err != nil {
			return verbs.GIDEntry{}, err
		}
		return dev.QueryGID(r.SGIDIndex)
	}
	gids, err := dev.GIDs()
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	for _, g := range gids {
		a := ibv.WithScope(g.GID.Addr(), uint32(g.IfIndex))
		whichever := !src.IsValid() || src.IsUnspecified()
		if a.Is4() == group.Is4() && (whichever || src == a || src == a.WithZone("")) {
			return g, nil
		}
	}
	return verbs.GIDEntry{}, fmt.Errorf("%w for %s on %s", ErrNoSource, group, dev.Name())
}

// LeaveMulticast undoes JoinMulticast (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	group = group.Unmap().WithZone("")
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
