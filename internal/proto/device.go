package proto

// DeviceAttr is verbs.DeviceAttr (ibv_device_attr).
type DeviceAttr struct {
	Name                    [Name]byte
	FWVersion               [64]byte
	XDPMode                 [16]byte
	NodeGUID                uint64
	SysImageGUID            uint64
	MaxMRSize               uint64
	Caps                    uint64
	MaxCQPeriodNS           uint64
	CompletionTimestampMask uint64
	HCACoreClockKHz         uint64
	VendorID                uint32
	HWVersion               uint32
	MaxQP                   uint32
	MaxQPWR                 uint32
	MaxSGE                  uint32
	MaxInline               uint32
	MaxCQ                   uint32
	MaxCQE                  uint32
	MaxSRQ                  uint32
	MaxSRQWR                uint32
	MaxSRQSGE               uint32
	MaxXRCD                 uint32
	MaxMR                   uint32
	MaxMW                   uint32
	MaxAH                   uint32
	MaxPD                   uint32
	MaxMcastGrp             uint32
	MaxMcastQP              uint32
	MaxMcastTotal           uint32
	MaxQPRDAtom             uint32
	MaxQPInitRDAtom         uint32
	NumPorts                uint32
	NumWorkers              uint32
	MaxCQCount              uint32
	ODPRC, ODPUC, ODPUD     uint32
	LocalCAAckDelay         uint8
	AtomicGlobal            uint8
	ZeroCopy                uint8
	ODPSupported            uint8
	ODPImplicit             uint8
	Pad                     [7]uint8
}

// PortAttr is verbs.PortAttr (ibv_port_attr).
type PortAttr struct {
	State        uint32
	MaxMTU       uint32 // as ibv_mtu: 1 is 256, 5 is 4096
	ActiveMTU    uint32
	LinkMTU      uint32 // bytes
	GIDTableLen  uint32
	PKeyTableLen uint32
	MaxMsgSize   uint32
	SpeedMbps    uint32
	ActiveSpeed  uint32
	ActiveWidth  uint32
	BadPKeyCntr  uint32
	QKeyViolCntr uint32
	IfIndex      uint32
	MACLen       uint32
	MAC          [16]byte
	NetNS        uint64 // of the namespace in which IfIndex counts, SO_NETNS_COOKIE
}

// Clock is verbs.Clock: the device's clock and the wall clock at one moment.
type Clock struct {
	RawNS    int64
	WallSec  int64 // since 1970, UTC
	WallNSec uint32
	Pad      uint32
}

// GIDEntry is verbs.GIDEntry.
type GIDEntry struct {
	GID     [16]byte
	Index   uint32
	IfIndex uint32
	VLAN    uint16
	Valid   uint8
	Pad     [5]uint8
}

// GIDsReply is a part of the GID table.
type GIDsReply struct {
	Total uint32
	Count uint32
	Entry [64]GIDEntry
}

// Counter is a named counter.
type Counter struct {
	Value uint64
	Name  [56]byte
}

// CountersReply is a part of a list of counters.
type CountersReply struct {
	Total uint32
	Count uint32
	Entry [64]Counter
}

// Resolve is verbs.ResolveRequest.
type Resolve struct {
	Dst       Addr
	Src       Addr
	Interface [Name]byte // by name or number, or a zone of Dst or Src that is a name
	WaitNS    uint64     // how long to wait for the next hop; 0: as long as the device does
	TOS       uint8
	Partial   uint8 // 1: what is known without an answer is a reply, too
	Pad       [6]uint8
}

// Resolution is verbs.Resolution. DstMAC is 0 in a partial one.
type Resolution struct {
	Dst       Addr
	Src       Addr
	NextHop   Addr
	Interface [Name]byte
	Device    [Name]byte
	Neighbour [16]byte
	SGIDIndex int32
	IfIndex   uint32
	Table     uint32
	LinkMTU   uint32
	PathMTU   uint32
	MTU       uint32 // as ibv_mtu
	VLAN      uint16
	Local     uint8
	HopLimit  uint8
	DstMAC    [6]byte
	SrcMAC    [6]byte
}
