package verbs

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// Types of libibverbs with its values. Package internal/ibv has their fields,
// methods and ranges: go doc github.com/roce-xdp/roce-xdp/internal/ibv QPAttr.
type (
	QPType         = ibv.QPType         // transport service of a queue pair
	QPState        = ibv.QPState        // state of a queue pair
	MTU            = ibv.MTU            // path MTU
	Access         = ibv.Access         // rights of a region or queue pair
	Opcode         = ibv.WROpcode       // operation of a send work request
	SendFlags      = ibv.SendFlags      // modifiers of a send work request
	MWType         = ibv.MWType         // type of a memory window
	FlushPlacement = ibv.FlushPlacement // guarantees of a FLUSH
	FlushLevel     = ibv.FlushLevel     // how much a FLUSH covers
	WCOpcode       = ibv.WCOpcode       // operation that completed
	WCStatus       = ibv.WCStatus       // outcome of a work request
	WCFlags        = ibv.WCFlags        // what a completion carries
	PortState      = ibv.PortState      // logical state of a port
	EventType      = ibv.EventType      // asynchronous event
	AttrMask       = ibv.AttrMask       // which attributes a Modify sets
	QPAttr         = ibv.QPAttr         // attributes of a queue pair
	QPCap          = ibv.QPCap          // capacities of a queue pair
	Congestion     = ibv.Congestion     // reaction of a queue pair to congestion
	SRQAttr        = ibv.SRQAttr        // attributes of a shared receive queue
	SRQAttrMask    = ibv.SRQAttrMask    // which of them a Modify sets
	SRQType        = ibv.SRQType        // kind of a shared receive queue
	AddressVector  = ibv.AddressVector  // path to a peer
	GID            = ibv.GID            // address of a port
	ReregFlags     = ibv.ReregFlags     // which parts of a region a Rereg changes
	Advice         = ibv.Advice         // what is to happen to pages of regions
	DeviceCap      = ibv.DeviceCap      // what a device can do
	ODPCap         = ibv.ODPCap         // what works on memory whose pages need not be there
)

// Reactions to congestion.
const (
	CongestionDefault = ibv.CongestionDefault // what the device is configured to
	CongestionNone    = ibv.CongestionNone    // none
	CongestionDCQCN   = ibv.CongestionDCQCN   // DCQCN lowers the rate
)

// Transport services.
const (
	RC = ibv.QPTypeRC // reliable connection
	UC = ibv.QPTypeUC // unreliable connection
	UD = ibv.QPTypeUD // unreliable datagram

	// XRC is a reliable connection of one direction whose requests name the shared
	// receive queue that they are for; see XRCD. FLUSH and ATOMIC_WRITE it has not.
	XRCSend = ibv.QPTypeXRCSend // initiator: a send queue only
	XRCRecv = ibv.QPTypeXRCRecv // target: no queue at all

	// GSI is the general services interface: datagrams of management, those of the
	// connection manager above all. A device has one queue pair of it, with number
	// GSIQPN and Q_Key GSIQKey whatever Modify sets (IBTA vol. 1, chapter 13).
	GSI = ibv.QPTypeGSI
)

// The general services interface of every port.
const (
	GSIQPN  = ibv.GSIQPN
	GSIQKey = ibv.GSIQKey
)

// MulticastQPN is the queue pair number of datagrams to a multicast group (IBTA
// vol. 1, 10.5.2).
const MulticastQPN = 0xFFFFFF

// Kinds of shared receive queues.
const (
	SRQBasic = ibv.SRQTypeBasic
	SRQXRC   = ibv.SRQTypeXRC // in an XRC domain
)

// Queue pair states.
const (
	QPStateReset = ibv.QPStateReset
	QPStateInit  = ibv.QPStateInit
	QPStateRTR   = ibv.QPStateRTR
	QPStateRTS   = ibv.QPStateRTS
	QPStateSQD   = ibv.QPStateSQD
	QPStateSQE   = ibv.QPStateSQE
	QPStateErr   = ibv.QPStateErr
)

// Path MTUs.
const (
	MTU256  = ibv.MTU256
	MTU512  = ibv.MTU512
	MTU1024 = ibv.MTU1024
	MTU2048 = ibv.MTU2048
	MTU4096 = ibv.MTU4096
)

