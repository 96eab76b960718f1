package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// wordLen is the size of an atomic's operand and result in bytes.
const wordLen = 8

// sendWQE is the engine's own copy of a send work request, made once from the
// ring, which a program may overwrite at any time. Its scatter/gather entries
// and inline data lie in arrays of their own at the same index.
type sendWQE struct {
	wrid      uint64
	raddr     uint64 // BIND_MW, REG_MR: first byte of the range
	compare   uint64 // FETCH_ADD: the addend; BIND_MW, REG_MR: bytes of the range
	swap      uint64 // BIND_MW, REG_MR: rights
	rkey      uint32 // BIND_MW, REG_MR: the L_Key of the range
	imm       uint32 // immediate data, the key to invalidate, or the key that is bound
	ah        uint32 // UD: address handle
	dest      uint32 // UD: destination queue pair; XRC: shared receive queue at the peer
	qkey      uint32 // UD: Q_Key of the destination, or bit 31: use the own one
	length    uint32 // bytes of the message
	packets   uint32 // PSNs that the message takes, 1 to 2^23; 0 of an operation on keys
	chunk     uint32 // READ: response packets of one READ request
	first     psn.PSN
	numSGE    uint16
	flushType uint16
	flushSel  uint16
	op        ibv.WROpcode
	kind      reqKind
	flags     ibv.SendFlags
	executed  bool         // an operation on keys that is done and waits for those before it
	status    ibv.WCStatus // other than WCSuccess: what it completes with once it is the oldest
}

// offset is the distance of p from the message's first PSN. Unlike psn.PSN.Sub
// it holds for the 2^23 packets that 2 GiB are at an MTU of 256.
func (w *sendWQE) offset(p psn.PSN) uint32 { return uint32(p-w.first) & psn.Mask }

// chunkEnd is the offset at which the READ request ends that covers offset off.
// Chunks never move: a responder serves the repetition of a READ only from
// inside one request that it has seen.
func (w *sendWQE) chunkEnd(off uint32) uint32 {
	return min(w.packets, (off/w.chunk+1)*w.chunk)
}

func (w *sendWQE) is(f ibv.SendFlags) bool { return w.flags&f != 0 }

// reqLoad copies the next posted work request and checks it. It returns false
// when there is none. A producer index that cannot be true makes the queue pair
// useless: ok is false.
func (q *QP) reqLoad() (loaded, ok bool) {
	r := &q.req
	if r.unread == 0 {
		if r.unread, ok = r.posted(); !ok || r.unread == 0 {
			return false, ok
		}
	}
	r.unread--
	r.makeRoom(&q.env.copies, r.head, r.tail)
	slot := r.sq.Slot(int(r.tail - r.head))
	w, sges := r.at(r.tail), r.sgesAt(r.tail)

	var h queue.SendWQE
	queue.GetSend(slot, &h)
	n := min(int(h.NumSGE), len(sges))
	for i := range sges[:n] {
		sges[i] = queue.SendSGE(slot, i)
	}
	op := r.ops.of(h.Opcode)
	*w = sendWQE{
		wrid: h.WRID, raddr: h.RemoteAddr, compare: h.CompareAdd, swap: h.Swap, rkey: h.RKey, imm: h.Imm,
		ah: h.AH, dest: h.RemoteQPN, qkey: h.RemoteQKey,
		length: h.Length, packets: 1, chunk: 1, first: r.assign, numSGE: h.NumSGE,
		flushType: h.FlushType, flushSel: h.FlushLevel,
		op: h.Opcode, kind: op.kind, flags: h.Flags,
	}
	if q.service == wire.XRC {
		w.dest = h.SRQN
	}
	if w.kind.local() {
		w.loadLocal(&h)
	}
	w.status = q.reqCheck(w, sges)
	if w.status == ibv.WCSuccess {
		if w.is(ibv.SendInline) {
			copy(r.inlineAt(r.tail), queue.SendInline(slot)[:w.length])
		}
		q.reqSegment(w)
	}
	r.assign = r.assign.Add(int(w.packets))
	r.tail++
	return true, true
}

// posted is the number of work requests in the ring that were not copied yet.
// Once the ring was seen corrupt nothing in it is believed until RESET.
func (r *requester) posted() (n int, ok bool) {
	if r.sq == nil {
		return 0, true
	}
	n, ok = r.sq.Avail()
	// What was copied is not released: an index behind it has moved back.
	n -= int(r.tail - r.head)
	r.corrupt = r.corrupt || !ok || n < 0
	return n, !r.corrupt
}

