package transport

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respDoExecute places the payload of a SEND or WRITE and moves on to the next
// PSN. The message counts when its last packet is in place.
func (q *QP) respDoExecute(x *respPacket) respState {
	st, info, n := &q.resp.st, x.p.Info, uint32(x.p.PayloadLen)
	op := opSend
	q.respClaim()
	if info.Send {
		if !q.respScatter(x) {
			return respErrLKey
		}
	} else {
		op = opWrite
		if !q.respPlace(x) {
			return respErrRKey
		}
		st.va += uint64(n)
		st.remaining -= n
	}
	st.placed += n
	q.env.Counters[RcvdBytes] += uint64(n)
	if info.Headers&wire.HasIETH != 0 {
		return respInvalidate
	}
	q.respAdvance(x, op)
	if info.Completes {
		return respComplete
	}
	return respAcknowledge
}

// respAdvance accepts the SEND or WRITE packet x.
func (q *QP) respAdvance(x *respPacket, op respOp) {
	st := &q.resp.st
	st.ackPSN, st.ePSN = x.psn, x.psn.Next()
	if x.p.Info.Pos&wire.Last == 0 {
		st.op = op
		return
	}
	st.op = opNone
	st.msn = (st.msn + 1) & psn.Mask
	if !x.p.Info.Completes {
		st.placed = 0
	}
}

// respPlace writes the payload of a WRITE into its region. The bytes of a
// message's last segment become visible after all others.
func (q *QP) respPlace(x *respPacket) bool {
	va := q.resp.st.va
	segs := x.p.Segments()
	for i, s := range segs {
		ok := false
		if i == len(segs)-1 && x.p.Info.Pos&wire.Last != 0 {
			ok = x.region.WriteFinal(va, s)
		} else {
			ok = x.region.Write(va, s)
		}
		if !ok {
			return false
		}
		va += uint64(len(s))
	}
	return true
}

// respScatter writes the payload of a SEND into the held receive work request,
// whose size was checked. Segments and entries need not end at the same bytes.
func (q *QP) respScatter(x *respPacket) bool {
	segs := x.p.Segments()
	final := x.p.Info.Pos&wire.Last != 0
	for i, s := range segs {
		if !q.respScatterSegment(x, s, final && i == len(segs)-1) {
			return false
		}
	}
	return true
}

// respScatterSegment writes s where the bytes before it ended; final says that
// it ends the message.
func (q *QP) respScatterSegment(x *respPacket, s []byte, final bool) bool {
	w := &q.resp.wqe
	for len(s) > 0 {
		g := &w.sges[w.cur]
		n := min(uint32(len(s)), g.Length-w.off)
		if n == 0 {
			w.cur, w.off = w.cur+1, 0
			continue
		}
		if !q.respScatterPiece(x, g, s[:n], final && int(n) == len(s)) {
			return false
		}
		s = s[n:]
		w.off += n
	}
	return true
}

func (q *QP) respScatterPiece(x *respPacket, g *heldSGE, s []byte, final bool) bool {
	w := &q.resp.wqe
	region, ok := g.region, true
	if !x.fresh {
		// The region may have gone away since the packet that took the request.
		region, ok = q.respLocal(g, w.off, uint32(len(s)))
	}
	switch va := g.Addr + uint64(w.off); {
	case !ok:
		return false
	case final:
		return region.WriteFinal(va, s)
	default:
		return region.Write(va, s)
	}
}

// respDoInvalidate ends a SEND with invalidate: the payload is in place, the key
// goes, then the receive work request completes. A peer can invalidate windows of
// type 2 that this queue pair has bound and fast-registered regions (IBTA vol. 1,
// 10.6.5).
func (q *QP) respDoInvalidate(x *respPacket) respState {
	if !q.env.Mem.InvalidateRemote(x.p.IETH().RKey(), q.resp.pd, q.cfg.QPN) {
		return respErrInvalidate
	}
	q.respAdvance(x, opSend)
	return respComplete
}

// respDoComplete completes the held receive work request.
func (q *QP) respDoComplete(x *respPacket) respState {
	r, info := &q.resp, x.p.Info
	c := queue.CQE{WRID: r.wqe.wrid, Opcode: ibv.WCRecv, ByteLen: r.st.placed}
	if info.Write {
		c.Opcode = ibv.WCRecvRDMAWithImm
	}
	if info.Headers&wire.HasImmDt != 0 {
		c.Flags, c.Imm = ibv.WCFlagWithImm, binary.BigEndian.Uint32(x.p.ImmDt()[:])
	}
	if info.Headers&wire.HasIETH != 0 {
		c.Flags, c.Imm = ibv.WCFlagWithInv, x.p.IETH().RKey()
	}
	if q.service == wire.UD {
		c.Flags |= ibv.WCFlagGRH
		c.SrcQP, c.SL, c.VLAN = x.p.DETH().SrcQP(), x.p.Priority, x.p.VLAN
	}
	r.st.placed = 0
	q.respReleaseWQE()
	q.env.count(RDMARecvs)
	q.complete(x.now, q.resp.cq, &c, x.bth().SE())
	if q.state == ibv.QPStateErr { // the completion queue has overflowed
		return respDone
	}
	return respAcknowledge
}
