package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respCheckPSN sorts packets by their PSN (IBTA vol. 1, 9.7.4.1.2).
func (q *QP) respCheckPSN(x *respPacket) respState {
	st := &q.resp.st
	d := x.psn.Sub(st.ePSN)
	switch {
	case d < 0:
		q.env.count(DuplicateRequest)
		return respDuplicate
	case d > 0:
		return respOutOfOrder
	}
	// The gap has closed: a NAK that is not on its way yet is no longer true.
	if st.has(gapOpen) {
		q.resp.gap.close(x.now)
		st.flags &^= gapOpen | rnrWait | nakDue
	}
	q.respEstablished()
	return respChkOpSeq
}

// respEstablished reports the first good packet of a connection that waits in
// RTR for it.
func (q *QP) respEstablished() {
	if q.state == ibv.QPStateRTR && !q.commEst {
		q.commEst = true
		q.env.event(ibv.EventCommEst, q)
	}
}

// respCheckOpSeq holds the packets of a message together (IBTA vol. 1,
// 9.7.4.1.3): MIDDLE and LAST continue what FIRST began, nothing comes between.
func (q *QP) respCheckOpSeq(x *respPacket) respState {
	info := x.p.Info
	starts := info.Pos&wire.First != 0
	ok := starts
	switch q.resp.st.op {
	case opSend:
		ok = info.Send && !starts
	case opWrite:
		ok = info.Write && !starts
	case opNone:
	}
	if !ok {
		return respErrOpSeq
	}
	return respChkOpValid
}

// respCheckOpValid compares what the operation needs with the access flags of
// the queue pair (IBTA vol. 1, 9.7.4.1.4).
func (q *QP) respCheckOpValid(x *respPacket) respState {
	switch op := x.p.Opcode.Operation(); {
	case x.p.Info.Write, op == wire.AtomicWrite:
		x.need = ibv.AccessRemoteWrite
	case op == wire.ReadRequest:
		x.need = ibv.AccessRemoteRead
	case op == wire.CompareSwap, op == wire.FetchAdd:
		x.need = ibv.AccessRemoteAtomic
	case op == wire.Flush:
		if x.need = flushAccess(x.p.FETH()); x.need == 0 {
			return respErrAccessFlags
		}
	}
	if x.need&^q.attr.AccessFlags != 0 {
		return respErrAccessFlags
	}
	return q.resp.find
}

// flushAccess is the rights that a FLUSH needs, 0 when its header asks for
// nothing or has reserved values.
func flushAccess(h *wire.FETH) (need ibv.Access) {
	place := h.Placement()
	if place&^(wire.PlacementGlobal|wire.PlacementPersistent) != 0 || h.Selectivity() > wire.SelectRegion {
		return 0
	}
	if place&wire.PlacementGlobal != 0 {
		need |= ibv.AccessFlushGlobal
	}
	if place&wire.PlacementPersistent != 0 {
		need |= ibv.AccessFlushPersistent
	}
	return need
}

// respCheckResource finds a place for a result, or a receive work request
// (IBTA vol. 1, 9.7.4.1.6 and 9.7.5.1.3).
func (q *QP) respCheckResource(x *respPacket) respState {
	switch op := x.p.Opcode.Operation(); {
	case op == wire.Flush:
		// FLUSH takes no credit of the peer's. With no place for its result it
		// counts as lost: the peer sends it again.
		if !q.respRoom() {
			q.env.count(DropFlushOverrun)
			return respDone
		}
	case op == wire.ReadRequest, op == wire.CompareSwap, op == wire.FetchAdd, op == wire.AtomicWrite:
		if !q.respCredit() {
			return respErrTooManyRDAtom
		}
	case x.p.Info.Consumes:
		if s := q.respTakeWQE(x); s != respChkLength {
			return s
		}
	}
	return respChkLength
}

