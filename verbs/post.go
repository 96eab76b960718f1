package verbs

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// PostSend posts one send work request. Errors are ErrQueueFull, ErrState,
// ErrInvalid and ErrClosed; then nothing was posted. Faults that only the device
// can see, such as a wrong key, come back as a completion.
func (q *QP) PostSend(wr *SendWR) error {
	q.sqMu.Lock()
	err := q.putSend(wr, 0)
	if err == nil {
		q.sq.Publish(1)
	}
	q.sqMu.Unlock()
	if err != nil {
		return opErr("post send", q.name(), err)
	}
	q.p.Doorbell()
	return nil
}

// PostSendBatch posts work requests in order with one doorbell. It stops at the
// first that cannot be posted and returns how many were.
func (q *QP) PostSendBatch(wrs []SendWR) (int, error) {
	q.sqMu.Lock()
	n, err := 0, error(nil)
	for n < len(wrs) && err == nil {
		if err = q.putSend(&wrs[n], n); err == nil {
			n++
		}
	}
	if n > 0 {
		q.sq.Publish(n)
	}
	q.sqMu.Unlock()
	if n > 0 {
		q.p.Doorbell()
	}
	if err != nil {
		return n, opErr("post send", q.name(), err)
	}
	return n, nil
}

// PostRecv posts one receive work request.
func (q *QP) PostRecv(wr *RecvWR) error {
	q.rqMu.Lock()
	err := q.putRecv(wr, 0)
	if err == nil {
		q.rq.Publish(1)
	}
	q.rqMu.Unlock()
	if err != nil {
		return opErr("post receive", q.name(), err)
	}
	q.p.RecvDoorbell()
	return nil
}

// PostRecvBatch posts receive work requests in order. It stops at the first that
// cannot be posted and returns how many were.
func (q *QP) PostRecvBatch(wrs []RecvWR) (int, error) {
	q.rqMu.Lock()
	n, err := 0, error(nil)
	for n < len(wrs) && err == nil {
		if err = q.putRecv(&wrs[n], n); err == nil {
			n++
		}
	}
	if n > 0 {
		q.rq.Publish(n)
	}
	q.rqMu.Unlock()
	if n > 0 {
		q.p.RecvDoorbell()
	}
	if err != nil {
		return n, opErr("post receive", q.name(), err)
	}
	return n, nil
}

// putSend checks wr and writes it to the i-th unpublished slot.
func (q *QP) putSend(wr *SendWR, i int) error {
	if err := q.sendable(); err != nil {
		return err
	}
	if wr == nil {
		return invalid("no work request")
	}
	n, err := q.checkSend(wr)
	if err != nil {
		return err
	}
	if !room(q.sq, i, q.cap.MaxSendWR) {
		return fmt.Errorf("%w: %d send work requests are outstanding: poll the completion queue, or raise MaxSendWR", ErrQueueFull, q.cap.MaxSendWR)
	}
	slot := q.sq.Slot(i)
	w := queue.SendWQE{
		WRID: wr.WRID, Opcode: wr.Opcode, Flags: wr.Flags, NumSGE: uint16(len(wr.SGList)),
		Imm: wr.Imm, RemoteAddr: wr.RemoteAddr, RKey: wr.RKey, Length: uint32(n),
		CompareAdd: wr.CompareAdd, Swap: wr.Swap, SRQN: wr.RemoteSRQN,
	}
	if wr.AH != nil {
		w.AH, w.RemoteQPN, w.RemoteQKey = wr.AH.handle, wr.RemoteQPN, wr.RemoteQKey
	}
	switch wr.Opcode {
	case OpSendWithInv:
		w.Imm = wr.InvalidateKey
	case OpBindMW, OpLocalInv, OpRegMR:
		putKeys(&w, wr)
	case OpFlush:
		w.Length = wr.FlushLength
		w.FlushType, w.FlushLevel = uint16(wr.FlushPlacement), uint16(wr.FlushLevel)
	default: // the fields above are all
	}
	switch {
	case wr.Flags&SendInline != 0:
		w.NumSGE = 0
		if err := q.putInline(slot, wr); err != nil {
			return err
		}
	default:
		for k := range wr.SGList {
			queue.PutSendSGE(slot, k, queue.SGE(wr.SGList[k]))
		}
	}
	queue.PutSend(slot, &w)
	return nil
}

