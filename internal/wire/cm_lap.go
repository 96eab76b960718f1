package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Sizes in LAP and APR.
const (
	LAPPrivateLen = 168
	APRInfoLen    = 72
	APRPrivateLen = 148
)

// LAP asks to change the alternate path (IBTA vol. 1, chapter 12). RoCE has no
// path migration: it is only ever refused.
type LAP [MADDataLen]byte

// LAPFields is what a LAP says; all reserved bits are zero.
type LAPFields struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32       // 24 bits
	RemoteResponseTimeout     uint8        // 5 bits
	Alternate                 CMPathFields // laid out otherwise than in a REQ
	PrivateData               []byte       // up to 168 bytes; what is missing is zero
}

// LAPAt lays a LAP over the 232 bytes after a MAD header.
func LAPAt(b []byte) *LAP { return (*LAP)(b) }

// LocalCommID is the sender's id of the connection.
func (m *LAP) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *LAP) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// RemoteQPN is the receiver's queue pair number, 24 bits.
func (m *LAP) RemoteQPN() uint32 { return get24((*[3]byte)(m[12:15])) }

// Fields takes all fields out; PrivateData points into m.
func (m *LAP) Fields() LAPFields {
	be := binary.BigEndian
	return LAPFields{
		LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), RemoteQPN: m.RemoteQPN(), RemoteResponseTimeout: m[15] >> 3,
		Alternate: CMPathFields{
			LocalLID: be.Uint16(m[20:22]), RemoteLID: be.Uint16(m[22:24]), LocalGID: ibv.GID(m[24:40]), RemoteGID: ibv.GID(m[40:56]),
			FlowLabel: get24((*[3]byte)(m[56:59])) >> 4, TrafficClass: m[59], HopLimit: m[60], PacketRate: m[61] & 0x3F,
			SL: m[62] >> 4, SubnetLocal: m[62]&8 != 0, LocalACKTimeout: m[63] >> 3,
		},
		PrivateData: m[64:],
	}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *LAP) Encode(f *LAPFields) {
	be, alt := binary.BigEndian, &f.Alternate
	clear(m[:64])
	be.PutUint32(m[0:4], f.LocalCommID)
	be.PutUint32(m[4:8], f.RemoteCommID)
	put24((*[3]byte)(m[12:15]), f.RemoteQPN)
	m[15] = f.RemoteResponseTimeout << 3
	be.PutUint16(m[20:22], alt.LocalLID)
	be.PutUint16(m[22:24], alt.RemoteLID)
	copy(m[24:40], alt.LocalGID[:])
	copy(m[40:56], alt.RemoteGID[:])
	put24((*[3]byte)(m[56:59]), alt.FlowLabel<<4)
	m[59], m[60], m[61] = alt.TrafficClass, alt.HopLimit, alt.PacketRate&0x3F
	m[62] = alt.SL << 4
	setBit(&m[62], 8, alt.SubnetLocal)
	m[63] = alt.LocalACKTimeout << 3
	setPadded(m[64:], f.PrivateData)
}

// APR answers a LAP.
type APR [MADDataLen]byte

// APRFields is what an APR says; all reserved bits are zero.
type APRFields struct {
	LocalCommID, RemoteCommID uint32
	Status                    APStatus
	Info                      []byte // up to 72 bytes
	PrivateData               []byte // up to 148 bytes; what is missing is zero
}

// APRAt lays an APR over the 232 bytes after a MAD header.
func APRAt(b []byte) *APR { return (*APR)(b) }

// LocalCommID is the sender's id of the connection.
func (m *APR) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *APR) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// Status is the outcome.
func (m *APR) Status() APStatus { return APStatus(m[9]) }

// Fields takes all fields out; the slices point into m.
func (m *APR) Fields() APRFields {
	return APRFields{
		LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), Status: m.Status(),
		Info: m[12 : 12+min(int(m[8]), APRInfoLen)], PrivateData: m[84:],
	}
}

// Encode writes the whole message. The slices of f may point into it.
func (m *APR) Encode(f *APRFields) {
	binary.BigEndian.PutUint32(m[0:4], f.LocalCommID)
	binary.BigEndian.PutUint32(m[4:8], f.RemoteCommID)
	m[8], m[9], m[10], m[11] = uint8(min(len(f.Info), APRInfoLen)), uint8(f.Status), 0, 0
	setPadded(m[12:84], f.Info)
	setPadded(m[84:], f.PrivateData)
}
