package cmfsm

import (
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// ID names an object of a machine (rdma_cm_id). Ids count up from 1 and are
// never used again.
type ID uint64

// Owner is whose an id is; its values are the caller's choice.
type Owner uint64

// Room for an application's private data, in bytes.
const (
	MaxREQPrivate     = wire.REQPrivateLen - wire.CMALen     // 56, Connect
	MaxREPPrivate     = wire.REPPrivateLen                   // 196, Accept
	MaxREJPrivate     = wire.REJPrivateLen                   // 148, Reject
	MaxSIDRREQPrivate = wire.SIDRREQPrivateLen - wire.CMALen // 180, Connect of UD
	MaxSIDRREPPrivate = wire.SIDRREPPrivateLen               // 136, Accept and Reject of UD
)

// MaxResources stands for as many READs and atomics as device and peer can
// (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH).
const MaxResources = 0xFF

// ConnParam is what an end of a connection offers (rdma_conn_param), in
// Connect, Accept and, from the peer's, in events.
type ConnParam struct {
	PrivateData        []byte
	ResponderResources uint8 // READs and atomics of the peer that this end serves at a time, or MaxResources
	InitiatorDepth     uint8 // READs and atomics that this end has outstanding, or MaxResources
	FlowControl        bool  // informational
	RetryCount         uint8 // retry_cnt, at most 7; only Connect's counts, for both ends
	RNRRetryCount      uint8 // rnr_retry of the peer, at most 7
	SRQ                bool  // informational
	QPN                uint32
	QKey               uint32 // UD's Accept; 0 for DefaultQKey
}

// Options are properties of an id that are set before it is used
// (rdma_set_option). Ids of a listener's requests inherit them.
type Options struct {
	ReuseAddr   bool  // share an address and port with other ids that say so, before one listens
	AFOnly      bool  // a listener on [::] takes no IPv4
	TOS         uint8 // TOS or traffic class of what Connect sets up
	AckTimeout  uint8 // timeout of the queue pair, 1 to 31; 0 lets the machine compute it
	MinRNRTimer uint8 // 5-bit code, 0 to 31
}

// Route is where Connect goes, as the caller has resolved it. A link-local Local may
// have the index of its interface as its zone, see ibv.WithScope.
type Route struct {
	Local, Remote netip.AddrPort // Local's port 0 means the bound one, or any
	MTU           ibv.MTU        // path MTU
	HopLimit      uint8          // 0 for 64
	SL            uint8          // service level, 0 to 7
	FlowLabel     uint32         // 20 bits, IPv6 only; that of IPv4 comes from the ports, and so does 0
	PacketLife    uint8          // life of a packet, 4.096 us * 2^n; 0 for 16
	VLAN          uint16         // of Local; 0: none
}

// Path is between which addresses a MAD goes and how. Received, Local is its
// destination. IPv4 is not mapped, and what has a zone is link-local: both addresses
// have that of Local, which is its interface's index.
type Path struct {
	Local, Remote netip.Addr
	FlowLabel     uint32 // 20 bits, IPv6 only
	TrafficClass  uint8
	HopLimit      uint8
	SL            uint8
	VLAN          uint16 // of Local, which may be an address in several; 0: none
}

// MAD is a datagram to send from QP1 to QP1.
type MAD struct {
	Path
	Data wire.MAD
}

// Info is what an id looks like.
type Info struct {
	Owner         Owner
	State         State
	PortSpace     wire.PortSpace
	Type          ibv.QPType
	Local, Remote netip.AddrPort
	QPN, PeerQPN  uint32
}

// QPAttr are the attributes of a connected queue pair, complete for INIT, RTR
// and RTS. State and AV.SGIDIndex are left to the caller: the index is that of
// LocalGID in VLAN, on the interface Scope.
type QPAttr struct {
	ibv.QPAttr
	LocalGID ibv.GID
	VLAN     uint16 // 0: none
	Scope    uint32 // index of the interface; 0: any
}
