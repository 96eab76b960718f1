package transport

import "github.com/roce-xdp/roce-xdp/internal/wire"

// respDoDuplicate answers a request that was executed before, without executing
// it and without a NAK ever (IBTA vol. 1, 9.7.5.1.4 and 9.7.5.1.5).
func (q *QP) respDoDuplicate(x *respPacket) respState {
	if info := x.p.Info; info.Send || info.Write {
		// Always, not only on demand: the peer repeats because it lacks an answer.
		q.respOweAck(x)
		return respDone
	}
	i, ok := q.respFind(x.psn)
	if ok && x.p.Opcode.Operation() == wire.ReadRequest {
		ok = q.respRewindRead(x, i)
	} else if ok {
		ok = q.respRepeat(x, i)
	}
	if !ok {
		q.env.count(DropDuplicate)
	}
	return respDone
}

// respRewindRead serves a READ again, or the part of it that the peer misses:
// from a packet boundary on, within the bytes of the original.
func (q *QP) respRewindRead(x *respPacket, i uint32) bool {
	s, h := q.resp.slot(i), x.p.RETH()
	off := uint64(x.psn.Sub(s.first)) * uint64(q.mtu)
	if s.op != x.p.Opcode || h.RKey() != s.rkey || h.VA() != s.va+off || off+uint64(h.DMALen()) > uint64(s.size) {
		return false
	}
	q.env.count(DuplicateRead)
	if end := uint32(off) + h.DMALen(); end < s.size && q.respAddPatch(x, s, uint32(off), end) {
		return true
	}
	if q.resp.pace.again(x.now, x.psn) {
		q.env.count(ReadOverruns)
	}
	q.respAgain(x, i)
	s.from = uint32(off)
	s.pos, s.stop = s.from, s.from+h.DMALen()
	return true
}

// respRepeat sends the stored result of an atomic, ATOMIC WRITE or FLUSH again.
func (q *QP) respRepeat(x *respPacket, i uint32) bool {
	s := q.resp.slot(i)
	if s.op != x.p.Opcode {
		return false
	}
	q.env.count(DuplicateAtomic)
	q.respAgain(x, i)
	return true
}
