package wire

import "encoding/binary"

// ImmDt is immediate data (IBTA vol. 1, 9.3): four bytes that reach the
// application as they are, in no byte order.
type ImmDt [ImmDtLen]byte

// ImmDtAt lays an ImmDt over the first 4 bytes of b.
func ImmDtAt(b []byte) *ImmDt { return (*ImmDt)(b) }

// IETH is the invalidate extended transport header (IBTA vol. 1, 9.3).
type IETH [IETHLen]byte

// IETHAt lays an IETH over the first 4 bytes of b.
func IETHAt(b []byte) *IETH { return (*IETH)(b) }

// RKey is the key to invalidate.
func (h *IETH) RKey() uint32 { return binary.BigEndian.Uint32(h[:]) }

// SetRKey replaces the key.
func (h *IETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[:], k) }
