package ibv

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func numbers[T ~uint8 | ~uint16 | ~uint32](values ...T) []uint32 {
	var n []uint32
	for _, v := range values {
		n = append(n, uint32(v))
	}
	return n
}

// TestNumbersOfLibibverbs has the numbers of infiniband/verbs.h; of what is in no
// user's header (GSI, REG_MR) those of the kernel's.
func TestNumbersOfLibibverbs(t *testing.T) {
	conformance.Rule(t, "7.2-1")
	for _, tt := range []struct {
		name      string
		got, want []uint32
	}{
		{"ibv_qp_state", numbers(QPStateReset, QPStateInit, QPStateRTR, QPStateRTS, QPStateSQD, QPStateSQE, QPStateErr),
			[]uint32{0, 1, 2, 3, 4, 5, 6}},
		{"ibv_qp_type", numbers(QPTypeGSI, QPTypeRC, QPTypeUC, QPTypeUD, QPTypeXRCSend, QPTypeXRCRecv), []uint32{1, 2, 3, 4, 9, 10}},
		{"ibv_mtu", numbers(MTU256, MTU512, MTU1024, MTU2048, MTU4096), []uint32{1, 2, 3, 4, 5}},
		{"ibv_port_state", numbers(PortDown, PortInit, PortArmed, PortActive), []uint32{1, 2, 3, 4}},
		{"ibv_mw_type", numbers(MWType1, MWType2), []uint32{1, 2}},
		{"ibv_access_flags", numbers(AccessLocalWrite, AccessRemoteWrite, AccessRemoteRead, AccessRemoteAtomic, AccessMWBind,
			AccessZeroBased, AccessOnDemand, AccessHugeTLB, AccessFlushGlobal, AccessFlushPersistent, AccessRelaxedOrdering),
			[]uint32{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 20}},
		{"ibv_wr_opcode", numbers(WRRDMAWrite, WRRDMAWriteWithImm, WRSend, WRSendWithImm, WRRDMARead, WRAtomicCmpAndSwp,
			WRAtomicFetchAdd, WRLocalInv, WRBindMW, WRSendWithInv, WRFlush, WRAtomicWrite, WRRegMR),
			[]uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 0x20}},
		{"ibv_send_flags", numbers(SendFence, SendSignaled, SendSolicited, SendInline), []uint32{1, 2, 4, 8}},
		{"ibv_placement_type", numbers(FlushGlobal, FlushPersistent), []uint32{1, 2}},
		{"ibv_selectivity_level", numbers(FlushRange, FlushRegion), []uint32{0, 1}},
		{"ibv_wc_opcode", numbers(WCSend, WCRDMAWrite, WCRDMARead, WCCompSwap, WCFetchAdd, WCBindMW, WCLocalInv, WCFlush,
			WCAtomicWrite, WCRecv, WCRecvRDMAWithImm), []uint32{0, 1, 2, 3, 4, 5, 6, 8, 9, 128, 129}},
		{"ibv_wc_flags", numbers(WCFlagGRH, WCFlagWithImm, WCFlagWithInv), []uint32{1, 2, 8}},
		{"ibv_wc_status", numbers(WCSuccess, WCLocLenErr, WCLocQPOpErr, WCLocEECOpErr, WCLocProtErr, WCWRFlushErr, WCMWBindErr,
			WCBadRespErr, WCLocAccessErr, WCRemInvReqErr, WCRemAccessErr, WCRemOpErr, WCRetryExcErr, WCRNRRetryExcErr,
			WCLocRDDViolErr, WCRemInvRDReqErr, WCRemAbortErr, WCInvEECNErr, WCInvEECStateErr, WCFatalErr, WCRespTimeoutErr,
			WCGeneralErr, WCTMErr, WCTMRndvIncomplete), upTo(23)},
		{"ibv_event_type", numbers(EventCQErr, EventQPFatal, EventQPReqErr, EventQPAccessErr, EventCommEst, EventSQDrained,
			EventPathMig, EventPathMigErr, EventDeviceFatal, EventPortActive, EventPortErr, EventLIDChange, EventPKeyChange,
			EventSMChange, EventSRQErr, EventSRQLimitReached, EventQPLastWQEReached, EventClientReregister, EventGIDChange,
			EventWQFatal, EventSpeedChange), upTo(20)},
		{"ibv_qp_attr_mask", numbers(QPAttrState, QPAttrCurState, QPAttrEnSQDAsyncNotify, QPAttrAccessFlags, QPAttrPKeyIndex,
			QPAttrPort, QPAttrQKey, QPAttrAV, QPAttrPathMTU, QPAttrTimeout, QPAttrRetryCnt, QPAttrRNRRetry, QPAttrRQPSN,
			QPAttrMaxQPRDAtomic, QPAttrAltPath, QPAttrMinRNRTimer, QPAttrSQPSN, QPAttrMaxDestRDAtomic, QPAttrPathMigState,
			QPAttrCap, QPAttrDestQPN), bits(20)},
	} {
		if d := cmp.Diff(tt.want, tt.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// upTo are the numbers from 0 to last; bits the masks of bits 0 to last.
func upTo(last uint32) (n []uint32) {
	for i := range last + 1 {
		n = append(n, i)
	}
	return n
}

func bits(last uint32) (n []uint32) {
	for i := range last + 1 {
		n = append(n, 1<<i)
	}
	return n
}
