package transport

import "github.com/roce-xdp/roce-xdp/internal/psn"

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
	if k := &q.resp.kept; k.count != 0 {
		q.leaveKept(k, func(p psn.PSN) bool { return !p.Less(q.resp.st.ePSN) })
	}
}
