package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// answerOps has the opcode table's entries of what a responder sends.
type answerOps struct {
	ack, atomicAck                         *wire.OpInfo
	readFirst, readMid, readLast, readOnly *wire.OpInfo
}

var rcAnswers, xrcAnswers = answersOf(wire.RC), answersOf(wire.XRC)

func answersOf(service wire.Opcode) answerOps {
	info := func(op wire.Opcode) *wire.OpInfo { return (service | op).Info() }
	return answerOps{
		info(wire.Acknowledge), info(wire.AtomicAck),
		info(wire.ReadRespFirst), info(wire.ReadRespMid), info(wire.ReadRespLast), info(wire.ReadRespOnly),
	}
}

// respPoll sends what is due: what the peer misses of earlier READs, responses in
// the order of their requests, then a NAK or an ACK, so that neither runs past a
// response. more is true when the batch is full and something is left.
func (q *QP) respPoll(now mono.Time, tx *Batch) (more bool) {
	st := &q.resp.st
	if !q.env.Behind {
		q.respRenewNak(now)
	}
	if q.respSendPatches(now, tx) {
		return true
	}
	for st.serve != st.savedNext {
		if tx.full(1) {
			return true
		}
		if q.respHeld(now) || q.respPaced(now) {
			return false
		}
		q.respSendResult(now, tx, q.resp.slot(st.serve))
	}
	if !st.has(nakDue | ackDue) {
		return false
	}
	if tx.full(1) {
		return true
	}
	if st.has(nakDue) {
		q.respSendAck(tx, st.nak, st.nakPSN)
	} else {
		q.respSendAck(tx, q.respAckSyndrome(), st.ackPSN)
	}
	// A NAK acknowledges everything before its PSN.
	st.flags &^= nakDue | ackDue
	return false
}

// respHeld reports whether the next response must wait for its turn at the rate of
// the queue pair, and what comes after it with it.
func (q *QP) respHeld(now mono.Time) bool {
	if !q.held(now) {
		return false
	}
	q.resp.due = q.cc.next
	return true
}

// respLastWords sends, in ERR, what was due before the NAK that led there, and
// the NAK itself.
func (q *QP) respLastWords(now mono.Time, tx *Batch) (more bool) {
	st := &q.resp.st
	if !st.has(lastWords) {
		return false
	}
	if q.respPoll(now, tx) {
		return true
	}
	st.flags &^= lastWords
	return false
}

func (q *QP) respSendAck(tx *Batch, syn wire.Syndrome, p psn.PSN) {
	q.respPut(tx, q.resp.ops.ack, p, syn)
	switch syn.Kind() {
	case wire.KindACK:
		q.env.count(SentAcks)
	case wire.KindRNR:
		q.env.count(SendRNRErr)
	case wire.KindNAK, wire.KindReserved:
		q.env.count(SentNaks)
	}
}

// respPut appends a packet and fills its AETH, if it has one.
func (q *QP) respPut(tx *Batch, info *wire.OpInfo, p psn.PSN, syn wire.Syndrome) *Intent {
	in := tx.next(q, info, p)
	if info.Headers&wire.HasAETH != 0 {
		h := wire.AETHAt(in.Hdr[info.AETH:])
		h.SetSyndrome(syn)
		h.SetMSN(q.resp.st.msn)
	}
	q.env.count(SentPkts)
	return in
}

// respSendResult sends one packet for the saved request s, the one at serve.
func (q *QP) respSendResult(now mono.Time, tx *Batch, s *savedResult) {
	p := s.first
	switch s.op.Operation() {
	case wire.ReadRequest:
		p = s.first.Add(int(s.pos) / q.mtu)
		if !q.respSendRead(now, tx, s, p) {
			q.respReadFault(now, s, p)
			return
		}
		q.resp.pace.sent(now, p)
		if s.pos == s.stop {
			q.respServed(s)
		}
	case wire.CompareSwap, wire.FetchAdd:
		in := q.respPut(tx, q.resp.ops.atomicAck, p, q.respAckSyndrome())
		wire.AtomicAckETHAt(in.Hdr[in.Info.AtomicAckETH:]).SetOrig(s.orig)
		q.respServed(s)
	default: // FLUSH and ATOMIC WRITE
		q.respPut(tx, q.resp.ops.readOnly, p, q.respAckSyndrome())
		q.respServed(s)
	}
	// A response acknowledges its request and what came before.
	if st := &q.resp.st; st.ackPSN.LessEq(p) {
		st.flags &^= ackDue
	}
}

// respSendRead sends the next response of a READ. The key is looked up for each
// packet: the region may be deregistered while a long READ is under way, and
// then it returns false.
func (q *QP) respSendRead(now mono.Time, tx *Batch, s *savedResult, p psn.PSN) bool {
	n := min(s.stop-s.pos, uint32(q.mtu))
	last := s.pos+n == s.stop
	x := respPacket{now: now, need: ibv.AccessRemoteRead}
	if !q.respAccessIn(&x, memory.PD(s.orig), s.rkey, s.va+uint64(s.pos), n) {
		return false
	}
	info := q.resp.ops.readFirst
	switch {
	case last && s.has(savedStarted):
		info = q.resp.ops.readLast
	case last:
		info = q.resp.ops.readOnly
	case s.has(savedStarted):
		info = q.resp.ops.readMid
	}
	var syn wire.Syndrome
	if info.Headers&wire.HasAETH != 0 {
		syn = q.respAckSyndrome()
	}
	in := q.respPut(tx, info, p, syn)
	if n > 0 {
		tx.region(in, x.region, s.va+uint64(s.pos), int(n))
	}
	in.finish()
	q.env.Counters[SentBytes] += uint64(n)
	q.paced(now, in)
	s.pos += n
	s.flags |= savedStarted
	return true
}
