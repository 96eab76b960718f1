package wire

import "encoding/binary"

// ProtoUDP is UDP's IP protocol number and IPv6 next header.
const ProtoUDP = 17

// IPv4Len is the size of an IPv4 header without options, the only form that
// RoCEv2 allows.
const IPv4Len = 20

// IPv4 is an IPv4 header without options (RFC 791).
type IPv4 [IPv4Len]byte

// IPv4Fields is what an IPv4 header says. Version, header length and checksum
// follow from the rest.
type IPv4Fields struct {
	TOS        uint8  // DSCP in bits 7 to 2, ECN in bits 1 and 0
	TotalLen   uint16 // bytes from this header to the packet's end
	ID         uint16 // covered by the ICRC
	DF, MF     bool   // don't fragment, more fragments
	FragOffset uint16 // in units of 8 bytes, 13 bits
	TTL        uint8
	Protocol   uint8
	Src, Dst   [4]byte
}

// IPv4At lays an IPv4 header over the first 20 bytes of b.
func IPv4At(b []byte) *IPv4 { return (*IPv4)(b) }

// Version is 4 in an IPv4 header.
func (h *IPv4) Version() uint8 { return h[0] >> 4 }

// IHL is the header length in units of 4 bytes, 5 without options.
func (h *IPv4) IHL() uint8 { return h[0] & 0x0F }

// TOS is the DSCP and ECN byte.
func (h *IPv4) TOS() uint8 { return h[1] }

// TotalLen is the number of bytes of header and payload.
func (h *IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(h[2:4])) }

// ID is the identification.
func (h *IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[4:6]) }

// DF says that routers must not fragment the packet.
func (h *IPv4) DF() bool { return h[6]&0x40 != 0 }

// MF says that more fragments follow.
func (h *IPv4) MF() bool { return h[6]&0x20 != 0 }

// FragOffset is the fragment's place in units of 8 bytes.
func (h *IPv4) FragOffset() uint16 { return binary.BigEndian.Uint16(h[6:8]) & 0x1FFF }

// IsFragment says that the packet is a part of a larger one.
func (h *IPv4) IsFragment() bool { return binary.BigEndian.Uint16(h[6:8])&0x3FFF != 0 }

// TTL is the time to live.
func (h *IPv4) TTL() uint8 { return h[8] }

// Protocol is the protocol number of the payload.
func (h *IPv4) Protocol() uint8 { return h[9] }

// Checksum is the header checksum as it stands in the header.
func (h *IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(h[10:12]) }

// Src is the source address.
func (h *IPv4) Src() [4]byte { return [4]byte(h[12:16]) }

// Dst is the destination address.
func (h *IPv4) Dst() [4]byte { return [4]byte(h[16:20]) }

// SetTOS replaces the DSCP and ECN byte; the checksum becomes stale, as with
// all setters here.
func (h *IPv4) SetTOS(v uint8) { h[1] = v }

// SetTotalLen replaces the total length, 20 to 65535.
func (h *IPv4) SetTotalLen(n int) { binary.BigEndian.PutUint16(h[2:4], uint16(n)) }

// SetID replaces the identification.
func (h *IPv4) SetID(id uint16) { binary.BigEndian.PutUint16(h[4:6], id) }

// SetTTL replaces the time to live.
func (h *IPv4) SetTTL(v uint8) { h[8] = v }

// SetChecksum replaces the header checksum.
func (h *IPv4) SetChecksum(c uint16) { binary.BigEndian.PutUint16(h[10:12], c) }

// ComputeChecksum is the checksum that the header should have.
func (h *IPv4) ComputeChecksum() uint16 {
	return foldChecksum(h.sum() - uint32(h.Checksum()))
}

// sum adds the header's ten 16-bit words.
func (h *IPv4) sum() uint32 {
	var s uint32
	for i := 0; i < IPv4Len; i += 2 {
		s += uint32(h[i])<<8 | uint32(h[i+1])
	}
	return s
}

// foldChecksum makes the internet checksum (RFC 1071) of a sum of 16-bit
// words.
func foldChecksum(sum uint32) uint16 {
	sum = sum>>16 + sum&0xFFFF
	sum += sum >> 16
	return ^uint16(sum)
}

// Fields takes all fields out.
func (h *IPv4) Fields() IPv4Fields {
	return IPv4Fields{
		TOS: h.TOS(), TotalLen: uint16(h.TotalLen()), ID: h.ID(), DF: h.DF(), MF: h.MF(), FragOffset: h.FragOffset(),
		TTL: h.TTL(), Protocol: h.Protocol(), Src: h.Src(), Dst: h.Dst(),
	}
}

// Encode writes the whole header, checksum included.
func (h *IPv4) Encode(f *IPv4Fields) {
	h[0], h[1] = 0x45, f.TOS
	h.SetTotalLen(int(f.TotalLen))
	h.SetID(f.ID)
	binary.BigEndian.PutUint16(h[6:8], uint16(bit(f.DF))<<14|uint16(bit(f.MF))<<13|f.FragOffset&0x1FFF)
	h[8], h[9] = f.TTL, f.Protocol
	h.SetChecksum(0)
	copy(h[12:16], f.Src[:])
	copy(h[16:20], f.Dst[:])
	h.SetChecksum(h.ComputeChecksum())
}
