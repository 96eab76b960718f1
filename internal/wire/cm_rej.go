package wire

import "encoding/binary"

// Sizes in a REJ.
const (
	REJInfoLen    = 72  // additional reject information at most
	REJPrivateLen = 148 // private data
)

// REJ refuses a REQ or a REP, or gives up a connection (IBTA vol. 1, chapter 12).
type REJ [MADDataLen]byte

// REJFields is what a REJ says; all reserved bits are zero.
type REJFields struct {
	LocalCommID  uint32 // 0 when a REQ is refused for which no id was made
	RemoteCommID uint32 // 0 when the receiver's is not known
	Message      CMMessage
	Reason       RejReason
	Info         []byte // additional information, up to 72 bytes
	PrivateData  []byte // up to 148 bytes; what is missing is zero
}

// REJAt lays a REJ over the 232 bytes after a MAD header.
func REJAt(b []byte) *REJ { return (*REJ)(b) }

// LocalCommID is the sender's id of the connection, or 0.
func (m *REJ) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection, or 0.
func (m *REJ) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// Message is what is refused.
func (m *REJ) Message() CMMessage { return CMMessage(m[8] >> 6) }

// Reason is why.
func (m *REJ) Reason() RejReason { return RejReason(binary.BigEndian.Uint16(m[10:12])) }

// Info is the additional information; a length beyond the field is cut off.
func (m *REJ) Info() []byte { return m[12 : 12+min(int(m[9]>>1), REJInfoLen)] }

// PrivateData is what comes with the REJ.
func (m *REJ) PrivateData() []byte { return m[84:] }

// SetLocalCommID replaces the sender's id.
func (m *REJ) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetRemoteCommID replaces the receiver's id.
func (m *REJ) SetRemoteCommID(v uint32) { binary.BigEndian.PutUint32(m[4:8], v) }

// SetMessage replaces what is refused.
func (m *REJ) SetMessage(v CMMessage) { m[8] = m[8]&0x3F | uint8(v)<<6 }

// SetReason replaces the reason.
func (m *REJ) SetReason(v RejReason) { binary.BigEndian.PutUint16(m[10:12], uint16(v)) }

// SetInfo copies up to 72 bytes and their number, and clears the rest.
func (m *REJ) SetInfo(b []byte) {
	m[9] = m[9]&1 | uint8(min(len(b), REJInfoLen))<<1
	setPadded(m[12:84], b)
}

// SetPrivateData copies up to 148 bytes and clears the rest.
func (m *REJ) SetPrivateData(b []byte) { setPadded(m[84:], b) }

// Fields takes all fields out; Info and PrivateData point into m.
func (m *REJ) Fields() REJFields {
	return REJFields{
		LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), Message: m.Message(), Reason: m.Reason(),
		Info: m.Info(), PrivateData: m.PrivateData(),
	}
}

// Encode writes the whole message. The slices of f may point into it.
func (m *REJ) Encode(f *REJFields) {
	clear(m[:12])
	m.SetLocalCommID(f.LocalCommID)
	m.SetRemoteCommID(f.RemoteCommID)
	m.SetMessage(f.Message)
	m.SetReason(f.Reason)
	m.SetInfo(f.Info)
	m.SetPrivateData(f.PrivateData)
}
