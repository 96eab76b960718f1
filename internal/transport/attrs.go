package transport

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// qpAccess are the rights that a queue pair can grant.
const qpAccess = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic |
	ibv.AccessMWBind | ibv.AccessFlushGlobal | ibv.AccessFlushPersistent

// upTo is an attribute whose values run from 0 to a limit.
type upTo struct {
	attr  ibv.AttrMask
	limit uint32
	value func(*ibv.QPAttr) uint32
}

var ranges = [...]upTo{
	{ibv.QPAttrPKeyIndex, 0, func(a *ibv.QPAttr) uint32 { return uint32(a.PKeyIndex) }},
	{ibv.QPAttrTimeout, 31, func(a *ibv.QPAttr) uint32 { return uint32(a.Timeout) }},
	{ibv.QPAttrRetryCnt, 7, func(a *ibv.QPAttr) uint32 { return uint32(a.RetryCnt) }},
	{ibv.QPAttrRNRRetry, 7, func(a *ibv.QPAttr) uint32 { return uint32(a.RNRRetry) }},
	{ibv.QPAttrMinRNRTimer, 31, func(a *ibv.QPAttr) uint32 { return uint32(a.MinRNRTimer) }},
	{ibv.QPAttrMaxQPRDAtomic, ibv.MaxRDAtomic, func(a *ibv.QPAttr) uint32 { return uint32(a.MaxRDAtomic) }},
	{ibv.QPAttrMaxDestRDAtomic, ibv.MaxRDAtomic, func(a *ibv.QPAttr) uint32 { return uint32(a.MaxDestRDAtomic) }},
}

// checkAttr checks the values of mask but for the address vector. PSNs have no
// wrong values: their low 24 bits count.
func checkAttr(a *ibv.QPAttr, mask ibv.AttrMask) error {
	for i := range ranges {
		r := &ranges[i]
		if v := r.value(a); mask&r.attr != 0 && v > r.limit {
			return fmt.Errorf("%w: %v is %d (0 to %d)", ErrAttrValue, r.attr, v, r.limit)
		}
	}
	if mask&ibv.QPAttrPort != 0 && a.Port != 1 {
		return fmt.Errorf("%w: PORT is %d (1)", ErrAttrValue, a.Port)
	}
	if mask&ibv.QPAttrPathMTU != 0 && !a.PathMTU.Valid() {
		return fmt.Errorf("%w: PATH_MTU has the code %d (%d for 256 bytes to %d for 4096)",
			ErrAttrValue, uint8(a.PathMTU), ibv.MTU256, ibv.MTU4096)
	}
	if bad := a.AccessFlags &^ qpAccess; mask&ibv.QPAttrAccessFlags != 0 && bad != 0 {
		return fmt.Errorf("%w: ACCESS_FLAGS has %v, which a QP cannot grant", ErrAttrValue, bad)
	}
	if qpn := a.DestQPN & psn.Mask; mask&ibv.QPAttrDestQPN != 0 && (qpn == 0 || qpn == wire.MulticastQP) {
		return fmt.Errorf("%w: DEST_QPN is %#x (0x1 to 0xfffffe)", ErrAttrValue, qpn)
	}
	return nil
}

const maxFlowLabel = 1<<20 - 1

// checkAV checks the address vector of packets from self to peer.
func checkAV(av *ibv.AddressVector, self, peer ibv.GID) error {
	switch {
	case av.SL > 7:
		return fmt.Errorf("%w: AV.SL is %d (0 to 7)", ErrAttrValue, av.SL)
	case av.FlowLabel > maxFlowLabel:
		return fmt.Errorf("%w: AV.FlowLabel is %#x (20 bits)", ErrAttrValue, av.FlowLabel)
	case av.Port > 1:
		return fmt.Errorf("%w: AV.Port is %d (1)", ErrAttrValue, av.Port)
	case self.IsZero():
		return fmt.Errorf("%w: AV.SGIDIndex %d has no address", ErrAttrValue, av.SGIDIndex)
	case peer.Addr().IsUnspecified():
		return fmt.Errorf("%w: AV.DGID is not set: RoCE always needs the peer's address", ErrAttrValue)
	case self.Is4() != peer.Is4():
		return fmt.Errorf("%w: AV.SGIDIndex %d is %v, which cannot reach %v: one is IPv4, the other IPv6",
			ErrAttrValue, av.SGIDIndex, self, peer)
	}
	return nil
}
