package queue

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// CQESize is the element size of a completion queue.
const CQESize = 64

// CQE is a completion queue entry (ibv_wc). When Status is not WCSuccess only
// WRID, Status, VendorErr and QPN are meaningful.
type CQE struct {
	WRID      uint64       // 0
	Timestamp int64        // 8 monotonic nanoseconds at which the request completed
	ByteLen   uint32       // 16
	Imm       uint32       // 20 immediate data as a number, or the invalidated key
	QPN       uint32       // 24 local queue pair
	SrcQP     uint32       // 28 UD
	VendorErr uint32       // 32
	Status    ibv.WCStatus // 36
	Opcode    ibv.WCOpcode // 37
	Flags     ibv.WCFlags  // 38
	SL        uint8        // 39 priority that the message came with
	PKeyIndex uint16       // 40
	VLAN      uint16       // 42 that the message came from, 0 without a tag
	QPContext uint64       // 48 what the creator of the queue pair attached to it
}

// PutCQE writes c into slot.
func PutCQE(slot []byte, c *CQE) {
	s := (*[CQESize]byte)(slot)
	le.PutUint64(s[0:], c.WRID)
	le.PutUint64(s[8:], uint64(c.Timestamp))
	le.PutUint32(s[16:], c.ByteLen)
	le.PutUint32(s[20:], c.Imm)
	le.PutUint32(s[24:], c.QPN)
	le.PutUint32(s[28:], c.SrcQP)
	le.PutUint32(s[32:], c.VendorErr)
	s[36] = byte(c.Status)
	s[37] = byte(c.Opcode)
	s[38] = byte(c.Flags)
	s[39] = c.SL
	le.PutUint64(s[40:], uint64(c.PKeyIndex)|uint64(c.VLAN)<<16)
	le.PutUint64(s[48:], c.QPContext)
	le.PutUint64(s[56:], 0)
}

// GetCQE reads slot into c.
func GetCQE(slot []byte, c *CQE) {
	s := (*[CQESize]byte)(slot)
	c.WRID = le.Uint64(s[0:])
	c.Timestamp = int64(le.Uint64(s[8:]))
	c.ByteLen = le.Uint32(s[16:])
	c.Imm = le.Uint32(s[20:])
	c.QPN = le.Uint32(s[24:])
	c.SrcQP = le.Uint32(s[28:])
	c.VendorErr = le.Uint32(s[32:])
	c.Status = ibv.WCStatus(s[36])
	c.Opcode = ibv.WCOpcode(s[37])
	c.Flags = ibv.WCFlags(s[38])
	c.SL = s[39]
	c.PKeyIndex = le.Uint16(s[40:])
	c.VLAN = le.Uint16(s[42:])
	c.QPContext = le.Uint64(s[48:])
}
