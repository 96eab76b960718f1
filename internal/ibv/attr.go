package ibv

// AttrMask names the attributes that a call sets (ibv_qp_attr_mask).
type AttrMask uint32

// Attributes of a queue pair.
const (
	QPAttrState            AttrMask = 1 << 0
	QPAttrCurState         AttrMask = 1 << 1
	QPAttrEnSQDAsyncNotify AttrMask = 1 << 2
	QPAttrAccessFlags      AttrMask = 1 << 3
	QPAttrPKeyIndex        AttrMask = 1 << 4
	QPAttrPort             AttrMask = 1 << 5
	QPAttrQKey             AttrMask = 1 << 6
	QPAttrAV               AttrMask = 1 << 7
	QPAttrPathMTU          AttrMask = 1 << 8
	QPAttrTimeout          AttrMask = 1 << 9
	QPAttrRetryCnt         AttrMask = 1 << 10
	QPAttrRNRRetry         AttrMask = 1 << 11
	QPAttrRQPSN            AttrMask = 1 << 12
	QPAttrMaxQPRDAtomic    AttrMask = 1 << 13
	QPAttrAltPath          AttrMask = 1 << 14
	QPAttrMinRNRTimer      AttrMask = 1 << 15
	QPAttrSQPSN            AttrMask = 1 << 16
	QPAttrMaxDestRDAtomic  AttrMask = 1 << 17
	QPAttrPathMigState     AttrMask = 1 << 18
	QPAttrCap              AttrMask = 1 << 19
	QPAttrDestQPN          AttrMask = 1 << 20
	QPAttrRateLimit        AttrMask = 1 << 25
)

// GID is a global identifier: an IPv6 address, or an IPv4 address as
// ::ffff:a.b.c.d (RoCEv2 annex A17).
type GID [16]byte

// AddressVector is the path to a peer (ibv_ah_attr with its ibv_global_route).
type AddressVector struct {
	DGID         GID    // the peer's address
	FlowLabel    uint32 // 20 bits; also selects the UDP source port when not 0
	SGIDIndex    int    // index of the own address in the port's GID table
	HopLimit     uint8  // 0 is sent as 64
	TrafficClass uint8  // the whole TOS or traffic class byte
	SL           uint8  // service level, 0 to 7: the VLAN priority on tagged links
	Port         uint8  // 1; 0 means 1
}

// QPCap are the capacities of a queue pair (ibv_qp_cap).
type QPCap struct {
	MaxSendWR  int // send work requests outstanding, 1 to MaxQPWR
	MaxRecvWR  int // receive work requests outstanding, 0 to MaxQPWR
	MaxSendSGE int // entries of a send work request, 0 to MaxSGE; 0 means 1
	MaxRecvSGE int // entries of a receive work request, 0 to MaxSGE; 0 means 1
	MaxInline  int // bytes of inline data, 0 to MaxInline
}

// QPAttr are the attributes of a queue pair (ibv_qp_attr). Timeout is the
// 5-bit exponent of 4.096 us (0: never); MinRNRTimer the 5-bit code of IBTA
// vol. 1, table 45.
type QPAttr struct {
	State            QPState
	CurState         QPState
	PathMTU          MTU
	QKey             uint32
	RQPSN            uint32 // 24 bits; larger values are masked
	SQPSN            uint32 // 24 bits; larger values are masked
	DestQPN          uint32 // 24 bits
	AccessFlags      Access
	Cap              QPCap
	AV               AddressVector
	PKeyIndex        uint16
	EnSQDAsyncNotify bool
	SQDraining       bool  // query only
	MaxRDAtomic      uint8 // READs and atomics outstanding as requester, 0 to 128
	MaxDestRDAtomic  uint8 // READs and atomics accepted as responder, 0 to 128
	MinRNRTimer      uint8 // 0 to 31
	Port             uint8 // 1
	Timeout          uint8 // 0 to 31
	RetryCnt         uint8 // 0 to 7
	RNRRetry         uint8 // 0 to 7; 7: for ever
}
