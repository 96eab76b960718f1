package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// DefaultPKey is the full member of the default partition, the P_Key that
// RoCE uses unless told otherwise.
const DefaultPKey = 0xFFFF

// MulticastQP is the destination of multicast packets.
const MulticastQP = 0xFFFFFF

// BTH is the base transport header (IBTA vol. 1, 9.2), the start of every
// packet.
type BTH [BTHLen]byte

// BTHFields is what a BTH says; all reserved bits are zero.
type BTHFields struct {
	Opcode Opcode
	SE     bool    // solicited event
	MigReq bool    // path migrated; HCAs set it on everything but CNPs
	PadCnt uint8   // bytes after the payload, 0 to 3
	TVer   uint8   // transport version, 0
	PKey   uint16  // partition key
	FECN   bool    // not used by RoCEv2, which marks the IP header
	BECN   bool    // set in a CNP
	DestQP uint32  // 24 bits
	AckReq bool    // an acknowledgement is wanted
	PSN    psn.PSN // packet sequence number
}

// BTHAt lays a BTH over the first 12 bytes of b.
func BTHAt(b []byte) *BTH { return (*BTH)(b) }

// Opcode is what the packet is; Opcode.Info may be nil.
func (h *BTH) Opcode() Opcode { return Opcode(h[0]) }

// SE is the solicited event bit.
func (h *BTH) SE() bool { return h[1]&0x80 != 0 }

// MigReq is the migration state bit; receivers ignore it on RoCE.
func (h *BTH) MigReq() bool { return h[1]&0x40 != 0 }

// PadCnt is the number of pad bytes between payload and ICRC, 0 to 3.
func (h *BTH) PadCnt() uint8 { return h[1] >> 4 & 3 }

// TVer is the transport version; other than 0 must be dropped.
func (h *BTH) TVer() uint8 { return h[1] & 0x0F }

// PKey is the partition key.
func (h *BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// FECN is the forward congestion bit of InfiniBand fabrics.
func (h *BTH) FECN() bool { return h[4]&0x80 != 0 }

// BECN is the backward congestion bit, set in a CNP.
func (h *BTH) BECN() bool { return h[4]&0x40 != 0 }

// DestQP is the destination queue pair number, 24 bits.
func (h *BTH) DestQP() uint32 { return binary.BigEndian.Uint32(h[4:8]) & psn.Mask }

// AckReq says that the sender wants an acknowledgement.
func (h *BTH) AckReq() bool { return h[8]&0x80 != 0 }

// PSN is the packet sequence number.
func (h *BTH) PSN() psn.PSN { return psn.Of(binary.BigEndian.Uint32(h[8:12])) }

// SetOpcode replaces the opcode.
func (h *BTH) SetOpcode(op Opcode) { h[0] = uint8(op) }

// SetSE replaces the solicited event bit.
func (h *BTH) SetSE(v bool) { setBit(&h[1], 0x80, v) }

// SetMigReq replaces the migration state bit.
func (h *BTH) SetMigReq(v bool) { setBit(&h[1], 0x40, v) }

// SetPadCnt replaces the pad count with the low two bits of n.
func (h *BTH) SetPadCnt(n uint8) { h[1] = h[1]&^0x30 | n&3<<4 }

// SetTVer replaces the transport version with the low four bits of v.
func (h *BTH) SetTVer(v uint8) { h[1] = h[1]&^0x0F | v&0x0F }

// SetPKey replaces the partition key.
func (h *BTH) SetPKey(k uint16) { binary.BigEndian.PutUint16(h[2:4], k) }

// SetFECN replaces the forward congestion bit.
func (h *BTH) SetFECN(v bool) { setBit(&h[4], 0x80, v) }

// SetBECN replaces the backward congestion bit.
func (h *BTH) SetBECN(v bool) { setBit(&h[4], 0x40, v) }

// SetDestQP replaces the destination with the low 24 bits of qpn.
func (h *BTH) SetDestQP(qpn uint32) { put24((*[3]byte)(h[5:8]), qpn) }

// SetAckReq replaces the acknowledge request bit.
func (h *BTH) SetAckReq(v bool) { setBit(&h[8], 0x80, v) }

// SetPSN replaces the packet sequence number.
func (h *BTH) SetPSN(p psn.PSN) { put24((*[3]byte)(h[9:12]), uint32(p)) }

// Fields takes all fields out.
func (h *BTH) Fields() BTHFields {
	return BTHFields{
		Opcode: h.Opcode(), SE: h.SE(), MigReq: h.MigReq(), PadCnt: h.PadCnt(), TVer: h.TVer(), PKey: h.PKey(),
		FECN: h.FECN(), BECN: h.BECN(), DestQP: h.DestQP(), AckReq: h.AckReq(), PSN: h.PSN(),
	}
}

// Encode writes the whole header. Bits of f that a field has no room for are
// cut off.
func (h *BTH) Encode(f *BTHFields) {
	w0 := uint32(f.Opcode)<<24 | bit(f.SE)<<23 | bit(f.MigReq)<<22 | uint32(f.PadCnt&3)<<20 | uint32(f.TVer&0xF)<<16 | uint32(f.PKey)
	binary.BigEndian.PutUint32(h[0:4], w0)
	binary.BigEndian.PutUint32(h[4:8], bit(f.FECN)<<31|bit(f.BECN)<<30|f.DestQP&psn.Mask)
	binary.BigEndian.PutUint32(h[8:12], bit(f.AckReq)<<31|uint32(f.PSN)&psn.Mask)
}

// PadLen is the number of pad bytes that a payload of n bytes needs, 0 to 3.
func PadLen(n int) int { return -n & 3 }