// room reports whether one more element fits behind i unpublished ones. The ring
// is rounded up to a power of two; the capacity that was asked for holds.
func room(p *queue.Producer, i, capacity int) bool {
	spare := p.Ring().Entries() - capacity
	return p.Free()-i > spare || p.FreeNow()-i > spare
}

func (q *QP) putInline(slot []byte, wr *SendWR) error {
	dst := queue.SendInline(slot)
	if wr.InlineData != nil {
		copy(dst, wr.InlineData)
		return nil
	}
	for k := range wr.SGList {
		src := q.pd.inlineSource(wr.SGList[k])
		if src == nil && wr.SGList[k].Length != 0 {
			return invalid("inline entry %d is not inside a region of this protection domain: use InlineData", k)
		}
		dst = dst[copy(dst, src):]
	}
	return nil
}

// checkSend returns the number of bytes of wr.
func (q *QP) checkSend(wr *SendWR) (uint64, error) {
	if len(wr.SGList) > q.cap.MaxSendSGE {
		return 0, invalid("%d scatter/gather entries: the queue pair takes %d (MaxSendSGE)", len(wr.SGList), q.cap.MaxSendSGE)
	}
	n := uint64(len(wr.InlineData))
	if wr.InlineData == nil || wr.Flags&SendInline == 0 {
		if wr.InlineData != nil {
			return 0, invalid("InlineData needs the flag SendInline")
		}
		for k := range wr.SGList {
			n += uint64(wr.SGList[k].Length)
		}
	} else if len(wr.SGList) > 0 {
		return 0, invalid("both InlineData and SGList: give one of them")
	}
	if n > MaxMsgSize {
		return 0, invalid("%d bytes: a message has at most %d", n, uint64(MaxMsgSize))
	}
	if wr.Flags&SendInline != 0 && n > uint64(q.cap.MaxInline) {
		return 0, invalid("%d bytes of inline data: the queue pair takes %d (MaxInline)", n, q.cap.MaxInline)
	}
	if err := q.checkOpcode(wr, n); err != nil {
		return 0, err
	}
	return n, q.checkAddress(wr)
}

// checkAddress checks where a datagram goes, and that nothing else has an
// address of its own.
func (q *QP) checkAddress(wr *SendWR) error {
	if !q.typ.Datagram() {
		if wr.AH != nil {
			return invalid("an address handle: a queue pair of type %s sends to its peer only", q.typ)
		}
		if wr.RemoteSRQN > maxSRQN {
			return invalid("RemoteSRQN is %#x: up to %#x are possible", wr.RemoteSRQN, maxSRQN)
		}
		return nil
	}
	switch {
	case wr.AH == nil:
		return invalid("no address handle: a datagram needs AH, RemoteQPN and RemoteQKey")
	case wr.AH.pd != q.pd:
		return invalid("the address handle is of another protection domain")
	case wr.AH.gone.Load():
		return fmt.Errorf("%w: the address handle was destroyed", ErrClosed)
	case wr.AH.group && wr.RemoteQPN != MulticastQPN:
		return invalid("RemoteQPN is %#x: a datagram to a multicast group has MulticastQPN", wr.RemoteQPN)
	case !wr.AH.group && (wr.RemoteQPN == 0 || wr.RemoteQPN >= MulticastQPN):
		return invalid("RemoteQPN is %#x: 0x1 to 0xfffffe are possible", wr.RemoteQPN)
	}
	return nil
}

// maxSRQN is the largest number of a shared receive queue.
const maxSRQN = 0xFFFFFF

// checkOpcode holds the table of operations by transport service (IBTA vol. 1,
// table 35) and their fixed lengths.
func (q *QP) checkOpcode(wr *SendWR, n uint64) error {
	switch wr.Opcode {
	case OpSend:
		return nil
	case OpSendWithImm:
		if q.typ == GSI {
			return invalid("%s: management datagrams have no immediate data", wr.Opcode)
		}
		return nil
	case OpRDMAWrite, OpRDMAWriteWithImm:
		if q.typ.Datagram() {
			return invalid("%s needs a connected queue pair", wr.Opcode)
		}
		return nil
	case OpRDMARead, OpAtomicCmpAndSwp, OpAtomicFetchAdd, OpSendWithInv:
		if !q.typ.Reliable() {
			return invalid("%s needs a reliable connection", wr.Opcode)
		}
	case OpFlush, OpAtomicWrite:
		if q.typ != RC {
			return invalid("%s needs a reliable connection of type RC", wr.Opcode)
		}
	case OpBindMW, OpLocalInv, OpRegMR:
		return q.checkKeys(wr)
	default:
		return invalid("operation %s cannot be posted", wr.Opcode)
	}
	switch wr.Opcode {
	case OpFlush:
		return checkFlush(wr)
	case OpRDMARead:
		return checkScatter(wr)
	case OpAtomicCmpAndSwp, OpAtomicFetchAdd:
		if err := checkScatter(wr); err != nil {
			return err
		}
		return checkWord(wr, n)
	case OpAtomicWrite:
		return checkWord(wr, n)
	default: // SEND with invalidate is checked as a SEND
		return nil
	}
}

