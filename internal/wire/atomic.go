package wire

import "encoding/binary"

// AtomicETH is the atomic extended transport header (IBTA vol. 1, 9.3). Its
// operands are numbers, not bytes: the responder works on a host-order word.
type AtomicETH [AtomicETHLen]byte

// AtomicETHFields is what an AtomicETH says.
type AtomicETHFields struct {
	VA      uint64 // a multiple of 8
	RKey    uint32
	SwapAdd uint64 // COMPARE_SWAP: the new value; FETCH_ADD: the addend
	Compare uint64 // COMPARE_SWAP: the value expected; FETCH_ADD: 0
}

// AtomicETHAt lays an AtomicETH over the first 28 bytes of b.
func AtomicETHAt(b []byte) *AtomicETH { return (*AtomicETH)(b) }

// VA is the virtual address of the 64-bit word at the responder.
func (h *AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:8]) }

// RKey is the remote key.
func (h *AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// SwapAdd is the new value of a COMPARE_SWAP or the addend of a FETCH_ADD.
func (h *AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[12:20]) }

// Compare is the value that a COMPARE_SWAP expects.
func (h *AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:28]) }

// SetVA replaces the virtual address.
func (h *AtomicETH) SetVA(va uint64) { binary.BigEndian.PutUint64(h[0:8], va) }

// SetRKey replaces the remote key.
func (h *AtomicETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[8:12], k) }

// SetSwapAdd replaces the new value or the addend.
func (h *AtomicETH) SetSwapAdd(v uint64) { binary.BigEndian.PutUint64(h[12:20], v) }

// SetCompare replaces the expected value.
func (h *AtomicETH) SetCompare(v uint64) { binary.BigEndian.PutUint64(h[20:28], v) }

// Fields takes all fields out.
func (h *AtomicETH) Fields() AtomicETHFields {
	return AtomicETHFields{VA: h.VA(), RKey: h.RKey(), SwapAdd: h.SwapAdd(), Compare: h.Compare()}
}

// Encode writes the whole header.
func (h *AtomicETH) Encode(f *AtomicETHFields) {
	h.SetVA(f.VA)
	h.SetRKey(f.RKey)
	h.SetSwapAdd(f.SwapAdd)
	h.SetCompare(f.Compare)
}

// AtomicAckETH answers an atomic (IBTA vol. 1, 9.3).
type AtomicAckETH [AtomicAckETHLen]byte

// AtomicAckETHAt lays an AtomicAckETH over the first 8 bytes of b.
func AtomicAckETHAt(b []byte) *AtomicAckETH { return (*AtomicAckETH)(b) }

// Orig is the word's value before the operation.
func (h *AtomicAckETH) Orig() uint64 { return binary.BigEndian.Uint64(h[:]) }

// SetOrig replaces the original value.
func (h *AtomicAckETH) SetOrig(v uint64) { binary.BigEndian.PutUint64(h[:], v) }
