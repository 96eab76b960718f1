package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// The transport services without acknowledgements, UC and UD, share the
// requester: what RC learns from an ACK they learn from the driver, which has
// laid a batch out before it asks for the next. Nothing is ever repeated, so
// there is no window, no timer, no credit and nothing that a fence waits for.

// oneWay reports whether the transport service has no acknowledgements.
func (q *QP) oneWay() bool { return q.service != wire.RC && q.service != wire.XRC }

// reqSent completes, in order, the messages whose last packet has been laid out
// (IBTA vol. 1, 9.8).
func (q *QP) reqSent(now mono.Time) {
	if n := q.req.inflight(); n > 0 {
		q.reqAckNext(now, n, byAck)
	}
}

// reqMayOneWay says whether the next packet of w may be sent now. A datagram is
// one packet; the port's MTU may have changed since w was posted.
func (q *QP) reqMayOneWay(w *sendWQE) reqState {
	if q.service == wire.UD && uint64(w.length) > uint64(q.mtu) {
		w.status = ibv.WCLocLenErr
		return reqFailed
	}
	return reqSending
}

// failSends moves the queue pair to SQE: the send queue is flushed, the receive
// queue goes on (IBTA vol. 1, 10.3.1).
func (q *QP) failSends(now mono.Time) {
	if !q.reqLive() {
		return // the completion queue has overflowed
	}
	q.state = ibv.QPStateSQE
	q.reqFlush(now)
}

// reqDETH names both ends of the datagram w. A Q_Key with bit 31 set stands for
// the sender's own, so that only who was allowed to set that can send with a
// privileged one (IBTA vol. 1, 10.2.5).
func (q *QP) reqDETH(in *Intent, w *sendWQE) {
	f := wire.DETHFields{QKey: w.qkey, SrcQP: q.cfg.QPN}
	if f.QKey>>31 != 0 || q.cfg.Type == ibv.QPTypeGSI {
		f.QKey = q.qkey()
	}
	wire.DETHAt(in.Hdr[in.Info.DETH:]).Encode(&f)
	wire.BTHAt(in.Hdr[:]).SetDestQP(w.dest)
	in.AH = w.ah
}
