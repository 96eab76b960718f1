package wire

import "encoding/binary"

// IPv6Len is the size of an IPv6 header; RoCEv2 allows no extension headers.
const IPv6Len = 40

// nextHeaderFragment is the IPv6 fragment header (RFC 8200, 4.5).
const nextHeaderFragment = 44

// IPv6 is an IPv6 header (RFC 8200).
type IPv6 [IPv6Len]byte

// IPv6Fields is what an IPv6 header says.
type IPv6Fields struct {
	TrafficClass uint8  // DSCP in bits 7 to 2, ECN in bits 1 and 0
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // bytes after this header
	NextHeader   uint8
	HopLimit     uint8
	Src, Dst     [16]byte
}

// IPv6At lays an IPv6 header over the first 40 bytes of b.
func IPv6At(b []byte) *IPv6 { return (*IPv6)(b) }

// Version is 6 in an IPv6 header.
func (h *IPv6) Version() uint8 { return h[0] >> 4 }

// TrafficClass is the DSCP and ECN byte.
func (h *IPv6) TrafficClass() uint8 { return h[0]<<4 | h[1]>>4 }

// FlowLabel is the flow label, 20 bits.
func (h *IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(h[0:4]) & 0xFFFFF }

// PayloadLen is the number of bytes after this header.
func (h *IPv6) PayloadLen() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// NextHeader is the type of what follows.
func (h *IPv6) NextHeader() uint8 { return h[6] }

// HopLimit is the number of hops left.
func (h *IPv6) HopLimit() uint8 { return h[7] }

// Src is the source address.
func (h *IPv6) Src() [16]byte { return [16]byte(h[8:24]) }

// Dst is the destination address.
func (h *IPv6) Dst() [16]byte { return [16]byte(h[24:40]) }

// SetTrafficClass replaces the DSCP and ECN byte.
func (h *IPv6) SetTrafficClass(v uint8) { h[0], h[1] = h[0]&0xF0|v>>4, v<<4|h[1]&0x0F }

// SetFlowLabel replaces the flow label with the low 20 bits of fl.
func (h *IPv6) SetFlowLabel(fl uint32) {
	h[1], h[2], h[3] = h[1]&0xF0|uint8(fl>>16)&0x0F, uint8(fl>>8), uint8(fl)
}

// SetPayloadLen replaces the payload length, 0 to 65535.
func (h *IPv6) SetPayloadLen(n int) { binary.BigEndian.PutUint16(h[4:6], uint16(n)) }

// SetHopLimit replaces the number of hops left.
func (h *IPv6) SetHopLimit(v uint8) { h[7] = v }

// Fields takes all fields out.
func (h *IPv6) Fields() IPv6Fields {
	return IPv6Fields{
		TrafficClass: h.TrafficClass(), FlowLabel: h.FlowLabel(), PayloadLen: uint16(h.PayloadLen()),
		NextHeader: h.NextHeader(), HopLimit: h.HopLimit(), Src: h.Src(), Dst: h.Dst(),
	}
}

// Encode writes the whole header.
func (h *IPv6) Encode(f *IPv6Fields) {
	binary.BigEndian.PutUint32(h[0:4], 6<<28|uint32(f.TrafficClass)<<20|f.FlowLabel&0xFFFFF)
	h.SetPayloadLen(int(f.PayloadLen))
	h[6], h[7] = f.NextHeader, f.HopLimit
	copy(h[8:24], f.Src[:])
	copy(h[24:40], f.Dst[:])
}
