package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respCheckSync takes the place of the PSN and opcode sequence checks on UC,
// where nothing is sent again (IBTA vol. 1, 9.8.2): a message whose packets do
// not follow each other is abandoned, and any packet that can begin a message
// does, whatever its PSN. What is between the two is dropped.
func (q *QP) respCheckSync(x *respPacket) respState {
	st, info := &q.resp.st, x.p.Info
	follows, starts := x.psn == st.ePSN, info.Pos&wire.First != 0
	if !follows {
		q.env.count(OutOfSeqRequest)
	}
	if !starts && follows && (st.op == opSend && info.Send || st.op == opWrite && info.Write) {
		return respChkOpValid
	}
	q.respAbandon(x)
	if !starts {
		q.env.count(DropOutOfOrder)
		return respDone
	}
	q.respEstablished()
	return respChkOpValid
}

// respAbandon gives up the message in progress. A receive work request that it
// had taken serves the next message; no completion tells of it.
func (q *QP) respAbandon(x *respPacket) {
	st := &q.resp.st
	if st.op != opNone {
		q.env.count(AbandonedMessages)
	}
	st.op, st.placed, st.remaining = opNone, 0, 0
	st.ePSN = x.psn.Next()
	q.resp.wqe.rewind()
	q.respUnclaim()
}

// refusals are the counters of what UC and UD drop without a word; 0 for error
// states that are not the peer's fault.
var refusals = [numRespStates]Counter{
	respErrRNR:         DropNoReceive,
	respErrBufferSize:  DropBufferSize,
	respErrLength:      DropLength,
	respErrAccessFlags: DropAccess,
	respErrRKey:        DropAccess,
}

// respRefuse ends a request of UC or UD in error state s. What the peer has done
// wrong costs it the message; what is wrong with the receive queue is an error of
// this queue pair (IBTA vol. 1, 9.9.3).
func (q *QP) respRefuse(s respState, x *respPacket) respState {
	if c := refusals[s]; c != 0 {
		q.env.count(c)
		q.respAbandon(x)
		return respDone
	}
	if s == respErrCorrupt && q.resp.srq != nil {
		q.resp.srq.corrupt(q.env)
	}
	if s != respErrCorrupt { // which is not about the request in use
		q.respFailWQE(x.now, respFailures[s].status)
	}
	q.env.event(ibv.EventQPFatal, q)
	q.fail(x.now)
	return respDone
}
