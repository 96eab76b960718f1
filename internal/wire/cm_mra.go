package wire

import "encoding/binary"

// MRAPrivateLen is the private data of an MRA.
const MRAPrivateLen = 222

// MRA says that a message has come and that the answer takes longer (IBTA
// vol. 1, chapter 12).
type MRA [MADDataLen]byte

// MRAFields is what an MRA says; all reserved bits are zero.
type MRAFields struct {
	LocalCommID, RemoteCommID uint32
	Message                   CMMessage
	ServiceTimeout            uint8  // 5 bits: 4.096 us * 2^n until the answer
	PrivateData               []byte // up to 222 bytes; what is missing is zero
}

// MRAAt lays an MRA over the 232 bytes after a MAD header.
func MRAAt(b []byte) *MRA { return (*MRA)(b) }

// LocalCommID is the sender's id of the connection.
func (m *MRA) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *MRA) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// Message is what has come.
func (m *MRA) Message() CMMessage { return CMMessage(m[8] >> 6) }

// ServiceTimeout is the exponent of the time until the answer, 0 to 31.
func (m *MRA) ServiceTimeout() uint8 { return m[9] >> 3 }

// PrivateData is what comes with the MRA.
func (m *MRA) PrivateData() []byte { return m[10:] }

// SetLocalCommID replaces the sender's id.
func (m *MRA) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetRemoteCommID replaces the receiver's id.
func (m *MRA) SetRemoteCommID(v uint32) { binary.BigEndian.PutUint32(m[4:8], v) }

// SetMessage replaces what has come.
func (m *MRA) SetMessage(v CMMessage) { m[8] = m[8]&0x3F | uint8(v)<<6 }

// SetServiceTimeout replaces the exponent with the low 5 bits of v.
func (m *MRA) SetServiceTimeout(v uint8) { m[9] = m[9]&7 | v<<3 }

// SetPrivateData copies up to 222 bytes and clears the rest.
func (m *MRA) SetPrivateData(b []byte) { setPadded(m[10:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *MRA) Fields() MRAFields {
	return MRAFields{
		LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), Message: m.Message(),
		ServiceTimeout: m.ServiceTimeout(), PrivateData: m.PrivateData(),
	}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *MRA) Encode(f *MRAFields) {
	clear(m[:10])
	m.SetLocalCommID(f.LocalCommID)
	m.SetRemoteCommID(f.RemoteCommID)
	m.SetMessage(f.Message)
	m.SetServiceTimeout(f.ServiceTimeout)
	m.SetPrivateData(f.PrivateData)
}
