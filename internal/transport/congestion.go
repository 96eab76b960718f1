package transport

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A switch whose queue grows marks packets. The receiver reports marks to the
// sender by a CNP (RoCEv2 annex A17.9.3), which has no PSN and is neither
// acknowledged nor repeated. Every connected queue pair reports; only one with
// Config.DCQCN lowers its rate.

// DefaultCNPInterval is the least time between two CNPs of a queue pair.
const DefaultCNPInterval = 50 * time.Microsecond

// onWire is the bytes of a packet besides BTH, extension headers and payload:
// preamble, Ethernet, IPv4, UDP, ICRC, frame check sequence and gap.
const onWire = 8 + 14 + 20 + 8 + 4 + 4 + 12

var infoCNP = wire.CNP.Info()

// notificationPoint is what the receiver of marked packets remembers.
type notificationPoint struct {
	due   bool
	since mono.Time // when the CNP came to be due
	next  mono.Time // the earliest time of another one
}

// noteMark owes a CNP for a marked packet, unless there was one just now.
func (q *QP) noteMark(now mono.Time) {
	q.env.count(EcnMarkedPkts)
	n := &q.np
	if q.env.CNPInterval <= 0 || now < n.next {
		return
	}
	n.due, n.since, n.next = true, now, now.Add(q.env.CNPInterval)
}

// npDeadline is when the CNP must be sent that is due.
func (q *QP) npDeadline() mono.Time {
	if q.np.due {
		return q.np.since
	}
	return mono.Never
}

// npPoll sends the CNP that is due. It reports whether the batch lacks room.
func (q *QP) npPoll(tx *Batch) (more bool) {
	if !q.np.due {
		return false
	}
	if tx.full(0) {
		return true
	}
	q.np.due = false
	in := tx.next(q, infoCNP, 0)
	h := wire.BTHAt(in.Hdr[:])
	h.SetMigReq(false)
	h.SetBECN(true)
	clear(in.Hdr[wire.BTHLen:infoCNP.HeaderLen])
	q.env.count(SentPkts)
	q.env.count(SentCNPs)
	return false
}

// reactTo handles a CNP of the peer.
func (q *QP) reactTo(now mono.Time) {
	q.env.count(HandledCNPs)
	if q.cc != nil {
		q.cc.congested(now)
	}
}

// held reports whether a packet must wait for its turn at the rate of q.
func (q *QP) held(now mono.Time) bool { return q.cc != nil && !q.cc.ready(now) }

// paced accounts for a packet that was appended.
func (q *QP) paced(now mono.Time, in *Intent) {
	if q.cc != nil {
		q.cc.sent(now, onWire+in.HdrLen+in.Len)
	}
}
