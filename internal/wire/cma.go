package wire

import (
	"encoding/binary"
	"net/netip"
)

// CMALen is the size of a CMA header.
const CMALen = 36

// CMA is the header that rdma_cm puts in front of the private data of REQ and
// SIDR_REQ: the addresses between which the application thinks it connects
// (IBTA vol. 1, annex A11).
type CMA [CMALen]byte

// CMAFields is what a CMA header says; the destination port is in the service
// id. Both addresses are of one family.
type CMAFields struct {
	SrcPort  uint16
	Src, Dst netip.Addr
}

// CMAAt lays a CMA header over the first 36 bytes of b.
func CMAAt(b []byte) *CMA { return (*CMA)(b) }

// Version is that of the header, 0.
func (h *CMA) Version() uint8 { return h[0] }

// IPVersion is 4 or 6 in a valid header.
func (h *CMA) IPVersion() uint8 { return h[1] >> 4 }

// Valid says whether version and IP version are known.
func (h *CMA) Valid() bool { return h.Version() == 0 && (h.IPVersion() == 4 || h.IPVersion() == 6) }

// SrcPort is the sender's port.
func (h *CMA) SrcPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Src is the sender's address.
func (h *CMA) Src() netip.Addr { return h.addr(h[4:20]) }

// Dst is the receiver's address.
func (h *CMA) Dst() netip.Addr { return h.addr(h[20:36]) }

func (h *CMA) addr(b []byte) netip.Addr {
	if h.IPVersion() == 4 {
		return netip.AddrFrom4([4]byte(b[12:16]))
	}
	return netip.AddrFrom16([16]byte(b))
}

// Fields takes all fields out of a valid header.
func (h *CMA) Fields() CMAFields { return CMAFields{SrcPort: h.SrcPort(), Src: h.Src(), Dst: h.Dst()} }

// Encode writes the whole header, of the family of f.Dst; zones are lost.
func (h *CMA) Encode(f *CMAFields) {
	clear(h[:])
	binary.BigEndian.PutUint16(h[2:4], f.SrcPort)
	if f.Dst.Is4() {
		h[1] = 4 << 4
		src, dst := f.Src.As16(), f.Dst.As16()
		copy(h[16:20], src[12:])
		copy(h[32:36], dst[12:])
		return
	}
	h[1] = 6 << 4
	src, dst := f.Src.As16(), f.Dst.As16()
	copy(h[4:20], src[:])
	copy(h[20:36], dst[:])
}
