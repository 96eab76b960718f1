package wire

import "encoding/binary"

// FETH is the flush extended transport header (IBTA vol. 1, annex A19).
type FETH [FETHLen]byte

// FETHFields is what an FETH says; its reserved bits are zero.
type FETHFields struct {
	Placement   Placement
	Selectivity Selectivity
}

// Placement is a set of guarantees that a FLUSH asks for.
type Placement uint8

// Placement types, to be combined.
const (
	PlacementGlobal     Placement = 1 << 0 // visible to all that read the memory
	PlacementPersistent Placement = 1 << 1 // survives a power failure
)

// Selectivity says how much a FLUSH covers.
type Selectivity uint8

// Selectivity levels; 2 and 3 are reserved.
const (
	SelectRange  Selectivity = 0 // the RETH's range
	SelectRegion Selectivity = 1 // the RETH's whole region; its range is ignored
)

// FETHAt lays an FETH over the first 4 bytes of b.
func FETHAt(b []byte) *FETH { return (*FETH)(b) }

// Placement is the set of guarantees asked for; its bits 2 and 3 are reserved.
func (h *FETH) Placement() Placement { return Placement(h[3] & 0x0F) }

// Selectivity is how much is flushed.
func (h *FETH) Selectivity() Selectivity { return Selectivity(h[3] >> 4 & 3) }

// SetPlacement replaces the placement type with the low four bits of p.
func (h *FETH) SetPlacement(p Placement) { h[3] = h[3]&^0x0F | uint8(p)&0x0F }

// SetSelectivity replaces the selectivity level with the low two bits of s.
func (h *FETH) SetSelectivity(s Selectivity) { h[3] = h[3]&^0x30 | uint8(s&3)<<4 }

// Fields takes all fields out.
func (h *FETH) Fields() FETHFields {
	return FETHFields{Placement: h.Placement(), Selectivity: h.Selectivity()}
}

// Encode writes the whole header.
func (h *FETH) Encode(f *FETHFields) {
	binary.BigEndian.PutUint32(h[:], uint32(f.Selectivity&3)<<4|uint32(f.Placement)&0x0F)
}