// Access rights.
const (
	AccessLocalWrite      = ibv.AccessLocalWrite
	AccessRemoteWrite     = ibv.AccessRemoteWrite
	AccessRemoteRead      = ibv.AccessRemoteRead
	AccessRemoteAtomic    = ibv.AccessRemoteAtomic
	AccessMWBind          = ibv.AccessMWBind
	AccessZeroBased       = ibv.AccessZeroBased
	AccessOnDemand        = ibv.AccessOnDemand
	AccessHugeTLB         = ibv.AccessHugeTLB
	AccessFlushGlobal     = ibv.AccessFlushGlobal
	AccessFlushPersistent = ibv.AccessFlushPersistent
	AccessRelaxedOrdering = ibv.AccessRelaxedOrdering
)

// What a Rereg of a memory region changes.
const (
	ReregTranslation = ibv.ReregTranslation // its memory
	ReregPD          = ibv.ReregPD
	ReregAccess      = ibv.ReregAccess
)

// What PD.Advise has done.
const (
	AdvisePrefetch        = ibv.AdvisePrefetch
	AdvisePrefetchWrite   = ibv.AdvisePrefetchWrite
	AdvisePrefetchNoFault = ibv.AdvisePrefetchNoFault
)

// Operations of send work requests.
const (
	OpRDMAWrite        = ibv.WRRDMAWrite
	OpRDMAWriteWithImm = ibv.WRRDMAWriteWithImm
	OpSend             = ibv.WRSend
	OpSendWithImm      = ibv.WRSendWithImm
	OpRDMARead         = ibv.WRRDMARead
	OpAtomicCmpAndSwp  = ibv.WRAtomicCmpAndSwp
	OpAtomicFetchAdd   = ibv.WRAtomicFetchAdd
	OpSendWithInv      = ibv.WRSendWithInv
	OpFlush            = ibv.WRFlush
	OpAtomicWrite      = ibv.WRAtomicWrite
	OpBindMW           = ibv.WRBindMW
	OpLocalInv         = ibv.WRLocalInv
	OpRegMR            = ibv.WRRegMR
)

// Types of memory windows.
const (
	MWType1 = ibv.MWType1
	MWType2 = ibv.MWType2
)

// Modifiers of send work requests.
const (
	SendFence     = ibv.SendFence
	SendSignaled  = ibv.SendSignaled
	SendSolicited = ibv.SendSolicited
	SendInline    = ibv.SendInline
)

// What a FLUSH guarantees, and for how much.
const (
	FlushGlobal     = ibv.FlushGlobal
	FlushPersistent = ibv.FlushPersistent
	FlushRange      = ibv.FlushRange
	FlushRegion     = ibv.FlushRegion
)

// Completed operations.
const (
	WCSend            = ibv.WCSend
	WCRDMAWrite       = ibv.WCRDMAWrite
	WCRDMARead        = ibv.WCRDMARead
	WCCompSwap        = ibv.WCCompSwap
	WCFetchAdd        = ibv.WCFetchAdd
	WCFlush           = ibv.WCFlush
	WCAtomicWrite     = ibv.WCAtomicWrite
	WCBindMW          = ibv.WCBindMW
	WCLocalInv        = ibv.WCLocalInv
	WCRegMR           = ibv.WCRegMR
	WCRecv            = ibv.WCRecv
	WCRecvRDMAWithImm = ibv.WCRecvRDMAWithImm
)

// Outcomes of work requests.
const (
	WCSuccess              = ibv.WCSuccess
	WCLocalLength          = ibv.WCLocLenErr
	WCLocalQPOperation     = ibv.WCLocQPOpErr
	WCLocalProtection      = ibv.WCLocProtErr
	WCFlushed              = ibv.WCWRFlushErr
	WCMWBind               = ibv.WCMWBindErr
	WCBadResponse          = ibv.WCBadRespErr
	WCLocalAccess          = ibv.WCLocAccessErr
	WCRemoteInvalidRequest = ibv.WCRemInvReqErr
	WCRemoteAccess         = ibv.WCRemAccessErr
	WCRemoteOperation      = ibv.WCRemOpErr
	WCRetryExceeded        = ibv.WCRetryExcErr
	WCRNRRetryExceeded     = ibv.WCRNRRetryExcErr
	WCFatal                = ibv.WCFatalErr
	WCGeneral              = ibv.WCGeneralErr
)

// What a completion carries.
const (
	WCGRH     = ibv.WCFlagGRH
	WCWithImm = ibv.WCFlagWithImm
	WCWithInv = ibv.WCFlagWithInv
)

