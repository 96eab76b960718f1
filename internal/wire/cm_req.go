package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// REQPrivateLen is the private data of a REQ, the CMA header included.
const REQPrivateLen = 92

// TransportType is the transport service type of a REQ, 2 bits.
type TransportType uint8

// Transport service types.
const (
	TransportRC       TransportType = 0
	TransportUC       TransportType = 1
	TransportRD       TransportType = 2
	TransportExtended TransportType = 3 // XRC
)

// REQ asks for a connection (IBTA vol. 1, chapter 12). The sender's numbers are
// "local", the receiver's "remote".
type REQ [MADDataLen]byte

// REQFields is what a REQ says; all reserved bits are zero.
type REQFields struct {
	LocalCommID           uint32
	VendorID              uint32 // 24 bits: OUI of the device that offers vendor options, or 0
	ServiceID             ServiceID
	LocalCAGUID           uint64
	LocalQKey             uint32
	LocalQPN              uint32 // 24 bits
	ResponderResources    uint8  // READs and atomics that the sender will serve at a time
	LocalEEC              uint32 // 24 bits
	InitiatorDepth        uint8  // READs and atomics that it wants to have outstanding
	RemoteEEC             uint32 // 24 bits
	RemoteResponseTimeout uint8  // 5 bits: 4.096 us * 2^n that the receiver may take to answer
	TransportType         TransportType
	FlowControl           bool
	StartingPSN           psn.PSN // of the receiver's first request
	LocalResponseTimeout  uint8   // 5 bits: 4.096 us * 2^n that the sender may take to answer
	RetryCount            uint8   // 3 bits
	PKey                  uint16
	PathMTU               ibv.MTU // 4 bits
	RDCExists             bool
	RNRRetryCount         uint8 // 3 bits
	MaxCMRetries          uint8 // 4 bits
	SRQ                   bool
	ExtendedTransport     uint8 // 3 bits: 1 for XRC when TransportType is extended
	Primary, Alternate    CMPathFields
	PrivateData           []byte // up to 92 bytes; what is missing is zero
}

// REQAt lays a REQ over the 232 bytes after a MAD header.
func REQAt(b []byte) *REQ { return (*REQ)(b) }

// LocalCommID is the sender's id of the connection.
func (m *REQ) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// VendorID is the OUI of a device with vendor options, 24 bits.
func (m *REQ) VendorID() uint32 { return get24((*[3]byte)(m[5:8])) }

// ServiceID says who is asked.
func (m *REQ) ServiceID() ServiceID { return ServiceID(binary.BigEndian.Uint64(m[8:16])) }

// LocalCAGUID names the sender's device.
func (m *REQ) LocalCAGUID() uint64 { return binary.BigEndian.Uint64(m[16:24]) }

// LocalQKey is 0 for connected queue pairs.
func (m *REQ) LocalQKey() uint32 { return binary.BigEndian.Uint32(m[28:32]) }

// LocalQPN is the sender's queue pair number, 24 bits.
func (m *REQ) LocalQPN() uint32 { return get24((*[3]byte)(m[32:35])) }

// ResponderResources is how many READs and atomics the sender serves at a time.
func (m *REQ) ResponderResources() uint8 { return m[35] }

// LocalEEC is the sender's end-to-end context, of RD only.
func (m *REQ) LocalEEC() uint32 { return get24((*[3]byte)(m[36:39])) }

// InitiatorDepth is how many READs and atomics the sender wants outstanding.
func (m *REQ) InitiatorDepth() uint8 { return m[39] }

// RemoteEEC is the receiver's end-to-end context, of RD only.
func (m *REQ) RemoteEEC() uint32 { return get24((*[3]byte)(m[40:43])) }

// RemoteResponseTimeout is the exponent of the time that the receiver may take.
func (m *REQ) RemoteResponseTimeout() uint8 { return m[43] >> 3 }

// TransportType is the type of the queue pairs.
func (m *REQ) TransportType() TransportType { return TransportType(m[43] >> 1 & 3) }

// FlowControl says whether the sender does end-to-end flow control.
func (m *REQ) FlowControl() bool { return m[43]&1 != 0 }

// StartingPSN is where the receiver of the REQ starts to send.
func (m *REQ) StartingPSN() psn.PSN { return psn.PSN(get24((*[3]byte)(m[44:47]))) }

