package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// Operations on keys, BIND_MW, LOCAL_INV and REG_MR, are work requests without
// packets: they take no PSN. When their turn to be sent comes they are executed,
// and so before any later request; they complete in their place, after all earlier
// ones. Going back to repeat packets passes over those that were executed.

// loadLocal takes from h what only operations on keys have.
func (w *sendWQE) loadLocal(h *queue.SendWQE) {
	w.packets = 0
	if w.kind == kindInvalidate {
		return // the key is where SEND with invalidate has it
	}
	w.raddr, w.compare, w.swap = h.BindAddr, h.BindLength, uint64(h.BindAccess)
	w.rkey, w.imm = h.BindLKey, h.BindRKey
}

// checkLocal checks an operation on keys, which has no data.
func checkLocal(w *sendWQE) ibv.WCStatus {
	if w.numSGE != 0 || w.length != 0 || w.is(ibv.SendInline) {
		return ibv.WCLocQPOpErr
	}
	return ibv.WCSuccess
}

// reqMayExecute says whether w may be executed now. An earlier request that is
// still outstanding may have to be sent again, or answered, by the key that
// LOCAL_INV takes away, so that waits for all; BIND_MW and REG_MR do so only with a
// fence (IBTA vol. 1, 10.8.3.3).
func (q *QP) reqMayExecute(w *sendWQE) reqState {
	r := &q.req
	ordered := w.kind == kindInvalidate || w.is(ibv.SendFence)
	if ordered && r.cur != r.head && !w.executed {
		return reqOrder
	}
	return reqSending
}

// reqExecute executes w, the request at cur, unless that was done before.
func (q *QP) reqExecute(now mono.Time, w *sendWQE) reqState {
	r := &q.req
	if !w.executed {
		if s := q.reqOperate(w); s != ibv.WCSuccess {
			w.status = s
			return reqFailed
		}
		w.executed = true
	}
	r.cur++
	if !q.reqRetireExecuted(now) {
		return reqDead
	}
	if r.operated++; r.operated == operateBatch {
		return reqRoom
	}
	return reqSending
}

// operateBatch is how many operations on keys, which take no room of a batch, a Poll
// executes: who posts many does not keep the worker from the others.
const operateBatch = 64

// reqOperate does what w is for. Keys that peers name change before anything can
// arrive that was sent after them.
func (q *QP) reqOperate(w *sendWQE) ibv.WCStatus {
	b := memory.Binding{Key: w.imm, LKey: w.rkey, VA: w.raddr, Len: w.compare, Access: ibv.Access(w.swap)}
	switch {
	case w.kind == kindBind && !q.env.Mem.BindWindow(q.cfg.PD, q.cfg.QPN, &b):
		return ibv.WCMWBindErr
	case w.kind == kindRegister && !q.env.Mem.RegisterFast(q.cfg.PD, &b),
		w.kind == kindInvalidate && !q.env.Mem.Invalidate(w.imm, q.cfg.PD):
		return ibv.WCLocQPOpErr
	}
	return ibv.WCSuccess
}

// reqRetireExecuted completes the executed operations on keys that have become the
// oldest. It returns false when that has ended the requester.
func (q *QP) reqRetireExecuted(now mono.Time) (live bool) {
	r := &q.req
	for r.head != r.tail && r.oldest().executed {
		if !q.reqRetire(now, r.oldest()) {
			return false
		}
	}
	return true
}
