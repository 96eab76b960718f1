package wire

import "encoding/binary"

// EtherTypes that the parser knows.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeIPv6 = 0x86DD
	EtherTypeVLAN = 0x8100 // 802.1Q customer tag
	EtherTypeQinQ = 0x88A8 // 802.1ad service tag
)

// Link-layer header sizes in bytes.
const (
	EthernetLen = 14
	VLANLen     = 4
)

// Ethernet is an Ethernet II header without preamble.
type Ethernet [EthernetLen]byte

// EthernetFields is what an Ethernet header says.
type EthernetFields struct {
	DstMAC, SrcMAC [6]byte
	EtherType      uint16
}

// EthernetAt lays an Ethernet header over the first 14 bytes of b.
func EthernetAt(b []byte) *Ethernet { return (*Ethernet)(b) }

// DstMAC is the receiver's address.
func (h *Ethernet) DstMAC() [6]byte { return [6]byte(h[0:6]) }

// SrcMAC is the sender's address.
func (h *Ethernet) SrcMAC() [6]byte { return [6]byte(h[6:12]) }

// EtherType is the type of what follows, a VLAN tag included.
func (h *Ethernet) EtherType() uint16 { return binary.BigEndian.Uint16(h[12:14]) }

// SetDstMAC replaces the receiver's address.
func (h *Ethernet) SetDstMAC(a [6]byte) { copy(h[0:6], a[:]) }

// SetSrcMAC replaces the sender's address.
func (h *Ethernet) SetSrcMAC(a [6]byte) { copy(h[6:12], a[:]) }

// SetEtherType replaces the type.
func (h *Ethernet) SetEtherType(t uint16) { binary.BigEndian.PutUint16(h[12:14], t) }

// Fields takes all fields out.
func (h *Ethernet) Fields() EthernetFields {
	return EthernetFields{DstMAC: h.DstMAC(), SrcMAC: h.SrcMAC(), EtherType: h.EtherType()}
}

// Encode writes the whole header.
func (h *Ethernet) Encode(f *EthernetFields) {
	h.SetDstMAC(f.DstMAC)
	h.SetSrcMAC(f.SrcMAC)
	h.SetEtherType(f.EtherType)
}

// VLAN is what follows the EtherType of a tag: tag control information and
// the next EtherType (IEEE 802.1Q).
type VLAN [VLANLen]byte

// VLANFields is what a VLAN tag says.
type VLANFields struct {
	PCP       uint8  // priority, 0 to 7
	DEI       bool   // drop eligible
	VID       uint16 // VLAN, 12 bits; 0 is a priority tag without a VLAN
	EtherType uint16 // of what follows the tag
}

// VLANAt lays a VLAN tag over the first 4 bytes of b.
func VLANAt(b []byte) *VLAN { return (*VLAN)(b) }

// PCP is the priority code point, 0 to 7.
func (h *VLAN) PCP() uint8 { return h[0] >> 5 }

// DEI is the drop eligible indicator.
func (h *VLAN) DEI() bool { return h[0]&0x10 != 0 }

// VID is the VLAN identifier, 0 to 4095.
func (h *VLAN) VID() uint16 { return binary.BigEndian.Uint16(h[0:2]) & 0x0FFF }

// EtherType is the type of what follows the tag.
func (h *VLAN) EtherType() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// SetPCP replaces the priority with the low three bits of p.
func (h *VLAN) SetPCP(p uint8) { h[0] = h[0]&0x1F | p<<5 }

// SetDEI replaces the drop eligible indicator.
func (h *VLAN) SetDEI(v bool) { setBit(&h[0], 0x10, v) }

// SetVID replaces the identifier with the low 12 bits of id.
func (h *VLAN) SetVID(id uint16) { h[0], h[1] = h[0]&0xF0|uint8(id>>8)&0x0F, uint8(id) }

// SetEtherType replaces the type of what follows.
func (h *VLAN) SetEtherType(t uint16) { binary.BigEndian.PutUint16(h[2:4], t) }

// Fields takes all fields out.
func (h *VLAN) Fields() VLANFields {
	return VLANFields{PCP: h.PCP(), DEI: h.DEI(), VID: h.VID(), EtherType: h.EtherType()}
}

// Encode writes the whole tag.
func (h *VLAN) Encode(f *VLANFields) {
	binary.BigEndian.PutUint16(h[0:2], uint16(f.PCP&7)<<13|uint16(bit(f.DEI))<<12|f.VID&0x0FFF)
	h.SetEtherType(f.EtherType)
}