// LocalResponseTimeout is the exponent of the time that the sender may take.
func (m *REQ) LocalResponseTimeout() uint8 { return m[47] >> 3 }

// RetryCount is the retry_cnt of both queue pairs, 0 to 7.
func (m *REQ) RetryCount() uint8 { return m[47] & 7 }

// PKey is the partition key.
func (m *REQ) PKey() uint16 { return binary.BigEndian.Uint16(m[48:50]) }

// PathMTU is the path MTU of both queue pairs; it may be no valid one.
func (m *REQ) PathMTU() ibv.MTU { return ibv.MTU(m[50] >> 4) }

// RDCExists is of RD only.
func (m *REQ) RDCExists() bool { return m[50]&8 != 0 }

// RNRRetryCount is the rnr_retry of the receiver's queue pair, 0 to 7.
func (m *REQ) RNRRetryCount() uint8 { return m[50] & 7 }

// MaxCMRetries is how often the connection manager repeats a message, 0 to 15.
func (m *REQ) MaxCMRetries() uint8 { return m[51] >> 4 }

// SRQ says whether the sender uses a shared receive queue.
func (m *REQ) SRQ() bool { return m[51]&8 != 0 }

// ExtendedTransport is 1 for XRC when TransportType is extended.
func (m *REQ) ExtendedTransport() uint8 { return m[51] & 7 }

// Primary is the path that is to be used.
func (m *REQ) Primary() *CMPath { return CMPathAt(m[52:96]) }

// Alternate is a second path; on RoCE there is none.
func (m *REQ) Alternate() *CMPath { return CMPathAt(m[96:140]) }

// HasAlternate says whether there is a second path.
func (m *REQ) HasAlternate() bool {
	alt := m.Alternate()
	return alt.LocalLID() != 0 || alt.LocalGID() != ibv.GID{}
}

// PrivateData is what comes with the REQ, a CMA header first.
func (m *REQ) PrivateData() []byte { return m[140:] }

// SetLocalCommID replaces the sender's id.
func (m *REQ) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetVendorID replaces the OUI with the low 24 bits of v.
func (m *REQ) SetVendorID(v uint32) { put24((*[3]byte)(m[5:8]), v) }

// SetServiceID replaces the service id.
func (m *REQ) SetServiceID(v ServiceID) { binary.BigEndian.PutUint64(m[8:16], uint64(v)) }

// SetLocalCAGUID replaces the device's name.
func (m *REQ) SetLocalCAGUID(v uint64) { binary.BigEndian.PutUint64(m[16:24], v) }

// SetLocalQKey replaces the Q_Key.
func (m *REQ) SetLocalQKey(v uint32) { binary.BigEndian.PutUint32(m[28:32], v) }

// SetLocalQPN replaces the queue pair number with the low 24 bits of v.
func (m *REQ) SetLocalQPN(v uint32) { put24((*[3]byte)(m[32:35]), v) }

// SetResponderResources replaces the responder resources.
func (m *REQ) SetResponderResources(v uint8) { m[35] = v }

// SetLocalEEC replaces the sender's context with the low 24 bits of v.
func (m *REQ) SetLocalEEC(v uint32) { put24((*[3]byte)(m[36:39]), v) }

// SetInitiatorDepth replaces the initiator depth.
func (m *REQ) SetInitiatorDepth(v uint8) { m[39] = v }

// SetRemoteEEC replaces the receiver's context with the low 24 bits of v.
func (m *REQ) SetRemoteEEC(v uint32) { put24((*[3]byte)(m[40:43]), v) }

// SetRemoteResponseTimeout replaces the exponent with the low 5 bits of v.
func (m *REQ) SetRemoteResponseTimeout(v uint8) { m[43] = m[43]&7 | v<<3 }

// SetTransportType replaces the type with the low 2 bits of v.
func (m *REQ) SetTransportType(v TransportType) { m[43] = m[43]&^6 | uint8(v&3)<<1 }

// SetFlowControl replaces the flow control bit.
func (m *REQ) SetFlowControl(v bool) { setBit(&m[43], 1, v) }

// SetStartingPSN replaces the PSN.
func (m *REQ) SetStartingPSN(v psn.PSN) { put24((*[3]byte)(m[44:47]), uint32(v)) }

// SetLocalResponseTimeout replaces the exponent with the low 5 bits of v.
func (m *REQ) SetLocalResponseTimeout(v uint8) { m[47] = m[47]&7 | v<<3 }

