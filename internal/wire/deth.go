package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// DETH is the datagram extended transport header (IBTA vol. 1, 9.3) of UD.
type DETH [DETHLen]byte

// DETHFields is what a DETH says; its reserved byte is zero.
type DETHFields struct {
	QKey  uint32
	SrcQP uint32 // 24 bits
}

// DETHAt lays a DETH over the first 8 bytes of b.
func DETHAt(b []byte) *DETH { return (*DETH)(b) }

// QKey is the queue key that the receiver compares with its own.
func (h *DETH) QKey() uint32 { return binary.BigEndian.Uint32(h[0:4]) }

// SrcQP is the sender's queue pair number, 24 bits.
func (h *DETH) SrcQP() uint32 { return get24((*[3]byte)(h[5:8])) }

// SetQKey replaces the queue key.
func (h *DETH) SetQKey(k uint32) { binary.BigEndian.PutUint32(h[0:4], k) }

// SetSrcQP replaces the source with the low 24 bits of qpn.
func (h *DETH) SetSrcQP(qpn uint32) { put24((*[3]byte)(h[5:8]), qpn) }

// Fields takes all fields out.
func (h *DETH) Fields() DETHFields { return DETHFields{QKey: h.QKey(), SrcQP: h.SrcQP()} }

// Encode writes the whole header.
func (h *DETH) Encode(f *DETHFields) {
	h.SetQKey(f.QKey)
	binary.BigEndian.PutUint32(h[4:8], f.SrcQP&psn.Mask)
}

// XRCETH names the shared receive queue of an XRC request (IBTA vol. 1,
// annex A14); it comes directly after the BTH.
type XRCETH [XRCETHLen]byte

// XRCETHAt lays an XRCETH over the first 4 bytes of b.
func XRCETHAt(b []byte) *XRCETH { return (*XRCETH)(b) }

// SRQN is the number of the shared receive queue, 24 bits.
func (h *XRCETH) SRQN() uint32 { return get24((*[3]byte)(h[1:4])) }

// SetSRQN writes the whole header: the low 24 bits of n and a zero byte.
func (h *XRCETH) SetSRQN(n uint32) { binary.BigEndian.PutUint32(h[:], n&psn.Mask) }