// checkScatter checks an operation whose result goes to the scatter list.
func checkScatter(wr *SendWR) error {
	if wr.Flags&SendInline != 0 {
		return invalid("%s writes to its scatter list: it cannot be inline", wr.Opcode)
	}
	return nil
}

// checkWord checks the length of an atomic, whose operand or result is a word.
func checkWord(wr *SendWR, n uint64) error {
	if n != 8 {
		return invalid("%s has %d bytes: it needs exactly 8", wr.Opcode, n)
	}
	return nil
}

// checkFlush checks what only a FLUSH has.
func checkFlush(wr *SendWR) error {
	switch {
	case len(wr.SGList) > 0 || wr.Flags&SendInline != 0:
		return invalid("%s has no data of its own: leave SGList and SendInline away", wr.Opcode)
	case wr.FlushPlacement == 0 || wr.FlushPlacement&^(FlushGlobal|FlushPersistent) != 0:
		return invalid("FlushPlacement is %#x: FlushGlobal, FlushPersistent or both are needed", uint16(wr.FlushPlacement))
	case wr.FlushLevel > FlushRegion:
		return invalid("FlushLevel is %d: FlushRange and FlushRegion are possible", wr.FlushLevel)
	case wr.FlushLength > MaxMsgSize:
		return invalid("FlushLength is %d: at most %d bytes are possible", wr.FlushLength, uint64(MaxMsgSize))
	}
	return nil
}

func (q *QP) sendable() error {
	if err := q.ctx.usable(&q.gone); err != nil {
		return err
	}
	if q.sq == nil {
		return invalid("a queue pair of type %s has no send queue", q.typ)
	}
	switch s := QPState(q.state.Load()); s {
	case QPStateReset, QPStateInit, QPStateRTR:
		return fmt.Errorf("%w: %s: sending needs RTS", ErrState, s)
	default: // RTS and SQD send; SQE and ERR flush
	}
	return nil
}

// putRecv checks wr and writes it to the i-th unpublished slot.
func (q *QP) putRecv(wr *RecvWR, i int) error {
	if err := q.ctx.usable(&q.gone); err != nil {
		return err
	}
	switch {
	case q.srq != nil:
		return invalid("the queue pair takes its receives from a shared queue: post them to that")
	case q.rq == nil:
		return invalid("a queue pair of type %s has no receive queue: post to a shared queue of the XRC domain", q.typ)
	}
	if QPState(q.state.Load()) == QPStateReset {
		return fmt.Errorf("%w: RESET: receives can be posted from INIT on", ErrState)
	}
	return putRecv(q.rq, wr, i, q.cap.MaxRecvWR, q.cap.MaxRecvSGE)
}

// putRecv checks wr and writes it to the i-th unpublished slot of a queue for
// maxWR requests of maxSGE entries.
func putRecv(p *queue.Producer, wr *RecvWR, i, maxWR, maxSGE int) error {
	if wr == nil {
		return invalid("no work request")
	}
	if len(wr.SGList) > maxSGE {
		return invalid("%d scatter/gather entries: the queue takes %d (MaxRecvSGE, or MaxSGE of a shared one)", len(wr.SGList), maxSGE)
	}
	if !room(p, i, maxWR) {
		return fmt.Errorf("%w: %d receive work requests are posted: wait for completions, or raise MaxRecvWR, or MaxWR of a shared queue", ErrQueueFull, maxWR)
	}
	slot, n := p.Slot(i), uint64(0)
	for k := range wr.SGList {
		n += uint64(wr.SGList[k].Length)
		queue.PutRecvSGE(slot, k, queue.SGE(wr.SGList[k]))
	}
	if n > MaxMsgSize {
		return invalid("%d bytes: a message has at most %d", n, uint64(MaxMsgSize))
	}
	queue.PutRecv(slot, &queue.RecvWQE{WRID: wr.WRID, Length: uint32(n), NumSGE: uint16(len(wr.SGList))})
	return nil
}
