package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respDoAcknowledge owes an ACK when the peer asks for one. Requests of one
// batch share it.
func (q *QP) respDoAcknowledge(x *respPacket) respState {
	// Some ask on UC too, where nobody answers.
	if x.bth().AckReq() && !q.oneWay() {
		q.respOweAck(x)
	}
	return respDone
}

func (q *QP) respOweAck(x *respPacket) {
	st := &q.resp.st
	if st.has(ackDue) {
		q.env.count(AckDeferred)
	}
	q.respDue(x.now)
	st.flags |= ackDue
}

// respOweNak owes a NAK or RNR NAK with PSN p, in place of one not yet sent.
func (q *QP) respOweNak(x *respPacket, syn wire.Syndrome, p psn.PSN) {
	st := &q.resp.st
	q.respDue(x.now)
	st.nak, st.nakPSN = syn, p
	st.flags |= nakDue
}

// respDoOutOfOrder answers a packet after a gap: one sequence NAK for each gap
// (IBTA vol. 1, 9.7.4.1.2), and the packet waits here if there is room.
func (q *QP) respDoOutOfOrder(x *respPacket) respState {
	st := &q.resp.st
	q.env.count(OutOfSeqRequest)
	if !st.has(gapOpen) {
		q.respOpenGap(x.now)
	}
	// After an RNR NAK the peer sends everything again, when it has waited.
	if !st.has(rnrWait) && q.respKeep(x) {
		x.verdict = Keep
		q.env.count(OutOfOrderKept)
	} else {
		q.env.count(DropOutOfOrder)
	}
	return respDone
}

// respOpenGap owes the sequence NAK for the expected packet.
func (q *QP) respOpenGap(now mono.Time) {
	st := &q.resp.st
	q.respOweNak(&respPacket{now: now}, wire.NakPSNSeq, st.ePSN)
	st.flags |= gapOpen
	q.resp.gap.open(now, &q.req.rtt)
}

// respDoRNR answers a request for which no receive work request is posted. What
// the peer has sent after it is a gap that has been NAKed with this.
func (q *QP) respDoRNR(x *respPacket) respState {
	q.respOweNak(x, wire.SynRNR(q.attr.MinRNRTimer), x.psn)
	q.resp.st.flags |= gapOpen | rnrWait
	q.resp.gap.set = false
	q.respReleaseKept()
	return respDone
}

// respAckSyndrome is an ACK with the number of receive work requests that a
// message can still use; of a shared queue nobody can tell (IBTA vol. 1, 9.7.7.2).
func (q *QP) respAckSyndrome() wire.Syndrome {
	r := &q.resp
	switch {
	case r.srq != nil || q.cfg.XRCD != nil:
		return wire.SynACK(noCredit)
	case r.rq == nil:
		return wire.SynACK(0)
	}
	n, _ := r.rq.Avail() // corrupt indices are no credit; the next request finds them
	if r.wqe.held {
		n--
	}
	return wire.SynACK(wire.CreditCode(n))
}

// noCredit is the credit code that limits nothing.
const noCredit = 31
