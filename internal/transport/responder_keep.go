package transport

// respKeep stores the packet unless the budget is used up, it lies too far
// ahead, or it is there already.
func (q *QP) respKeep(x *respPacket) bool {
	return q.keep(&q.resp.kept, q.resp.st.ePSN, x.psn, x.p)
}

// respReleaseKept lets go of all kept packets.
func (q *QP) respReleaseKept() { q.releaseAllKept(&q.resp.kept) }

// respPurgeKept lets go of kept packets that come before the expected PSN: a
// READ has jumped over them.
func (q *QP) respPurgeKept() {
	k := &q.resp.kept
	if k.count == 0 {
		return
	}
	for i := range k.slots {
		if s := &k.slots[i]; s.used && psnOf(&s.pkt).Less(q.resp.st.ePSN) {
			q.releaseKept(k, s)
		}
	}
}
