package wire

import "encoding/binary"

// MaxMessageLen is the largest DMA length of a RETH, 2^31 bytes.
const MaxMessageLen = 1 << 31

// RETH is the RDMA extended transport header (IBTA vol. 1, 9.3): the remote
// memory of a WRITE, READ, FLUSH or ATOMIC WRITE.
type RETH [RETHLen]byte

// RETHFields is what a RETH says.
type RETHFields struct {
	VA     uint64 // first byte at the responder
	RKey   uint32 // its key
	DMALen uint32 // bytes of the whole message, at most MaxMessageLen
}

// RETHAt lays a RETH over the first 16 bytes of b.
func RETHAt(b []byte) *RETH { return (*RETH)(b) }

// VA is the virtual address at the responder.
func (h *RETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:8]) }

// RKey is the remote key.
func (h *RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// DMALen is the length of the whole message in bytes; the wire allows values
// above MaxMessageLen, which the responder must refuse.
func (h *RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:16]) }

// SetVA replaces the virtual address.
func (h *RETH) SetVA(va uint64) { binary.BigEndian.PutUint64(h[0:8], va) }

// SetRKey replaces the remote key.
func (h *RETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[8:12], k) }

// SetDMALen replaces the message length.
func (h *RETH) SetDMALen(n uint32) { binary.BigEndian.PutUint32(h[12:16], n) }

// Fields takes all fields out.
func (h *RETH) Fields() RETHFields {
	return RETHFields{VA: h.VA(), RKey: h.RKey(), DMALen: h.DMALen()}
}

// Encode writes the whole header.
func (h *RETH) Encode(f *RETHFields) {
	h.SetVA(f.VA)
	h.SetRKey(f.RKey)
	h.SetDMALen(f.DMALen)
}