// What a device can do.
const (
	DeviceBadPKeyCntr     = ibv.DeviceBadPKeyCntr
	DeviceBadQKeyCntr     = ibv.DeviceBadQKeyCntr
	DeviceUDAVPortEnforce = ibv.DeviceUDAVPortEnforce
	DeviceCurrQPStateMod  = ibv.DeviceCurrQPStateMod
	DevicePortActiveEvent = ibv.DevicePortActiveEvent
	DeviceSysImageGUID    = ibv.DeviceSysImageGUID
	DeviceRCRNRNakGen     = ibv.DeviceRCRNRNakGen
	DeviceSRQResize       = ibv.DeviceSRQResize
	DeviceMemWindow       = ibv.DeviceMemWindow
	DeviceXRC             = ibv.DeviceXRC
	DeviceMemMgtExt       = ibv.DeviceMemMgtExt
	DeviceMemWindowType2A = ibv.DeviceMemWindowType2A
	DeviceMemWindowType2B = ibv.DeviceMemWindowType2B
	DeviceFlushGlobal     = ibv.DeviceFlushGlobal
	DeviceFlushPersistent = ibv.DeviceFlushPersistent
	DeviceAtomicWrite     = ibv.DeviceAtomicWrite
)

// Operations that work on memory whose pages need not be there.
const (
	ODPSend    = ibv.ODPSend
	ODPRecv    = ibv.ODPRecv
	ODPWrite   = ibv.ODPWrite
	ODPRead    = ibv.ODPRead
	ODPAtomic  = ibv.ODPAtomic
	ODPSRQRecv = ibv.ODPSRQRecv
)

// Port states.
const (
	PortDown   = ibv.PortDown
	PortActive = ibv.PortActive
)

// Asynchronous events.
const (
	EventCQErr            = ibv.EventCQErr
	EventQPFatal          = ibv.EventQPFatal
	EventQPReqErr         = ibv.EventQPReqErr
	EventQPAccessErr      = ibv.EventQPAccessErr
	EventCommEst          = ibv.EventCommEst
	EventSQDrained        = ibv.EventSQDrained
	EventDeviceFatal      = ibv.EventDeviceFatal
	EventPortActive       = ibv.EventPortActive
	EventPortErr          = ibv.EventPortErr
	EventSRQErr           = ibv.EventSRQErr
	EventSRQLimitReached  = ibv.EventSRQLimitReached
	EventQPLastWQEReached = ibv.EventQPLastWQEReached
	EventGIDChange        = ibv.EventGIDChange
	EventSpeedChange      = ibv.EventSpeedChange
)

// Attributes that a Modify sets.
const (
	AttrState            = ibv.QPAttrState
	AttrCurState         = ibv.QPAttrCurState
	AttrEnSQDAsyncNotify = ibv.QPAttrEnSQDAsyncNotify
	AttrAccessFlags      = ibv.QPAttrAccessFlags
	AttrPKeyIndex        = ibv.QPAttrPKeyIndex
	AttrPort             = ibv.QPAttrPort
	AttrQKey             = ibv.QPAttrQKey
	AttrAV               = ibv.QPAttrAV
	AttrPathMTU          = ibv.QPAttrPathMTU
	AttrTimeout          = ibv.QPAttrTimeout
	AttrRetryCnt         = ibv.QPAttrRetryCnt
	AttrRNRRetry         = ibv.QPAttrRNRRetry
	AttrRQPSN            = ibv.QPAttrRQPSN
	AttrMaxQPRDAtomic    = ibv.QPAttrMaxQPRDAtomic
	AttrMinRNRTimer      = ibv.QPAttrMinRNRTimer
	AttrSQPSN            = ibv.QPAttrSQPSN
	AttrMaxDestRDAtomic  = ibv.QPAttrMaxDestRDAtomic
	AttrDestQPN          = ibv.QPAttrDestQPN
)

// Attributes that a Modify of a shared receive queue sets.
const (
	SRQAttrMaxWR = ibv.SRQAttrMaxWR
	SRQAttrLimit = ibv.SRQAttrLimit
)

// Limits of every device.
const (
	MaxMsgSize  = ibv.MaxMsgSize  // bytes of one message
	MaxSGE      = ibv.MaxSGE      // scatter/gather entries of one work request
	MaxInline   = ibv.MaxInline   // bytes of inline data
	MaxRDAtomic = ibv.MaxRDAtomic // outstanding READs and atomics of a queue pair
	MaxQPWR     = ibv.MaxQPWR     // work requests of one queue
	MaxCQE      = ibv.MaxCQE      // entries of a completion queue
	MaxCQCount  = ibv.MaxCQCount  // completions that an event may wait for
	MaxCQPeriod = ibv.MaxCQPeriod // time that it may wait
)
