package queue

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

var le = binary.LittleEndian

// SGE is a scatter/gather entry: length bytes at addr in the region of lkey. It
// occupies 16 bytes: addr u64, length u32, lkey u32.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

const (
	sgeSize  = 16
	sendHdr  = 96
	recvHdr  = 16
	elemStep = 32
)

// SendElemSize is the element size of a send queue.
func SendElemSize(maxSGE, maxInline int) int {
	return roundUp(sendHdr+max(maxSGE*sgeSize, maxInline), 64)
}

// RecvElemSize is the element size of a receive queue.
func RecvElemSize(maxSGE int) int { return roundUp(recvHdr+maxSGE*sgeSize, elemStep) }

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// SendWQE is the header of a send work queue entry. Its 96 bytes are followed by
// the scatter/gather entries, or by the data itself when Flags has SendInline.
type SendWQE struct {
	WRID       uint64        // 0
	Opcode     ibv.WROpcode  // 8
	Flags      ibv.SendFlags // 9
	NumSGE     uint16        // 10
	Imm        uint32        // 12 immediate data as a number, or the key to invalidate
	RemoteAddr uint64        // 16
	RKey       uint32        // 24
	Length     uint32        // 28 bytes of all entries, or of the inline data
	CompareAdd uint64        // 32
	Swap       uint64        // 40
	AH         uint32        // 48 address handle, UD
	RemoteQPN  uint32        // 52 UD
	RemoteQKey uint32        // 56 UD
	SRQN       uint32        // 60 XRC
	BindAddr   uint64        // 64 memory window: start
	BindLength uint64        // 72 memory window: length
	BindLKey   uint32        // 80 memory window: region
	BindRKey   uint32        // 84 memory window: old and new key
	BindAccess ibv.Access    // 88
	FlushType  uint16        // 92 placement type
	FlushLevel uint16        // 94 selectivity
}

// PutSend writes w into the first 96 bytes of slot.
func PutSend(slot []byte, w *SendWQE) {
	s := (*[sendHdr]byte)(slot)
	le.PutUint64(s[0:], w.WRID)
	s[8] = byte(w.Opcode)
	s[9] = byte(w.Flags)
	le.PutUint16(s[10:], w.NumSGE)
	le.PutUint32(s[12:], w.Imm)
	le.PutUint64(s[16:], w.RemoteAddr)
	le.PutUint32(s[24:], w.RKey)
	le.PutUint32(s[28:], w.Length)
	le.PutUint64(s[32:], w.CompareAdd)
	le.PutUint64(s[40:], w.Swap)
	le.PutUint32(s[48:], w.AH)
	le.PutUint32(s[52:], w.RemoteQPN)
	le.PutUint32(s[56:], w.RemoteQKey)
	le.PutUint32(s[60:], w.SRQN)
	le.PutUint64(s[64:], w.BindAddr)
	le.PutUint64(s[72:], w.BindLength)
	le.PutUint32(s[80:], w.BindLKey)
	le.PutUint32(s[84:], w.BindRKey)
	le.PutUint32(s[88:], uint32(w.BindAccess))
	le.PutUint16(s[92:], w.FlushType)
	le.PutUint16(s[94:], w.FlushLevel)
}

// GetSend reads the header of slot into w.
func GetSend(slot []byte, w *SendWQE) {
	s := (*[sendHdr]byte)(slot)
	w.WRID = le.Uint64(s[0:])
	w.Opcode = ibv.WROpcode(s[8])
	w.Flags = ibv.SendFlags(s[9])
	w.NumSGE = le.Uint16(s[10:])
	w.Imm = le.Uint32(s[12:])
	w.RemoteAddr = le.Uint64(s[16:])
	w.RKey = le.Uint32(s[24:])
	w.Length = le.Uint32(s[28:])
	w.CompareAdd = le.Uint64(s[32:])
	w.Swap = le.Uint64(s[40:])
	w.AH = le.Uint32(s[48:])
	w.RemoteQPN = le.Uint32(s[52:])
	w.RemoteQKey = le.Uint32(s[56:])
	w.SRQN = le.Uint32(s[60:])
	w.BindAddr = le.Uint64(s[64:])
	w.BindLength = le.Uint64(s[72:])
	w.BindLKey = le.Uint32(s[80:])
	w.BindRKey = le.Uint32(s[84:])
	w.BindAccess = ibv.Access(le.Uint32(s[88:]))
	w.FlushType = le.Uint16(s[92:])
	w.FlushLevel = le.Uint16(s[94:])
}

// SendSGE reads the i-th scatter/gather entry of a send element.
func SendSGE(slot []byte, i int) SGE { return getSGE(slot[sendHdr+i*sgeSize:]) }

// PutSendSGE writes the i-th scatter/gather entry of a send element.
func PutSendSGE(slot []byte, i int, e SGE) { putSGE(slot[sendHdr+i*sgeSize:], e) }

// SendInline is the inline data area of a send element.
func SendInline(slot []byte) []byte { return slot[sendHdr:] }

// SendMaxSGE is how many scatter/gather entries a send element can hold.
func SendMaxSGE(elem int) int { return (elem - sendHdr) / sgeSize }

// RecvWQE is the header of a receive work queue entry: 16 bytes, followed by the
// scatter/gather entries.
type RecvWQE struct {
	WRID   uint64 // 0
	Length uint32 // 8 bytes of all entries
	NumSGE uint16 // 12
}

// PutRecv writes w into the first 16 bytes of slot.
func PutRecv(slot []byte, w *RecvWQE) {
	s := (*[recvHdr]byte)(slot)
	le.PutUint64(s[0:], w.WRID)
	le.PutUint32(s[8:], w.Length)
	le.PutUint32(s[12:], uint32(w.NumSGE))
}

// GetRecv reads the header of slot into w.
func GetRecv(slot []byte, w *RecvWQE) {
	s := (*[recvHdr]byte)(slot)
	w.WRID = le.Uint64(s[0:])
	w.Length = le.Uint32(s[8:])
	w.NumSGE = le.Uint16(s[12:])
}

// RecvSGE reads the i-th scatter/gather entry of a receive element.
func RecvSGE(slot []byte, i int) SGE { return getSGE(slot[recvHdr+i*sgeSize:]) }

// PutRecvSGE writes the i-th scatter/gather entry of a receive element.
func PutRecvSGE(slot []byte, i int, e SGE) { putSGE(slot[recvHdr+i*sgeSize:], e) }

// RecvMaxSGE is how many scatter/gather entries a receive element can hold.
func RecvMaxSGE(elem int) int { return (elem - recvHdr) / sgeSize }

func getSGE(b []byte) SGE {
	s := (*[sgeSize]byte)(b)
	return SGE{Addr: le.Uint64(s[0:]), Length: le.Uint32(s[8:]), LKey: le.Uint32(s[12:])}
}

func putSGE(b []byte, e SGE) {
	s := (*[sgeSize]byte)(b)
	le.PutUint64(s[0:], e.Addr)
	le.PutUint32(s[8:], e.Length)
	le.PutUint32(s[12:], e.LKey)
}
