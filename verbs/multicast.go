package verbs

// AttachMulticast has a UD queue pair receive the datagrams that are sent to a
// multicast group (ibv_attach_mcast): an IPv4 group as ::ffff:a.b.c.d, or an IPv6
// group. The device joins the group as the host's other programs do, so that
// switches and routers learn of it by IGMP or MLD. Of a datagram each queue pair
// that is attached gets a copy if its Q_Key fits, the sender's own included.
// Attaching twice is attaching once; Destroy detaches. The limits are
// DeviceAttr.MaxMcastGrp and MaxMcastQP.
//
// Sending to a group needs no attachment: its address handle is made as any
// other, and RemoteQPN is MulticastQPN.
func (q *QP) AttachMulticast(group GID) error {
	if q.gone.Load() {
		return opErr("attach to group", q.name(), ErrClosed)
	}
	return opErr("attach to group", q.name(), q.p.AttachMulticast(group))
}

// DetachMulticast undoes AttachMulticast (ibv_detach_mcast). When it returns,
// nothing of the group is received any more; what was is in the completion queue.
// ErrInvalid says that the queue pair is not attached to the group.
func (q *QP) DetachMulticast(group GID) error {
	if q.gone.Load() {
		return opErr("detach from group", q.name(), ErrClosed)
	}
	return opErr("detach from group", q.name(), q.p.DetachMulticast(group))
}
