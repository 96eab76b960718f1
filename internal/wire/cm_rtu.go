package wire

import "encoding/binary"

// Private data of the short messages.
const (
	RTUPrivateLen  = 224
	DREQPrivateLen = 220
	DREPPrivateLen = 224
)

// RTU confirms a REP (IBTA vol. 1, chapter 12).
type RTU [MADDataLen]byte

// RTUFields is what an RTU says.
type RTUFields struct {
	LocalCommID, RemoteCommID uint32
	PrivateData               []byte // up to 224 bytes; what is missing is zero
}

// RTUAt lays an RTU over the 232 bytes after a MAD header.
func RTUAt(b []byte) *RTU { return (*RTU)(b) }

// LocalCommID is the sender's id of the connection.
func (m *RTU) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *RTU) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// PrivateData is what comes with the RTU.
func (m *RTU) PrivateData() []byte { return m[8:] }

// SetLocalCommID replaces the sender's id.
func (m *RTU) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetRemoteCommID replaces the receiver's id.
func (m *RTU) SetRemoteCommID(v uint32) { binary.BigEndian.PutUint32(m[4:8], v) }

// SetPrivateData copies up to 224 bytes and clears the rest.
func (m *RTU) SetPrivateData(b []byte) { setPadded(m[8:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *RTU) Fields() RTUFields {
	return RTUFields{LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), PrivateData: m.PrivateData()}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *RTU) Encode(f *RTUFields) {
	m.SetLocalCommID(f.LocalCommID)
	m.SetRemoteCommID(f.RemoteCommID)
	m.SetPrivateData(f.PrivateData)
}

// DREP answers a DREQ; it looks like an RTU.
type DREP = RTU

// DREPFields is what a DREP says.
type DREPFields = RTUFields

// DREPAt lays a DREP over the 232 bytes after a MAD header.
func DREPAt(b []byte) *DREP { return (*DREP)(b) }

// DREQ ends a connection (IBTA vol. 1, chapter 12).
type DREQ [MADDataLen]byte

// DREQFields is what a DREQ says; its reserved byte is zero.
type DREQFields struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // 24 bits: the receiver's
	PrivateData               []byte // up to 220 bytes; what is missing is zero
}

// DREQAt lays a DREQ over the 232 bytes after a MAD header.
func DREQAt(b []byte) *DREQ { return (*DREQ)(b) }

// LocalCommID is the sender's id of the connection.
func (m *DREQ) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *DREQ) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// RemoteQPN is the receiver's queue pair number, 24 bits.
func (m *DREQ) RemoteQPN() uint32 { return get24((*[3]byte)(m[8:11])) }

// PrivateData is what comes with the DREQ.
func (m *DREQ) PrivateData() []byte { return m[12:] }

// SetLocalCommID replaces the sender's id.
func (m *DREQ) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetRemoteCommID replaces the receiver's id.
func (m *DREQ) SetRemoteCommID(v uint32) { binary.BigEndian.PutUint32(m[4:8], v) }

// SetRemoteQPN replaces the queue pair number with the low 24 bits of v.
func (m *DREQ) SetRemoteQPN(v uint32) { put24((*[3]byte)(m[8:11]), v) }

// SetPrivateData copies up to 220 bytes and clears the rest.
func (m *DREQ) SetPrivateData(b []byte) { setPadded(m[12:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *DREQ) Fields() DREQFields {
	return DREQFields{LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), RemoteQPN: m.RemoteQPN(), PrivateData: m.PrivateData()}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *DREQ) Encode(f *DREQFields) {
	m.SetLocalCommID(f.LocalCommID)
	m.SetRemoteCommID(f.RemoteCommID)
	m.SetRemoteQPN(f.RemoteQPN)
	m[11] = 0
	m.SetPrivateData(f.PrivateData)
}