// SetRetryCount replaces the count with the low 3 bits of v.
func (m *REQ) SetRetryCount(v uint8) { m[47] = m[47]&^7 | v&7 }

// SetPKey replaces the partition key.
func (m *REQ) SetPKey(v uint16) { binary.BigEndian.PutUint16(m[48:50], v) }

// SetPathMTU replaces the MTU with the low 4 bits of v.
func (m *REQ) SetPathMTU(v ibv.MTU) { m[50] = m[50]&0x0F | uint8(v)<<4 }

// SetRDCExists replaces the RDC bit.
func (m *REQ) SetRDCExists(v bool) { setBit(&m[50], 8, v) }

// SetRNRRetryCount replaces the count with the low 3 bits of v.
func (m *REQ) SetRNRRetryCount(v uint8) { m[50] = m[50]&^7 | v&7 }

// SetMaxCMRetries replaces the count with the low 4 bits of v.
func (m *REQ) SetMaxCMRetries(v uint8) { m[51] = m[51]&0x0F | v<<4 }

// SetSRQ replaces the SRQ bit.
func (m *REQ) SetSRQ(v bool) { setBit(&m[51], 8, v) }

// SetExtendedTransport replaces the type with the low 3 bits of v.
func (m *REQ) SetExtendedTransport(v uint8) { m[51] = m[51]&^7 | v&7 }

// SetPrivateData copies up to 92 bytes and clears the rest.
func (m *REQ) SetPrivateData(b []byte) { setPadded(m[140:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *REQ) Fields() REQFields {
	return REQFields{
		LocalCommID: m.LocalCommID(), VendorID: m.VendorID(), ServiceID: m.ServiceID(), LocalCAGUID: m.LocalCAGUID(),
		LocalQKey: m.LocalQKey(), LocalQPN: m.LocalQPN(), ResponderResources: m.ResponderResources(), LocalEEC: m.LocalEEC(),
		InitiatorDepth: m.InitiatorDepth(), RemoteEEC: m.RemoteEEC(), RemoteResponseTimeout: m.RemoteResponseTimeout(),
		TransportType: m.TransportType(), FlowControl: m.FlowControl(), StartingPSN: m.StartingPSN(),
		LocalResponseTimeout: m.LocalResponseTimeout(), RetryCount: m.RetryCount(), PKey: m.PKey(), PathMTU: m.PathMTU(),
		RDCExists: m.RDCExists(), RNRRetryCount: m.RNRRetryCount(), MaxCMRetries: m.MaxCMRetries(), SRQ: m.SRQ(),
		ExtendedTransport: m.ExtendedTransport(), Primary: m.Primary().Fields(), Alternate: m.Alternate().Fields(),
		PrivateData: m.PrivateData(),
	}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *REQ) Encode(f *REQFields) {
	clear(m[:140])
	m.SetLocalCommID(f.LocalCommID)
	m.SetVendorID(f.VendorID)
	m.SetServiceID(f.ServiceID)
	m.SetLocalCAGUID(f.LocalCAGUID)
	m.SetLocalQKey(f.LocalQKey)
	m.SetLocalQPN(f.LocalQPN)
	m.SetResponderResources(f.ResponderResources)
	m.SetLocalEEC(f.LocalEEC)
	m.SetInitiatorDepth(f.InitiatorDepth)
	m.SetRemoteEEC(f.RemoteEEC)
	m.SetRemoteResponseTimeout(f.RemoteResponseTimeout)
	m.SetTransportType(f.TransportType)
	m.SetFlowControl(f.FlowControl)
	m.SetStartingPSN(f.StartingPSN)
	m.SetLocalResponseTimeout(f.LocalResponseTimeout)
	m.SetRetryCount(f.RetryCount)
	m.SetPKey(f.PKey)
	m.SetPathMTU(f.PathMTU)
	m.SetRDCExists(f.RDCExists)
	m.SetRNRRetryCount(f.RNRRetryCount)
	m.SetMaxCMRetries(f.MaxCMRetries)
	m.SetSRQ(f.SRQ)
	m.SetExtendedTransport(f.ExtendedTransport)
	m.Primary().Encode(&f.Primary)
	m.Alternate().Encode(&f.Alternate)
	m.SetPrivateData(f.PrivateData)
}

// setPadded copies as much of src as dst has room for, and clears what is
// left of dst.
func setPadded(dst, src []byte) { clear(dst[copy(dst, src):]) }
