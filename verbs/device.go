package verbs

import (
	"net"
	"time"
)

// DeviceAttr are the limits and identity of a device (ibv_device_attr).
type DeviceAttr struct {
	Name           string
	FWVersion      string
	NodeGUID       uint64 // EUI-64 of the interface's MAC address
	VendorID       uint32 // 0xFFFFFF: a software device
	MaxMRSize      uint64
	MaxQP          int
	MaxQPWR        int
	MaxSGE         int
	MaxInline      int
	MaxCQ          int
	MaxCQE         int
	MaxSRQ         int
	MaxSRQWR       int
	MaxSRQSGE      int
	MaxXRCD        int // XRC domains
	MaxMR          int // with MaxMW and FastMRs together
	MaxMW          int // memory windows
	MaxAH          int
	MaxPD          int
	MaxMcastGrp    int // multicast groups
	MaxMcastQP     int // queue pairs attached to one of them
	MaxMcastTotal  int // attachments of all together
	MaxQPRDAtom    int // READs and atomics that a queue pair accepts as responder
	MaxQPInitRDAtm int // and has outstanding as requester
	AtomicGlobal   bool
	NumPorts       int // 1
	NumWorkers     int // receive queues, each with a worker
	XDPMode        string
	ZeroCopy       bool

	Caps                    DeviceCap
	SysImageGUID            uint64        // as NodeGUID: the device is alone in its system
	HWVersion               uint32        // 0: there is no hardware
	LocalCAAckDelay         uint8         // exponent of 4.096 us: how long an answer takes at most, if the machine is not overloaded
	MaxCQCount              int           // completions that an event may wait for
	MaxCQPeriod             time.Duration // time that it may wait
	CompletionTimestampMask uint64        // bits of WC.Timestamp that count
	HCACoreClockKHz         uint64        // ticks of it: 1000000, nanoseconds
	ODP                     ODPCaps
}

// ODPCaps say what works on on-demand memory, see AccessOnDemand (ibv_odp_caps).
type ODPCaps struct {
	Supported  bool
	Implicit   bool // PD.RegisterImplicit
	RC, UC, UD ODPCap
}

// PortAttr is the state of a device's port (ibv_port_attr). RoCE has no subnet
// manager: local identifiers, service level limits and the like would be 0 and are
// left out.
type PortAttr struct {
	State        PortState
	MaxMTU       MTU // the largest that any link could carry: 4096
	ActiveMTU    MTU // the largest that the link carries now: its bytes plus 80 fit the link MTU
	LinkMTU      int // bytes, of the network interface
	GIDTableLen  int
	PKeyTableLen int
	MaxMsgSize   uint32
	SpeedMbps    int // of the network interface, 0 when it does not tell
	ActiveSpeed  int // of one lane, and ActiveWidth, the lanes, as libibverbs encodes them
	ActiveWidth  int
	BadPKeyCntr  uint32 // packets with a wrong P_Key; stops at 65535
	QKeyViolCntr uint32 // datagrams with a wrong Q_Key; stops at 65535
	IfIndex      int
	NetNS        uint64 // of the network namespace in which IfIndex counts, SO_NETNS_COOKIE; 0: none
	MAC          net.HardwareAddr
}

// GIDEntry is one entry of a port's GID table: an address that the interface
// has. An index keeps its address as long as that lives; a hole is not Valid.
type GIDEntry struct {
	Index   int
	GID     GID
	Valid   bool
	VLAN    uint16 // 0: untagged
	IfIndex int
}
