package wire

import "encoding/binary"

// UDPPort is the destination port of RoCEv2 (IBTA annex A17).
const UDPPort = 4791

// UDPLen is the size of a UDP header in bytes.
const UDPLen = 8

// UDP is a UDP header (RFC 768).
type UDP [UDPLen]byte

// UDPFields is what a UDP header says.
type UDPFields struct {
	SrcPort, DstPort uint16
	Length           uint16 // bytes of header and payload
	Checksum         uint16 // 0 for RoCEv2, over IPv6 too
}

// UDPAt lays a UDP header over the first 8 bytes of b.
func UDPAt(b []byte) *UDP { return (*UDP)(b) }

// SrcPort is the source port; in RoCEv2 it spreads flows over paths and
// queues and receivers take any value.
func (h *UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort is the destination port.
func (h *UDP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Length is the number of bytes of header and payload.
func (h *UDP) Length() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// Checksum is the checksum as it stands in the header, 0 for none.
func (h *UDP) Checksum() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// SetSrcPort replaces the source port.
func (h *UDP) SetSrcPort(p uint16) { binary.BigEndian.PutUint16(h[0:2], p) }

// SetDstPort replaces the destination port.
func (h *UDP) SetDstPort(p uint16) { binary.BigEndian.PutUint16(h[2:4], p) }

// SetLength replaces the length, 8 to 65535.
func (h *UDP) SetLength(n int) { binary.BigEndian.PutUint16(h[4:6], uint16(n)) }

// SetChecksum replaces the checksum.
func (h *UDP) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[6:8], c) }

// Fields takes all fields out.
func (h *UDP) Fields() UDPFields {
	return UDPFields{SrcPort: h.SrcPort(), DstPort: h.DstPort(), Length: uint16(h.Length()), Checksum: h.Checksum()}
}

// Encode writes the whole header.
func (h *UDP) Encode(f *UDPFields) {
	h.SetSrcPort(f.SrcPort)
	h.SetDstPort(f.DstPort)
	h.SetLength(int(f.Length))
	h.SetChecksum(f.Checksum)
}
