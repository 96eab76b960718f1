package wire

// MaxSegments is the largest number of pieces in which a frame may arrive.
const MaxSegments = 8

// ICRCForm is the kind of ICRC that a packet carries.
type ICRCForm uint8

// ICRC forms.
const (
	ICRCBad      ICRCForm = iota // neither of the others, or not checked
	ICRCStandard                 // as specified
	ICRCRXE                      // rdma_rxe's, of a FLUSH only: see ICRCFlushRXE
)

// Packet is a received packet. Its slices point into the frame that was
// parsed, and are good as long as that is. A Packet is meant to be reused; the
// zero value is ready.
type Packet struct {
	BTH    []byte  // BTH and extension headers, Info.HeaderLen bytes
	Info   *OpInfo // of the opcode
	Opcode Opcode
	ICRC   ICRCForm
	Ref    uint64 // the frame, for who owns it; Parse leaves it alone

	// Payload without pad and ICRC: the first NPayload elements, none of them
	// empty, PayloadLen bytes together. Elements beyond are left from before.
	Payload    [MaxSegments][]byte
	NPayload   int
	PayloadLen int

	IP             []byte   // the IP header, 20 or 40 bytes
	SrcGID, DstGID [16]byte // IPv4 addresses as ::ffff:a.b.c.d
	IPv6           bool
	TOS            uint8  // DSCP and ECN, or traffic class
	TTL            uint8  // or hop limit
	FlowLabel      uint32 // 20 bits; 0 on IPv4
	UDPSrcPort     uint16

	SrcMAC, DstMAC [6]byte
	VLAN           uint16 // of the tag next to the IP header, 0 if none or a priority tag
	OuterVLAN      uint16 // of the first of two tags, else 0
	Priority       uint8  // PCP of the tag next to the IP header, 0 without one

	l3      int // offset of the IP header in the first segment
	covered int // bytes from there to the ICRC
}

// CE is the ECN field of a packet that met congestion (RFC 3168).
const CE = 3

// ECN is the congestion notification field: 0 for a sender that does not take
// part, 1 or 2 for one that does, CE for a mark.
func (p *Packet) ECN() uint8 { return p.TOS & 3 }

// Hdr is the packet's BTH.
func (p *Packet) Hdr() *BTH { return BTHAt(p.BTH) }

// Segments is the payload.
func (p *Packet) Segments() [][]byte { return p.Payload[:p.NPayload] }

// The accessors below may be called when Info.Headers has the header.

// RETH is the packet's RETH.
func (p *Packet) RETH() *RETH { return RETHAt(p.BTH[p.Info.RETH:]) }

// AtomicETH is the packet's AtomicETH.
func (p *Packet) AtomicETH() *AtomicETH { return AtomicETHAt(p.BTH[p.Info.AtomicETH:]) }

// AETH is the packet's AETH.
func (p *Packet) AETH() *AETH { return AETHAt(p.BTH[p.Info.AETH:]) }

// AtomicAckETH is the packet's AtomicAckETH.
func (p *Packet) AtomicAckETH() *AtomicAckETH { return AtomicAckETHAt(p.BTH[p.Info.AtomicAckETH:]) }

// ImmDt is the packet's immediate data.
func (p *Packet) ImmDt() *ImmDt { return ImmDtAt(p.BTH[p.Info.ImmDt:]) }

// IETH is the packet's IETH.
func (p *Packet) IETH() *IETH { return IETHAt(p.BTH[p.Info.IETH:]) }

// DETH is the packet's DETH.
func (p *Packet) DETH() *DETH { return DETHAt(p.BTH[p.Info.DETH:]) }

// FETH is the packet's FETH.
func (p *Packet) FETH() *FETH { return FETHAt(p.BTH[p.Info.FETH:]) }

// XRCETH is the packet's XRCETH.
func (p *Packet) XRCETH() *XRCETH { return XRCETHAt(p.BTH[p.Info.XRCETH:]) }
