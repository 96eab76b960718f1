package connect

import (
	"context"
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Path has the attributes of a queue pair that the two ends choose, those that
// its type has; a zero field other than SGIDIndex, SL, TrafficClass, Access and
// QKey means the default of Defaults.
type Path struct {
	MTU          verbs.MTU // the same at both ends
	SGIDIndex    int
	SL           uint8
	TrafficClass uint8
	Access       verbs.Access // what the peer may do
	RDAtomic     uint8        // READs and atomics outstanding, each way
	Timeout      uint8        // exponent of 4.096 us
	RetryCnt     uint8
	RNRRetry     uint8
	MinRNRTimer  uint8  // code of IBTA vol. 1, table 45
	QKey         uint32 // UD: what datagrams to it must have
}

// Defaults fills the fields of p that are zero: MTU 1024, 16 READs outstanding,
// 67 ms and 7 retries for acknowledgements, no limit for receivers that are not
// ready. These are the values of ibv_rc_pingpong but for the READs.
func (p Path) Defaults() Path {
	if p.MTU == 0 {
		p.MTU = verbs.MTU1024
	}
	for _, d := range []struct {
		field *uint8
		value uint8
	}{{&p.RDAtomic, 16}, {&p.Timeout, 14}, {&p.RetryCnt, 7}, {&p.RNRRetry, 7}, {&p.MinRNRTimer, 12}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return p
}

// ToInit moves a queue pair from RESET to INIT; receives can be posted then.
func ToInit(qp *verbs.QP, p Path) error {
	attr := verbs.QPAttr{State: verbs.QPStateInit, Port: 1, AccessFlags: p.Access, QKey: p.QKey}
	mask := verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrPort
	switch qp.Type() {
	case verbs.UD:
		return qp.Modify(&attr, mask|verbs.AttrQKey)
	case verbs.GSI: // it has a port and a Q_Key by what it is
		attr.QKey = verbs.GSIQKey
		return qp.Modify(&attr, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrQKey)
	default:
	}
	return qp.Modify(&attr, mask|verbs.AttrAccessFlags)
}

// ToRTR moves a queue pair from INIT to RTR, where it answers the peer. One of
// datagrams has no peer: it hears all that know its Q_Key. The peer's next hop is waited
// for as in verbs.QP.ModifyContext.
func ToRTR(ctx context.Context, qp *verbs.QP, p Path, peer Endpoint) error {
	if qp.Type().Datagram() {
		return qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.AttrState)
	}
	if err := peer.Check(); err != nil {
		return err
	}
	p = p.Defaults()
	attr := verbs.QPAttr{
		State: verbs.QPStateRTR, PathMTU: p.MTU, DestQPN: peer.QPN, RQPSN: peer.PSN, AV: p.Address(peer),
		MaxDestRDAtomic: p.RDAtomic, MinRNRTimer: p.MinRNRTimer,
	}
	mask := verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN
	if qp.Type() == verbs.RC || qp.Type() == verbs.XRCRecv {
		mask |= verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer
	}
	return qp.ModifyContext(ctx, &attr, mask)
}

// ToRTS moves a queue pair from RTR to RTS, where it can send. Own is what the
// peer was told.
func ToRTS(qp *verbs.QP, p Path, own Endpoint) error {
	p = p.Defaults()
	attr := verbs.QPAttr{
		State: verbs.QPStateRTS, SQPSN: own.PSN, Timeout: p.Timeout, RetryCnt: p.RetryCnt,
		RNRRetry: p.RNRRetry, MaxRDAtomic: p.RDAtomic,
	}
	mask := verbs.AttrState | verbs.AttrSQPSN
	switch qp.Type() {
	case verbs.RC, verbs.XRCSend:
		mask |= verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxQPRDAtomic
	case verbs.XRCRecv:
		mask |= verbs.AttrTimeout
	default:
	}
	return qp.Modify(&attr, mask)
}

// Connect moves a queue pair from INIT to RTS.
func Connect(ctx context.Context, qp *verbs.QP, p Path, own, peer Endpoint) error {
	if err := ToRTR(ctx, qp, p, peer); err != nil {
		return fmt.Errorf("to RTR: %w", err)
	}
	if err := ToRTS(qp, p, own); err != nil {
		return fmt.Errorf("to RTS: %w", err)
	}
	return nil
}

// Address is the address vector of the way to peer.
func (p Path) Address(peer Endpoint) verbs.AddressVector {
	return verbs.AddressVector{
		DGID: verbs.GID(peer.GID.As16()), SGIDIndex: p.SGIDIndex, Port: 1,
		HopLimit: 64, TrafficClass: p.TrafficClass, SL: p.SL,
	}
}

// AH makes the address handle by which datagrams reach peer.
func AH(ctx context.Context, pd *verbs.PD, p Path, peer Endpoint) (*verbs.AH, error) {
	if err := peer.Check(); err != nil {
		return nil, err
	}
	av := p.Address(peer)
	return pd.CreateAHContext(ctx, &av)
}

// PathMTU is the MTU of that many bytes, 0 when there is none.
func PathMTU(bytes int) verbs.MTU {
	for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}
