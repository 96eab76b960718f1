package ibv

import (
	"fmt"
	"strings"
	"testing"
)

func TestEnumNames(t *testing.T) {
	for _, tc := range []struct {
		value fmt.Stringer
		want  string
	}{
		{QPTypeGSI, "GSI"}, {QPTypeRC, "RC"}, {QPTypeUC, "UC"}, {QPTypeUD, "UD"}, {QPTypeXRCSend, "XRC_SEND"}, {QPTypeXRCRecv, "XRC_RECV"},
		{QPType(0), "QP_TYPE(0)"}, {QPType(5), "QP_TYPE(5)"}, {QPType(11), "QP_TYPE(11)"}, {QPType(255), "QP_TYPE(255)"},
		{SRQTypeBasic, "BASIC"}, {SRQTypeXRC, "XRC"}, {SRQType(2), "SRQ_TYPE(2)"},
		{QPStateReset, "RESET"}, {QPStateInit, "INIT"}, {QPStateRTR, "RTR"}, {QPStateRTS, "RTS"},
		{QPStateSQD, "SQD"}, {QPStateSQE, "SQE"}, {QPStateErr, "ERR"}, {QPState(7), "QP_STATE(7)"},
		{MTU256, "256"}, {MTU512, "512"}, {MTU1024, "1024"}, {MTU2048, "2048"}, {MTU4096, "4096"},
		{MTU(0), "MTU(0)"}, {MTU(6), "MTU(6)"},
		{PortDown, "DOWN"}, {PortInit, "INIT"}, {PortArmed, "ARMED"}, {PortActive, "ACTIVE"},
		{PortState(0), "PORT_STATE(0)"}, {PortState(5), "PORT_STATE(5)"},
		{WRRDMAWrite, "RDMA_WRITE"}, {WRAtomicFetchAdd, "ATOMIC_FETCH_AND_ADD"}, {WRSendWithInv, "SEND_WITH_INV"},
		{FlushRange, "RANGE"}, {FlushRegion, "MR"}, {FlushLevel(2), "FLUSH_LEVEL(2)"},
		{WRFlush, "FLUSH"}, {WRAtomicWrite, "ATOMIC_WRITE"}, {WROpcode(10), "WR_OPCODE(10)"}, {WROpcode(16), "WR_OPCODE(16)"},
		{WRRegMR, "REG_MR"}, {WROpcode(33), "WR_OPCODE(33)"}, {WCRegMR, "REG_MR"}, {WCOpcode(11), "WC_OPCODE(11)"},
		{MWType1, "1"}, {MWType2, "2"}, {MWType(0), "MW_TYPE(0)"}, {MWType(3), "MW_TYPE(3)"},
		{WCSend, "SEND"}, {WCCompSwap, "COMP_SWAP"}, {WCOpcode(7), "WC_OPCODE(7)"}, {WCAtomicWrite, "ATOMIC_WRITE"},
		{WCRecv, "RECV"}, {WCRecvRDMAWithImm, "RECV_RDMA_WITH_IMM"}, {WCOpcode(127), "WC_OPCODE(127)"}, {WCOpcode(130), "WC_OPCODE(130)"},
		{WCSuccess, "SUCCESS"}, {WCRetryExcErr, "RETRY_EXC_ERR"}, {WCRNRRetryExcErr, "RNR_RETRY_EXC_ERR"},
		{WCTMRndvIncomplete, "TM_RNDV_INCOMPLETE"}, {WCStatus(24), "WC_STATUS(24)"},
		{EventCQErr, "CQ_ERR"}, {EventSQDrained, "SQ_DRAINED"}, {EventGIDChange, "GID_CHANGE"}, {EventSpeedChange, "DEVICE_SPEED_CHANGE"}, {EventType(21), "EVENT_TYPE(21)"},
	} {
		if got := tc.value.String(); got != tc.want {
			t.Errorf("%T(%d) = %q, want %q", tc.value, tc.value, got, tc.want)
		}
	}
}

