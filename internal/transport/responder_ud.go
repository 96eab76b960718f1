package transport

import "github.com/roce-xdp/roce-xdp/internal/wire"

// grhLen is the size of the area before the payload of a datagram, for which a
// receive work request of UD must have room: the IPv6 header, or 20 bytes of no
// meaning and the IPv4 header (RoCEv2 annex A17).
const grhLen = 40

// respCheckDatagram has all checks of a datagram, which stands for itself (IBTA
// vol. 1, 9.8.3). What does not fit leaves the receive work request to the
// next one.
func (q *QP) respCheckDatagram(x *respPacket) respState {
	p, n := x.p, x.p.PayloadLen
	if p.DETH().QKey() != q.qkey() {
		q.env.count(DropQKey)
		return respDone
	}
	if s := q.respTakeWQE(x); s != respChkLength {
		return s
	}
	switch {
	case n > q.mtu || int(x.bth().PadCnt()) != wire.PadLen(n):
		return respErrLength
	case uint64(n)+grhLen > uint64(q.resp.wqe.total):
		return respErrBufferSize
	}
	return respDatagram
}

// respDoDatagram places the IP header and the payload, where one ends and the
// other begins as if they were one message.
func (q *QP) respDoDatagram(x *respPacket) respState {
	r := &q.resp
	q.respClaim()
	if !q.respScatterSegment(x, r.grhOf(x.p), false) || !q.respScatter(x) {
		return respErrLKey
	}
	r.st.placed = grhLen + uint32(x.p.PayloadLen)
	q.env.Counters[RcvdBytes] += uint64(x.p.PayloadLen)
	return respComplete
}

// grhOf is what a receive buffer shows of how the packet came.
func (r *responder) grhOf(p *wire.Packet) []byte {
	if len(p.IP) == grhLen {
		return p.IP
	}
	copy(r.grh[grhLen-wire.IPv4Len:], p.IP)
	return r.grh[:]
}
