package ibv

import "time"

// QPType is the transport service of a queue pair (ibv_qp_type).
type QPType uint8

// Transport services.
const (
	QPTypeGSI QPType = 1 // the general services interface, QP1
	QPTypeRC  QPType = 2
	QPTypeUC  QPType = 3
	QPTypeUD  QPType = 4

	QPTypeXRCSend QPType = 9  // extended reliable connection: initiator
	QPTypeXRCRecv QPType = 10 // and target
)

// The general services interface of every port: its number and its Q_Key (IBTA
// vol. 1, 10.2.5).
const (
	GSIQPN  = 1
	GSIQKey = 0x80010000
)

// QPState is the state of a queue pair (ibv_qp_state, IBTA vol. 1, 10.3.1).
type QPState uint8

// Queue pair states.
const (
	QPStateReset QPState = iota
	QPStateInit
	QPStateRTR
	QPStateRTS
	QPStateSQD
	QPStateSQE
	QPStateErr
)

// MTU is a path MTU (ibv_mtu): payload bytes of a full packet.
type MTU uint8

// Path MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Valid reports whether m is one of the five path MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes is the payload of a full packet, 0 when m is not valid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// Access is a set of access rights of a memory region or queue pair
// (ibv_access_flags).
type Access uint32

// Access rights.
const (
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessZeroBased       Access = 1 << 5
	AccessOnDemand        Access = 1 << 6
	AccessHugeTLB         Access = 1 << 7
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9
	AccessRelaxedOrdering Access = 1 << 20
)

// WROpcode is the operation of a send work request (ibv_wr_opcode).
type WROpcode uint8

// Operations of send work requests.
const (
	WRRDMAWrite        WROpcode = 0
	WRRDMAWriteWithImm WROpcode = 1
	WRSend             WROpcode = 2
	WRSendWithImm      WROpcode = 3
	WRRDMARead         WROpcode = 4
	WRAtomicCmpAndSwp  WROpcode = 5
	WRAtomicFetchAdd   WROpcode = 6
	WRLocalInv         WROpcode = 7
	WRBindMW           WROpcode = 8
	WRSendWithInv      WROpcode = 9
	WRFlush            WROpcode = 14
	WRAtomicWrite      WROpcode = 15
	WRRegMR            WROpcode = 32 // Linux has it for kernel users only
)

// MWType is the type of a memory window (ibv_mw_type).
type MWType uint8

// Types of memory windows.
const (
	MWType1 MWType = 1 // bound by BindMW, for all queue pairs of its domain
	MWType2 MWType = 2 // bound by a work request, for the queue pair of that
)

// SendFlags modify a send work request (ibv_send_flags).
type SendFlags uint8

// Flags of send work requests.
const (
	SendFence     SendFlags = 1 << 0 // wait for earlier READs and atomics
	SendSignaled  SendFlags = 1 << 1 // generate a completion on success
	SendSolicited SendFlags = 1 << 2 // raise a solicited event at the peer
	SendInline    SendFlags = 1 << 3 // copy the data when posting
)

// FlushPlacement is a set of guarantees that a FLUSH gives
// (ibv_placement_type).
type FlushPlacement uint16

// Guarantees of a FLUSH.
const (
	FlushGlobal     FlushPlacement = 1 << 0 // visible to all that read the memory
	FlushPersistent FlushPlacement = 1 << 1 // survives a power failure
)

// FlushLevel is how much a FLUSH covers (ibv_selectivity_level).
type FlushLevel uint16

// Levels of a FLUSH.
const (
	FlushRange  FlushLevel = 0
	FlushRegion FlushLevel = 1
)

// WCOpcode is the operation that completed (ibv_wc_opcode).
type WCOpcode uint8

// Completed operations.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRegMR           WCOpcode = 10 // Linux has it for kernel users only
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

// WCStatus is the outcome of a work request (ibv_wc_status).
type WCStatus uint8

// Outcomes of work requests.
const (
	WCSuccess          WCStatus = 0
	WCLocLenErr        WCStatus = 1
	WCLocQPOpErr       WCStatus = 2
	WCLocEECOpErr      WCStatus = 3
	WCLocProtErr       WCStatus = 4
	WCWRFlushErr       WCStatus = 5
	WCMWBindErr        WCStatus = 6
	WCBadRespErr       WCStatus = 7
	WCLocAccessErr     WCStatus = 8
	WCRemInvReqErr     WCStatus = 9
	WCRemAccessErr     WCStatus = 10
	WCRemOpErr         WCStatus = 11
	WCRetryExcErr      WCStatus = 12
	WCRNRRetryExcErr   WCStatus = 13
	WCLocRDDViolErr    WCStatus = 14
	WCRemInvRDReqErr   WCStatus = 15
	WCRemAbortErr      WCStatus = 16
	WCInvEECNErr       WCStatus = 17
	WCInvEECStateErr   WCStatus = 18
	WCFatalErr         WCStatus = 19
	WCRespTimeoutErr   WCStatus = 20
	WCGeneralErr       WCStatus = 21
	WCTMErr            WCStatus = 22
	WCTMRndvIncomplete WCStatus = 23
)

// WCFlags say what a completion carries (ibv_wc_flags).
type WCFlags uint8

// Flags of completions.
const (
	WCFlagGRH     WCFlags = 1 << 0
	WCFlagWithImm WCFlags = 1 << 1
	WCFlagWithInv WCFlags = 1 << 3
)

// PortState is the logical state of a port (ibv_port_state).
type PortState uint8

// Port states.
const (
	PortDown   PortState = 1
	PortInit   PortState = 2
	PortArmed  PortState = 3
	PortActive PortState = 4
)

// EventType is an asynchronous event (ibv_event_type).
type EventType uint8

// Asynchronous events.
const (
	EventCQErr            EventType = 0
	EventQPFatal          EventType = 1
	EventQPReqErr         EventType = 2
	EventQPAccessErr      EventType = 3
	EventCommEst          EventType = 4
	EventSQDrained        EventType = 5
	EventPathMig          EventType = 6
	EventPathMigErr       EventType = 7
	EventDeviceFatal      EventType = 8
	EventPortActive       EventType = 9
	EventPortErr          EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQErr           EventType = 14
	EventSRQLimitReached  EventType = 15
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
	EventWQFatal          EventType = 19
	EventSpeedChange      EventType = 20
)

// Limits of the engine that attributes are checked against.
const (
	MaxMsgSize  = 1 << 31   // bytes of one message
	MaxSGE      = 32        // scatter/gather entries of one work request
	MaxInline   = 512       // bytes of inline data
	MaxRDAtomic = 128       // outstanding READs and atomics of a queue pair
	MaxQPWR     = 1 << 20   // work requests of one queue
	MaxCQE      = 1 << 22   // entries of a completion queue
	MaxCQCount  = 1<<16 - 1 // completions that an event may wait for

	MaxCQPeriod = (1<<16 - 1) * time.Microsecond // time that it may wait
)