// respCheckLength checks the packet against the path MTU and its own headers
// (IBTA vol. 1, 9.7.4.1.6).
func (q *QP) respCheckLength(x *respPacket) respState {
	p, n := x.p, x.p.PayloadLen
	var ok bool
	switch {
	case p.Opcode.Operation() == wire.AtomicWrite:
		ok = n == 8 && p.RETH().DMALen() == 8
	case !p.Info.Payload:
		ok = n == 0
	case p.Info.Pos == wire.Only:
		ok = n <= q.mtu
	case p.Info.Pos == wire.Last:
		ok = n >= 1 && n <= q.mtu
	default:
		ok = n == q.mtu
	}
	if ok && p.Info.Headers&wire.HasRETH != 0 {
		ok = p.RETH().DMALen() <= wire.MaxMessageLen
	}
	if !ok || p.Info.Send && int(x.bth().PadCnt()) != wire.PadLen(n) {
		return respErrLength
	}
	if p.Info.Send && uint64(q.resp.st.placed)+uint64(n) > uint64(q.resp.wqe.total) {
		return respErrBufferSize
	}
	return respChkRKey
}

// respCheckRKey finds the remote memory of the operation and checks all of it
// (IBTA vol. 1, 9.7.4.1.5). An operation on no bytes has no memory to check.
func (q *QP) respCheckRKey(x *respPacket) respState {
	p := x.p
	switch h := p.Info.Headers; {
	case p.Info.Send:
		return respExecute
	case p.Info.Write:
		return q.respCheckWrite(x)
	case p.Opcode.Operation() == wire.Flush:
		if !q.respCheckFlush(x) {
			return respErrRKey
		}
		return respAtomicReply
	case h&wire.HasAtomicETH != 0:
		a := p.AtomicETH()
		return q.respCheckWord(x, a.RKey(), a.VA())
	case p.Opcode.Operation() == wire.AtomicWrite:
		return q.respCheckWord(x, p.RETH().RKey(), p.RETH().VA())
	}
	if r := p.RETH(); !q.respAccess(x, r.RKey(), r.VA(), r.DMALen()) {
		return respErrRKey
	}
	return respReadReply
}

// respAccess sets x.region to the n bytes at va. Of no bytes it is nil.
func (q *QP) respAccess(x *respPacket, key uint32, va uint64, n uint32) bool {
	return q.respAccessIn(x, q.resp.pd, key, va, n)
}

// respAccessIn is respAccess by a key of another protection domain.
func (q *QP) respAccessIn(x *respPacket, pd memory.PD, key uint32, va uint64, n uint32) bool {
	if n == 0 {
		return true
	}
	var ok bool
	x.region, ok = q.env.Mem.AccessRemote(key, pd, q.cfg.QPN, x.need, va, uint64(n))
	return ok
}

// respCheckWord checks the 64-bit word of an atomic operation. Alignment comes
// after the key: 0x62 tells more than 0x61.
func (q *QP) respCheckWord(x *respPacket, key uint32, va uint64) respState {
	switch {
	case !q.respAccess(x, key, va, 8):
		return respErrRKey
	case va%8 != 0:
		return respErrMisaligned
	}
	return respAtomicReply
}

// respCheckFlush checks the range, or with region selectivity only the key, of
// a FLUSH.
func (q *QP) respCheckFlush(x *respPacket) bool {
	r := x.p.RETH()
	if x.p.FETH().Selectivity() == wire.SelectRange {
		return q.respAccess(x, r.RKey(), r.VA(), r.DMALen())
	}
	// The range is the last thing that is checked, and here it does not matter.
	_, fault := q.env.Mem.CheckRemote(r.RKey(), q.resp.pd, q.cfg.QPN, x.need, 0, 0)
	return fault == memory.FaultNone || fault == memory.FaultRange
}

// respCheckWrite takes the memory of a WRITE from its RETH, or looks the key up
// again for a later packet, since the region may have gone away between two
// packets. Then payload and message length must agree.
func (q *QP) respCheckWrite(x *respPacket) respState {
	st, n := &q.resp.st, uint32(x.p.PayloadLen)
	if x.p.Info.Headers&wire.HasRETH != 0 {
		r := x.p.RETH()
		st.va, st.rkey, st.remaining = r.VA(), r.RKey(), r.DMALen()
	}
	if !q.respAccess(x, st.rkey, st.va, st.remaining) {
		return respErrRKey
	}
	ok := n < st.remaining
	if x.p.Info.Pos&wire.Last != 0 {
		ok = n == st.remaining
	}
	if !ok || int(x.bth().PadCnt()) != wire.PadLen(int(n)) {
		return respErrLength
	}
	return respExecute
}