// reqSegment counts the packets of w: every message takes at least one PSN, a
// READ as many as it has response packets (IBTA vol. 1, 9.7.2).
func (q *QP) reqSegment(w *sendWQE) {
	if w.kind != kindSend && w.kind != kindWrite && w.kind != kindRead || q.service == wire.UD {
		return
	}
	mtu := uint32(q.mtu)
	w.packets = max(1, w.length/mtu+min(1, w.length%mtu))
	if w.kind == kindRead {
		// Several requests in flight keep the responder busy while the window
		// moves; with a credit of one a request takes the whole window.
		w.chunk = uint32(max(1, q.reqWindow()/min(max(int(q.attr.MaxRDAtomic), 1), 4)))
	}
}

// reqCheck says with which status w must fail, WCSuccess when it can be sent.
// h.NumSGE entries are in sges unless there are too many.
func (q *QP) reqCheck(w *sendWQE, sges []queue.SGE) ibv.WCStatus {
	switch {
	case w.kind == kindNone, w.kind.answered() && q.attr.MaxRDAtomic == 0:
		return ibv.WCLocQPOpErr
	case q.service == wire.UD && (w.dest == 0 || w.dest > wire.MulticastQP), q.service == wire.XRC && w.dest > psn.Mask:
		return ibv.WCLocQPOpErr
	case w.kind.local():
		return checkLocal(w)
	case w.is(ibv.SendInline):
		return q.reqCheckInline(w)
	case w.kind == kindFlush:
		return checkFlush(w)
	case int(w.numSGE) > len(sges):
		return ibv.WCLocQPOpErr
	}
	sges = sges[:w.numSGE]
	total := uint64(0)
	for i := range sges {
		total += uint64(sges[i].Length)
	}
	if s := checkLength(w, total); s != ibv.WCSuccess {
		return s
	}
	return q.reqCheckKeys(w, sges)
}

// checkLength compares the length of the request with that of its entries and
// with what its operation takes. The result of an atomic is 8 bytes; entries may
// have more.
func checkLength(w *sendWQE, total uint64) ibv.WCStatus {
	switch {
	case total > ibv.MaxMsgSize:
		return ibv.WCLocLenErr
	case total != uint64(w.length):
		return ibv.WCLocQPOpErr
	case w.kind == kindAtomic && total < wordLen, w.kind == kindAtomicWrite && total != wordLen:
		return ibv.WCLocLenErr
	}
	return ibv.WCSuccess
}

// reqCheckInline checks a request whose data was copied when it was posted: its
// keys do not matter.
func (q *QP) reqCheckInline(w *sendWQE) ibv.WCStatus {
	switch {
	case w.kind != kindSend && w.kind != kindWrite && w.kind != kindAtomicWrite:
		return ibv.WCLocQPOpErr
	case int64(w.length) > int64(q.req.maxInline):
		return ibv.WCLocLenErr
	case w.kind == kindAtomicWrite && w.length != wordLen:
		return ibv.WCLocLenErr
	}
	return ibv.WCSuccess
}

// checkFlush checks a FLUSH, which has a remote range and no local memory.
func checkFlush(w *sendWQE) ibv.WCStatus {
	const placements, selectivities = 1<<2 - 1, 1
	switch {
	case w.numSGE != 0 || w.flushType == 0 || w.flushType&^placements != 0 || w.flushSel > selectivities:
		return ibv.WCLocQPOpErr
	case w.length > ibv.MaxMsgSize:
		return ibv.WCLocLenErr
	}
	return ibv.WCSuccess
}

// reqCheckKeys checks all local memory of w before its first packet, so that a
// wrong key sends nothing (IBTA vol. 1, 10.7.2.4).
func (q *QP) reqCheckKeys(w *sendWQE, sges []queue.SGE) ibv.WCStatus {
	need := ibv.Access(0)
	if w.kind.scatters() {
		need = ibv.AccessLocalWrite
	}
	for i := range sges {
		s := &sges[i]
		if s.Length == 0 {
			continue
		}
		if _, ok := q.env.Mem.Access(s.LKey, q.cfg.PD, need, s.Addr, uint64(s.Length)); !ok {
			return ibv.WCLocProtErr
		}
	}
	return ibv.WCSuccess
}
