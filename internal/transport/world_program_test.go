package transport_test

import (
	"encoding/binary"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// app is a turn of the programs of a host: they post some of what they still
// have, when there is room.
func (h *worldHost) app() {
	w := h.w
	for _, q := range h.qps {
		q.recover()
		for n := 1 + w.rnd.IntN(3); n > 0 && q.asking() && q.sq.FreeNow() > 0; n-- {
			q.draw()
		}
	}
	for _, s := range h.queues() {
		for n := 1 + w.rnd.IntN(3); n > 0 && s.short(); n-- {
			s.post()
		}
	}
	h.nextApp = mono.Never
	h.service()
}

// ready reports whether a program could post something now.
func (h *worldHost) ready() bool {
	for _, q := range h.qps {
		if q.asking() && q.sq.FreeNow() > 0 {
			return true
		}
	}
	for _, s := range h.queues() {
		if s.short() {
			return true
		}
	}
	return false
}

// queues are the receive queues of a host.
func (h *worldHost) queues() []*worldRecvs {
	all := []*worldRecvs{h.srq, h.xsrq}
	for _, q := range h.qps {
		if q.recvs != nil && q.recvs.srq == nil {
			all = append(all, q.recvs)
		}
	}
	return all
}

// wake gives the programs a turn soon.
func (h *worldHost) wake() {
	if h.nextApp == mono.Never {
		h.nextApp = h.w.now.Add(1 + time.Duration(h.w.rnd.Int64N(int64(h.w.pause))))
	}
}

// recover brings a queue pair that a wrong request has stopped back to RTS.
func (q *worldQP) recover() {
	if q.qp.State() != ibv.QPStateSQE {
		return
	}
	w := q.h.w
	w.must(q.qp.Modify(w.now, &ibv.QPAttr{State: ibv.QPStateRTS}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
	q.h.collect() // what was posted until now has been flushed
	if q.done != len(q.ops) {
		w.failf("%v: SQE was left before all was flushed", q)
	}
	q.failed = ibv.WCSuccess
}

var worldOpcodes = map[ibv.QPType][]ibv.WROpcode{
	ibv.QPTypeRC:      pairOpcodes,
	ibv.QPTypeXRCSend: pairOpcodes[:len(pairOpcodes)-2],
	ibv.QPTypeUC:      {ibv.WRSend, ibv.WRSend, ibv.WRSendWithImm, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm},
	ibv.QPTypeUD:      {ibv.WRSend, ibv.WRSend, ibv.WRSendWithImm},
}

// draw posts one work request of a random kind.
func (q *worldQP) draw() {
	w := q.h.w
	ops := worldOpcodes[q.typ]
	q.post(ops[w.rnd.IntN(len(ops))], w.wrong != 0 && w.rnd.IntN(w.wrong) == 0)
}

// post posts one work request and notes what must come of it.
func (q *worldQP) post(opcode ibv.WROpcode, wrong bool) {
	w, id := q.h.w, uint64(len(q.ops))
	op := &worldOp{wqe: queue.SendWQE{WRID: id, Opcode: opcode, Imm: w.rnd.Uint32(), SRQN: q.peer.h.srqn()}}
	op.wqe.RKey, op.want.WRID = q.peer.h.mem.region.RKey(), id
	if q.typ == ibv.QPTypeUD {
		op.wqe.AH, op.wqe.RemoteQPN, op.wqe.RemoteQKey = uint32(q.peer.h.n+1), q.peer.qp.QPN(), pairQKey
	}
	if q.left--; w.rnd.IntN(4) != 0 || q.left <= 0 {
		op.wqe.Flags |= ibv.SendSignaled
	}
	if w.rnd.IntN(8) == 0 {
		q.fence(op)
	}
	if w.rnd.IntN(4) == 0 {
		op.wqe.Flags |= ibv.SendSolicited
	}
	if !q.drawKey(op) {
		q.fillIn(op)
		q.useKey(op)
		q.useOwnKey(op)
		if wrong {
			q.spoil(op)
		}
		q.believe(op)
	}
	op.wqe.NumSGE = uint16(len(op.sges))
	q.ops = append(q.ops, op)
	slot := q.sq.Slot(0)
	queue.PutSend(slot, &op.wqe)
	for i, s := range op.sges {
		queue.PutSendSGE(slot, i, s)
	}
	if op.inline != nil {
		copy(queue.SendInline(slot), op.inline)
	}
	q.sq.Publish(1)
	q.h.note("QP %#x posts %d: %v %v, %d B to %#x by %#x", q.qp.QPN(), id, op.wqe.Opcode, op.wqe.Flags, op.wqe.Length, op.wqe.RemoteAddr, op.wqe.RKey)
}

func (q *worldQP) fence(op *worldOp) {
	op.wqe.Flags |= ibv.SendFence
	q.area.reading = q.area.reading[:0]
}

// fillIn draws what op does.
func (q *worldQP) fillIn(op *worldOp) {
	switch op.wqe.Opcode {
	case ibv.WRRDMARead:
		n := q.size()
		op.want.Opcode, op.want.ByteLen = ibv.WCRDMARead, uint32(n)
		from := q.aim(op, n, 1)
		op.data = append([]byte{}, q.area.model[from.off:from.off+n]...)
		op.sges, op.result = q.h.mem.scatter(n)
		q.area.reading = append(q.area.reading, from)
	case ibv.WRFlush:
		op.want.Opcode = ibv.WCFlush
		q.aim(op, 60, 1)
		op.wqe.FlushType, op.wqe.FlushLevel = 1, uint16(q.h.w.rnd.IntN(2))
	case ibv.WRAtomicWrite:
		op.want.Opcode = ibv.WCAtomicWrite
		q.change(op, q.outbound(op, 8, false), 8)
	case ibv.WRAtomicFetchAdd, ibv.WRAtomicCmpAndSwp:
		q.atomic(op)
	case ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm:
		op.want.Opcode = ibv.WCRDMAWrite
		data := q.outbound(op, q.size(), true)
		if q.reliable() {
			q.change(op, data, 1)
		} else {
			op.at = q.peer.h.mem.take(len(data), 1)
			op.change = data
			op.wqe.RemoteAddr = pairVA + uint64(op.at.off)
		}
		if op.wqe.Opcode == ibv.WRRDMAWriteWithImm {
			op.msg = &worldMessage{data: data, flags: ibv.WCFlagWithImm, imm: op.wqe.Imm, write: true}
			if !q.reliable() {
				op.msg.target = op.at
			}
		}
	default:
		op.want.Opcode = ibv.WCSend
		op.msg = &worldMessage{data: q.outbound(op, q.size(), true)}
		if op.wqe.Opcode == ibv.WRSendWithImm {
			op.msg.flags, op.msg.imm = ibv.WCFlagWithImm, op.wqe.Imm
		}
		q.giveUpKey(op)
	}
}

// size draws a length, often one at which something begins or ends.
func (q *worldQP) size() int {
	rnd, mtu := q.h.w.rnd, q.bytesMTU()
	edges := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 3*mtu - 3, 3 * mtu, pairMaxMsg(mtu)}
	n := rnd.IntN(pairMaxMsg(mtu) + 1)
	if i := rnd.IntN(len(edges) + 8); i < len(edges) {
		n = edges[i]
	}
	if q.typ == ibv.QPTypeUD && n > mtu {
		n = mtu - n%3
	}
	return n
}

// outbound draws n bytes that op sends, from memory of their own or inline.
func (q *worldQP) outbound(op *worldOp, n int, inline bool) []byte {
	m, rnd := &q.h.mem, q.h.w.rnd
	data := make([]byte, n)
	fill(rnd, data)
	op.wqe.Length = uint32(n)
	if inline && n <= pairInline && rnd.IntN(3) == 0 {
		op.wqe.Flags |= ibv.SendInline
		op.inline = data
		return data
	}
	op.sges, op.source = m.scatter(n)
	m.put(op.source, data)
	return data
}

// aim has op name n bytes of the area, and returns which.
func (q *worldQP) aim(op *worldOp, n, align int) span {
	off := q.h.w.rnd.IntN(q.area.at.n-n+1) / align * align
	op.wqe.RemoteAddr, op.wqe.Length = pairVA+uint64(q.area.at.off+off), uint32(n)
	return span{off, n}
}

// change has op change bytes of the area to data.
func (q *worldQP) change(op *worldOp, data []byte, align int) {
	op.at, op.change = q.aim(op, len(data), align), data
	if q.area.overlaps(op.at) {
		q.fence(op)
	}
}

// believe has the model follow op, which will be executed in its turn.
func (q *worldQP) believe(op *worldOp) {
	if op.wrong != ibv.WCSuccess {
		op.msg, op.change = nil, nil
		return
	}
	if q.reliable() {
		copy(q.area.model[op.at.off:], op.change)
	}
	if op.msg != nil {
		op.msgIndex = len(q.peer.inbox)
		q.peer.inbox = append(q.peer.inbox, op.msg)
		q.peer.h.wake()
	}
}

// atomic makes op one on a word that the atomics of other connections meet.
func (q *worldQP) atomic(op *worldOp) {
	m, peer, rnd := &q.h.mem, q.peer.h, q.h.w.rnd
	op.want.ByteLen, op.wqe.Length = 8, 8
	op.sges, op.result = m.scatter(8)
	words := peer.mem.adds
	if op.wqe.Opcode == ibv.WRAtomicFetchAdd {
		op.want.Opcode, op.atomic, op.word = ibv.WCFetchAdd, atomicAdd, rnd.IntN(worldAdds)
		op.earlier = q.added[op.word]
		q.added[op.word]++
		op.wqe.CompareAdd = 1 << q.lane()
	} else {
		words = peer.mem.locks
		op.want.Opcode, op.atomic, op.word = ibv.WCCompSwap, atomicSwap, rnd.IntN(worldLocks)
		op.wqe.CompareAdd, op.wqe.Swap = q.seen[op.word], uint64(q.qp.QPN())<<32|uint64(len(q.ops)+1)
		peer.lock(op.word).posted[op.wqe.Swap] = true
	}
	op.wqe.RemoteAddr = pairVA + uint64(words.off+8*op.word)
	if binary.NativeEndian.Uint64(peer.mem.bytes[words.off+8*op.word:]) == 0 && op.atomic == atomicSwap {
		op.wqe.CompareAdd = 0 // many of them wait for the first value
	}
}

// spoil makes op one that cannot succeed, if there is a way to. A FLUSH of a whole
// region has no end to go past.
func (q *worldQP) spoil(op *worldOp) {
	if op.atomic != noAtomic {
		if q.h.w.rnd.IntN(2) == 0 {
			op.wqe.RemoteAddr += 4
			op.wrong = ibv.WCRemInvReqErr
		} else {
			op.wqe.RKey ^= 1
			op.wrong = ibv.WCRemAccessErr
		}
		q.undo(op)
		return
	}
	remote := op.wqe.Opcode != ibv.WRSend && op.wqe.Opcode != ibv.WRSendWithImm && op.wqe.Opcode != ibv.WRSendWithInv
	switch kind := q.h.w.rnd.IntN(4); {
	case kind == 0 && remote && q.reliable() && op.wqe.Length > 0:
		op.wqe.RKey ^= 1
		op.wrong = ibv.WCRemAccessErr
	case kind == 1 && remote && q.reliable() && op.wqe.Length > 8 && op.key == nil && op.wqe.FlushLevel == 0:
		op.wqe.RemoteAddr = pairVA + uint64(len(q.peer.h.mem.bytes)) - uint64(op.wqe.Length) + 1
		op.wrong = ibv.WCRemAccessErr
	case kind == 2 && op.inline == nil && op.wqe.Length > 0 && len(op.sges) > 0:
		for i := range op.sges {
			op.sges[i].LKey ^= 0x100
		}
		op.wrong = ibv.WCLocProtErr
	case kind == 3:
		op.wqe.Opcode = 12
		op.wrong = ibv.WCLocQPOpErr
	}
	if op.wrong != ibv.WCSuccess {
		q.undo(op)
	}
}

// undo takes back what op would have done.
func (q *worldQP) undo(op *worldOp) {
	if op.atomic == atomicSwap {
		delete(q.peer.h.lock(op.word).posted, op.wqe.Swap)
	}
	if op.atomic == atomicAdd {
		q.added[op.word]--
	}
	op.atomic = noAtomic
}