// The values are an ABI: libibverbs numbers them without a gap here, and every
// number in range has a name of its own.
func TestNamesAreCompleteAndDistinct(t *testing.T) {
	for kind, names := range map[string]struct {
		first, last int
		name        func(int) string
	}{
		"QPState":    {0, 6, func(i int) string { return QPState(i).String() }},
		"QPType":     {1, 4, func(i int) string { return QPType(i).String() }},
		"WCStatus":   {0, 23, func(i int) string { return WCStatus(i).String() }},
		"EventType":  {0, 20, func(i int) string { return EventType(i).String() }},
		"WROpcode":   {0, 9, func(i int) string { return WROpcode(i).String() }},
		"Congestion": {0, 2, func(i int) string { return Congestion(i).String() }},
		"WCOpcode":   {0, 6, func(i int) string { return WCOpcode(i).String() }},
	} {
		seen := map[string]int{}
		for i := names.first; i <= names.last; i++ {
			n := names.name(i)
			if n == "" || strings.Contains(n, "(") {
				t.Errorf("%s %d has no name", kind, i)
			}
			if j, dup := seen[n]; dup {
				t.Errorf("%s %d and %d are both %q", kind, i, j, n)
			}
			seen[n] = i
		}
	}
}

func TestFlagNames(t *testing.T) {
	for _, tc := range []struct {
		value fmt.Stringer
		want  string
	}{
		{AttrMask(0), "0"},
		{QPAttrPathMTU, "PATH_MTU"},
		{QPAttrTimeout | QPAttrPathMTU, "PATH_MTU|TIMEOUT"},
		{QPAttrState | QPAttrDestQPN | 1<<30, "STATE|DEST_QPN|0x40000000"},
		{AttrMask(1 << 21), "0x200000"},
		{Access(0), "0"},
		{AccessLocalWrite | AccessRemoteRead, "LOCAL_WRITE|REMOTE_READ"},
		{AccessRelaxedOrdering | 1<<31, "RELAXED_ORDERING|0x80000000"},
		{SendSignaled | SendInline, "SIGNALED|INLINE"},
		{SendFlags(16), "0x10"},
		{FlushGlobal | FlushPersistent, "GLOBAL|PERSISTENT"},
		{FlushPlacement(4), "0x4"},
		{WCFlagGRH | WCFlagWithInv, "GRH|WITH_INV"},
		{WCFlags(4), "0x4"},
	} {
		if got := tc.value.String(); got != tc.want {
			t.Errorf("%T(%#x) = %q, want %q", tc.value, tc.value, got, tc.want)
		}
	}
}

func TestAttrMaskNamesFollowTheirBits(t *testing.T) {
	want := []string{
		"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
		"TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER", "SQ_PSN",
		"MAX_DEST_RD_ATOMIC", "PATH_MIG_STATE", "CAP", "DEST_QPN",
	}
	for bit, name := range want {
		if got := AttrMask(1 << bit).String(); got != name {
			t.Errorf("bit %d is %q, want %q", bit, got, name)
		}
	}
	if got := AttrMask(1 << 25).String(); got != "RATE_LIMIT" {
		t.Errorf("bit 25 is %q, want RATE_LIMIT", got)
	}
}

func TestMTU(t *testing.T) {
	for _, tc := range []struct {
		bytes  int
		within MTU
		exact  bool
	}{
		{-1, 0, false}, {0, 0, false}, {255, 0, false},
		{256, MTU256, true}, {511, MTU256, false},
		{512, MTU512, true}, {1023, MTU512, false},
		{1024, MTU1024, true}, {1420, MTU1024, false},
		{2048, MTU2048, true}, {4095, MTU2048, false},
		{4096, MTU4096, true}, {9000, MTU4096, false},
	} {
		m, ok := MTUWithin(tc.bytes)
		if m != tc.within || ok != (tc.within != 0) {
			t.Errorf("MTUWithin(%d) = %v, %v; want %v", tc.bytes, m, ok, tc.within)
		}
		m, ok = MTUOf(tc.bytes)
		if ok != tc.exact || ok && m.Bytes() != tc.bytes {
			t.Errorf("MTUOf(%d) = %v, %v; want exact %v", tc.bytes, m, ok, tc.exact)
		}
	}
	if MTU(0).Bytes() != 0 || MTU(6).Bytes() != 0 {
		t.Error("invalid MTUs have bytes")
	}
}
