package wire

import "encoding/binary"

// Sizes in SIDR_REQ and SIDR_REP.
const (
	SIDRREQPrivateLen = 216 // the CMA header included
	SIDRREPInfoLen    = 72
	SIDRREPPrivateLen = 136
)

// SIDRREQ asks which UD queue pair serves a service id (IBTA vol. 1, chapter 12).
type SIDRREQ [MADDataLen]byte

// SIDRREQFields is what a SIDR_REQ says; its reserved field is zero.
type SIDRREQFields struct {
	RequestID   uint32
	PKey        uint16
	ServiceID   ServiceID
	PrivateData []byte // up to 216 bytes; what is missing is zero
}

// SIDRREQAt lays a SIDR_REQ over the 232 bytes after a MAD header.
func SIDRREQAt(b []byte) *SIDRREQ { return (*SIDRREQ)(b) }

// RequestID is the sender's id of the request.
func (m *SIDRREQ) RequestID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// PKey is the partition key.
func (m *SIDRREQ) PKey() uint16 { return binary.BigEndian.Uint16(m[4:6]) }

// ServiceID says who is asked.
func (m *SIDRREQ) ServiceID() ServiceID { return ServiceID(binary.BigEndian.Uint64(m[8:16])) }

// PrivateData is what comes with the request, a CMA header first.
func (m *SIDRREQ) PrivateData() []byte { return m[16:] }

// SetRequestID replaces the sender's id.
func (m *SIDRREQ) SetRequestID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetPKey replaces the partition key.
func (m *SIDRREQ) SetPKey(v uint16) { binary.BigEndian.PutUint16(m[4:6], v) }

// SetServiceID replaces the service id.
func (m *SIDRREQ) SetServiceID(v ServiceID) { binary.BigEndian.PutUint64(m[8:16], uint64(v)) }

// SetPrivateData copies up to 216 bytes and clears the rest.
func (m *SIDRREQ) SetPrivateData(b []byte) { setPadded(m[16:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *SIDRREQ) Fields() SIDRREQFields {
	return SIDRREQFields{RequestID: m.RequestID(), PKey: m.PKey(), ServiceID: m.ServiceID(), PrivateData: m.PrivateData()}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *SIDRREQ) Encode(f *SIDRREQFields) {
	m.SetRequestID(f.RequestID)
	m.SetPKey(f.PKey)
	m[6], m[7] = 0, 0
	m.SetServiceID(f.ServiceID)
	m.SetPrivateData(f.PrivateData)
}

// SIDRREP answers a SIDR_REQ (IBTA vol. 1, chapter 12).
type SIDRREP [MADDataLen]byte

// SIDRREPFields is what a SIDR_REP says.
type SIDRREPFields struct {
	RequestID   uint32
	Status      SIDRStatus
	VendorID    uint32 // 24 bits
	QPN         uint32 // 24 bits
	ServiceID   ServiceID
	QKey        uint32
	Info        []byte // up to 72 bytes
	PrivateData []byte // up to 136 bytes; what is missing is zero
}

// SIDRREPAt lays a SIDR_REP over the 232 bytes after a MAD header.
func SIDRREPAt(b []byte) *SIDRREP { return (*SIDRREP)(b) }

// RequestID is that of the request.
func (m *SIDRREP) RequestID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// Status is the outcome.
func (m *SIDRREP) Status() SIDRStatus { return SIDRStatus(m[4]) }

// VendorID is the OUI of a device with vendor options, 24 bits, which the
// message has in two pieces.
func (m *SIDRREP) VendorID() uint32 {
	return uint32(binary.BigEndian.Uint16(m[6:8]))<<8 | uint32(m[11])
}

// QPN is the queue pair that serves, 24 bits.
func (m *SIDRREP) QPN() uint32 { return get24((*[3]byte)(m[8:11])) }

// ServiceID is that of the request.
func (m *SIDRREP) ServiceID() ServiceID { return ServiceID(binary.BigEndian.Uint64(m[12:20])) }

// QKey is the queue pair's Q_Key.
func (m *SIDRREP) QKey() uint32 { return binary.BigEndian.Uint32(m[20:24]) }

// Info is the additional information; a length beyond the field is cut off.
func (m *SIDRREP) Info() []byte { return m[24 : 24+min(int(m[5]), SIDRREPInfoLen)] }

// PrivateData is what comes with the answer.
func (m *SIDRREP) PrivateData() []byte { return m[96:] }

// SetRequestID replaces the request's id.
func (m *SIDRREP) SetRequestID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetStatus replaces the outcome.
func (m *SIDRREP) SetStatus(v SIDRStatus) { m[4] = uint8(v) }

// SetVendorID replaces the OUI with the low 24 bits of v.
func (m *SIDRREP) SetVendorID(v uint32) {
	binary.BigEndian.PutUint16(m[6:8], uint16(v>>8))
	m[11] = byte(v)
}

// SetQPN replaces the queue pair number with the low 24 bits of v.
func (m *SIDRREP) SetQPN(v uint32) { put24((*[3]byte)(m[8:11]), v) }

// SetServiceID replaces the service id.
func (m *SIDRREP) SetServiceID(v ServiceID) { binary.BigEndian.PutUint64(m[12:20], uint64(v)) }

// SetQKey replaces the Q_Key.
func (m *SIDRREP) SetQKey(v uint32) { binary.BigEndian.PutUint32(m[20:24], v) }

// SetInfo copies up to 72 bytes and their number, and clears the rest.
func (m *SIDRREP) SetInfo(b []byte) {
	m[5] = uint8(min(len(b), SIDRREPInfoLen))
	setPadded(m[24:96], b)
}

// SetPrivateData copies up to 136 bytes and clears the rest.
func (m *SIDRREP) SetPrivateData(b []byte) { setPadded(m[96:], b) }

// Fields takes all fields out; Info and PrivateData point into m.
func (m *SIDRREP) Fields() SIDRREPFields {
	return SIDRREPFields{
		RequestID: m.RequestID(), Status: m.Status(), VendorID: m.VendorID(), QPN: m.QPN(), ServiceID: m.ServiceID(),
		QKey: m.QKey(), Info: m.Info(), PrivateData: m.PrivateData(),
	}
}

// Encode writes the whole message. The slices of f may point into it.
func (m *SIDRREP) Encode(f *SIDRREPFields) {
	m.SetRequestID(f.RequestID)
	m.SetStatus(f.Status)
	m.SetVendorID(f.VendorID)
	m.SetQPN(f.QPN)
	m.SetServiceID(f.ServiceID)
	m.SetQKey(f.QKey)
	m.SetInfo(f.Info)
	m.SetPrivateData(f.PrivateData)
}
