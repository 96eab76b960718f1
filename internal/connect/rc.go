package connect

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Path has the attributes of a reliable connection that the two ends choose; a
// zero field other than SGIDIndex, SL, TrafficClass and Access means the default
// of Defaults.
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
	MinRNRTimer  uint8 // code of IBTA vol. 1, table 45
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
	return qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, AccessFlags: p.Access},
		verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccessFlags)
}

// ToRTR moves a queue pair from INIT to RTR, where it answers the peer.
func ToRTR(qp *verbs.QP, p Path, peer Endpoint) error {
	if err := peer.Check(); err != nil {
		return err
	}
	p = p.Defaults()
	attr := verbs.QPAttr{
		State: verbs.QPStateRTR, PathMTU: p.MTU, DestQPN: peer.QPN, RQPSN: peer.PSN,
		MaxDestRDAtomic: p.RDAtomic, MinRNRTimer: p.MinRNRTimer,
		AV: verbs.AddressVector{
			DGID: verbs.GID(peer.GID.As16()), SGIDIndex: p.SGIDIndex, Port: 1,
			HopLimit: 64, TrafficClass: p.TrafficClass, SL: p.SL,
		},
	}
	return qp.Modify(&attr, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|
		verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer)
}

// ToRTS moves a queue pair from RTR to RTS, where it can send. Own is what the
// peer was told.
func ToRTS(qp *verbs.QP, p Path, own Endpoint) error {
	p = p.Defaults()
	attr := verbs.QPAttr{
		State: verbs.QPStateRTS, SQPSN: own.PSN, Timeout: p.Timeout, RetryCnt: p.RetryCnt,
		RNRRetry: p.RNRRetry, MaxRDAtomic: p.RDAtomic,
	}
	return qp.Modify(&attr, verbs.AttrState|verbs.AttrSQPSN|verbs.AttrTimeout|verbs.AttrRetryCnt|
		verbs.AttrRNRRetry|verbs.AttrMaxQPRDAtomic)
}

// Connect moves a queue pair from INIT to RTS.
func Connect(qp *verbs.QP, p Path, own, peer Endpoint) error {
	if err := ToRTR(qp, p, peer); err != nil {
		return fmt.Errorf("to RTR: %w", err)
	}
	if err := ToRTS(qp, p, own); err != nil {
		return fmt.Errorf("to RTS: %w", err)
	}
	return nil
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
