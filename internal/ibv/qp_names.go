package ibv

import "strconv"

var qpTypeNames = []string{QPTypeGSI: "GSI", QPTypeRC: "RC", QPTypeUC: "UC", QPTypeUD: "UD", QPTypeXRCSend: "XRC_SEND", QPTypeXRCRecv: "XRC_RECV"}

// String is the name of the transport service: "RC".
func (t QPType) String() string { return enumString("QP_TYPE", int(t), qpTypeNames) }

// Datagram reports whether each send work request names its own receiver.
func (t QPType) Datagram() bool { return t == QPTypeUD || t == QPTypeGSI }

// Reliable reports whether requests are acknowledged, and sent again when they are
// not.
func (t QPType) Reliable() bool {
	return t == QPTypeRC || t == QPTypeXRCSend || t == QPTypeXRCRecv
}

var qpStateNames = []string{
	QPStateReset: "RESET", QPStateInit: "INIT", QPStateRTR: "RTR", QPStateRTS: "RTS",
	QPStateSQD: "SQD", QPStateSQE: "SQE", QPStateErr: "ERR",
}

// String is the name of the state: "RTS".
func (s QPState) String() string { return enumString("QP_STATE", int(s), qpStateNames) }

// String is the number of payload bytes: "1024".
func (m MTU) String() string {
	if !m.Valid() {
		return enumString("MTU", int(m), nil)
	}
	return strconv.Itoa(m.Bytes())
}

// MTUOf is the path MTU with exactly n bytes of payload.
func MTUOf(n int) (m MTU, ok bool) {
	for m = MTU256; m.Valid(); m++ {
		if m.Bytes() == n {
			return m, true
		}
	}
	return 0, false
}

// MTUWithin is the largest path MTU of at most n bytes of payload; ok is false
// when n is below 256.
func MTUWithin(n int) (m MTU, ok bool) {
	for m = MTU4096; m.Valid(); m-- {
		if m.Bytes() <= n {
			return m, true
		}
	}
	return 0, false
}

var portStateNames = []string{PortDown: "DOWN", PortInit: "INIT", PortArmed: "ARMED", PortActive: "ACTIVE"}

// String is the name of the port state: "ACTIVE".
func (s PortState) String() string { return enumString("PORT_STATE", int(s), portStateNames) }

var attrMaskNames = []flagName{
	{uint32(QPAttrState), "STATE"},
	{uint32(QPAttrCurState), "CUR_STATE"},
	{uint32(QPAttrEnSQDAsyncNotify), "EN_SQD_ASYNC_NOTIFY"},
	{uint32(QPAttrAccessFlags), "ACCESS_FLAGS"},
	{uint32(QPAttrPKeyIndex), "PKEY_INDEX"},
	{uint32(QPAttrPort), "PORT"},
	{uint32(QPAttrQKey), "QKEY"},
	{uint32(QPAttrAV), "AV"},
	{uint32(QPAttrPathMTU), "PATH_MTU"},
	{uint32(QPAttrTimeout), "TIMEOUT"},
	{uint32(QPAttrRetryCnt), "RETRY_CNT"},
	{uint32(QPAttrRNRRetry), "RNR_RETRY"},
	{uint32(QPAttrRQPSN), "RQ_PSN"},
	{uint32(QPAttrMaxQPRDAtomic), "MAX_QP_RD_ATOMIC"},
	{uint32(QPAttrAltPath), "ALT_PATH"},
	{uint32(QPAttrMinRNRTimer), "MIN_RNR_TIMER"},
	{uint32(QPAttrSQPSN), "SQ_PSN"},
	{uint32(QPAttrMaxDestRDAtomic), "MAX_DEST_RD_ATOMIC"},
	{uint32(QPAttrPathMigState), "PATH_MIG_STATE"},
	{uint32(QPAttrCap), "CAP"},
	{uint32(QPAttrDestQPN), "DEST_QPN"},
	{uint32(QPAttrRateLimit), "RATE_LIMIT"},
}

// String lists the attributes in the order of their bits: "STATE|PATH_MTU".
func (m AttrMask) String() string { return flagString(uint32(m), attrMaskNames) }
