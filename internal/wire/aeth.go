package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// AETH is the ACK extended transport header (IBTA vol. 1, 9.3).
type AETH [AETHLen]byte

// AETHFields is what an AETH says.
type AETHFields struct {
	Syndrome Syndrome
	MSN      uint32 // messages completed by the responder, 24 bits
}

// AETHAt lays an AETH over the first 4 bytes of b.
func AETHAt(b []byte) *AETH { return (*AETH)(b) }

// Syndrome says whether the packet is an ACK, an RNR NAK or a NAK.
func (h *AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN is the message sequence number, 24 bits.
func (h *AETH) MSN() uint32 { return get24((*[3]byte)(h[1:4])) }

// SetSyndrome replaces the syndrome.
func (h *AETH) SetSyndrome(s Syndrome) { h[0] = uint8(s) }

// SetMSN replaces the MSN with the low 24 bits of n.
func (h *AETH) SetMSN(n uint32) { put24((*[3]byte)(h[1:4]), n) }

// Fields takes all fields out.
func (h *AETH) Fields() AETHFields { return AETHFields{Syndrome: h.Syndrome(), MSN: h.MSN()} }

// Encode writes the whole header.
func (h *AETH) Encode(f *AETHFields) {
	binary.BigEndian.PutUint32(h[:], uint32(f.Syndrome)<<24|f.MSN&psn.Mask)
}
