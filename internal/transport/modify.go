package transport

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Modify sets the attributes of mask and makes the transition that they ask
// for: to attr.State when mask has STATE, else within the current state. The
// rules of IBTA vol. 1, 11.2.5.3 hold; on an error nothing has changed.
//
// When mask has AV, self is the address of entry AV.SGIDIndex of the port's GID
// table (zero when the entry is not in use) and peer is AV.DGID; packets of
// other addresses are dropped from then on.
//
// Errors: ErrTransition, ErrAttrMask, ErrAttrValue, ErrDraining.
func (q *QP) Modify(now mono.Time, attr *ibv.QPAttr, mask ibv.AttrMask, self, peer ibv.GID) error {
	next := q.state
	if mask&ibv.QPAttrState != 0 {
		next = attr.State
	}
	if err := q.checkModify(attr, mask, next, self, peer); err != nil {
		return err
	}
	// Leaving everything comes before the attributes: they are forgotten then.
	switch next {
	case ibv.QPStateReset:
		q.reset()
		return nil
	case ibv.QPStateErr:
		q.fail(now)
		return nil
	default: // the others take attributes
	}
	q.apply(attr, mask)
	if mask&ibv.QPAttrAV != 0 {
		q.selfGID, q.peerGID = self, peer
	}
	q.enter(now, next)
	return nil
}

func (q *QP) checkModify(attr *ibv.QPAttr, mask ibv.AttrMask, next ibv.QPState, self, peer ibv.GID) error {
	if err := CheckTransition(q.cfg.Type, q.state, next, mask); err != nil {
		return err
	}
	// The caller says which state it believes in; the engine may have moved on
	// by itself.
	if mask&ibv.QPAttrCurState != 0 && attr.CurState != q.state {
		return fmt.Errorf("%w: CUR_STATE is %v, the QP is in %v", ErrAttrValue, attr.CurState, q.state)
	}
	if err := checkAttr(attr, mask); err != nil {
		return err
	}
	if mask&ibv.QPAttrAV != 0 {
		if err := checkPeer(&attr.AV, self, peer); err != nil {
			return err
		}
	}
	// IBTA vol. 1, 10.3.1.5: attributes change, and work resumes, only after
	// what was begun has ended.
	if q.state == ibv.QPStateSQD && (next == ibv.QPStateSQD || next == ibv.QPStateRTS) && !q.reqDrained() {
		return fmt.Errorf("%w: wait for SQ_DRAINED before going from SQD to %v", ErrDraining, next)
	}
	return nil
}

// apply stores the values of mask, which were checked.
func (q *QP) apply(attr *ibv.QPAttr, mask ibv.AttrMask) {
	a := &q.attr
	has := func(m ibv.AttrMask) bool { return mask&m != 0 }
	if has(ibv.QPAttrPKeyIndex) {
		a.PKeyIndex = attr.PKeyIndex
	}
	if has(ibv.QPAttrPort) {
		a.Port = attr.Port
	}
	if has(ibv.QPAttrQKey) {
		a.QKey = attr.QKey
	}
	if has(ibv.QPAttrAccessFlags) {
		a.AccessFlags = attr.AccessFlags
	}
	if has(ibv.QPAttrAV) {
		a.AV = attr.AV
	}
	if has(ibv.QPAttrPathMTU) {
		a.PathMTU = attr.PathMTU
		q.mtu = attr.PathMTU.Bytes()
	}
	if has(ibv.QPAttrDestQPN) {
		a.DestQPN = attr.DestQPN & psn.Mask
		q.destQPN = a.DestQPN
	}
	if has(ibv.QPAttrRQPSN) {
		a.RQPSN = attr.RQPSN & psn.Mask
	}
	if has(ibv.QPAttrSQPSN) {
		a.SQPSN = attr.SQPSN & psn.Mask
	}
	if has(ibv.QPAttrTimeout) {
		a.Timeout = attr.Timeout
	}
	if has(ibv.QPAttrRetryCnt) {
		a.RetryCnt = attr.RetryCnt
	}
	if has(ibv.QPAttrRNRRetry) {
		a.RNRRetry = attr.RNRRetry
	}
	if has(ibv.QPAttrMinRNRTimer) {
		a.MinRNRTimer = attr.MinRNRTimer
	}
	if has(ibv.QPAttrMaxQPRDAtomic) {
		a.MaxRDAtomic = attr.MaxRDAtomic
	}
	if has(ibv.QPAttrMaxDestRDAtomic) {
		a.MaxDestRDAtomic = attr.MaxDestRDAtomic
	}
	if has(ibv.QPAttrEnSQDAsyncNotify) {
		a.EnSQDAsyncNotify = attr.EnSQDAsyncNotify
	}
}

// enter makes next the state and starts what begins with it.
func (q *QP) enter(now mono.Time, next ibv.QPState) {
	prev := q.state
	if prev == next {
		return
	}
	if prev == ibv.QPStateSQE {
		// What was posted until now is flushed; that may find a queue full.
		q.reqLeaveSQE(now)
		if q.state != prev {
			return
		}
	}
	q.state = next
	switch {
	case next == ibv.QPStateRTR:
		q.respStart(now)
	case next == ibv.QPStateRTS && prev == ibv.QPStateRTR:
		q.reqStart(now)
	case next == ibv.QPStateSQD:
		// Poll finds out whether anything is outstanding.
		q.draining = true
		q.req.due = now
	case next == ibv.QPStateRTS:
		q.draining = false
		q.attr.EnSQDAsyncNotify = false
		q.req.due = now // what was posted in SQD can begin
	}
}

// reset empties the queues without completions and forgets all attributes but
// the capacities (IBTA vol. 1, 10.3.1.1).
func (q *QP) reset() {
	q.state = ibv.QPStateReset
	q.attr = ibv.QPAttr{Cap: q.cfg.Cap}
	q.destQPN, q.mtu = 0, 0
	q.SetPortMTU(q.portMTU)
	q.selfGID, q.peerGID = ibv.GID{}, ibv.GID{}
	q.draining, q.commEst = false, false
	q.np = notificationPoint{}
	if q.cc != nil {
		q.cc.reset()
	}
	q.reqReset()
	q.reqCharge()
	q.respReset()
}

// Query are the attributes as they were last set, with the state the queue pair
// is in now. PSNs are current: RQPSN is the one that is expected next, SQPSN that of
// the next packet that was never sent. SQDraining is true in SQD while requests are
// outstanding.
func (q *QP) Query() ibv.QPAttr {
	a := q.attr
	a.State, a.CurState = q.state, q.state
	if q.state >= ibv.QPStateRTR {
		a.SQPSN = uint32(q.req.max)
		if q.service != wire.UD { // whose PSNs nobody expects
			a.RQPSN = uint32(q.resp.st.ePSN)
		}
	}
	a.SQDraining = q.state == ibv.QPStateSQD && !q.reqDrained()
	return a
}
