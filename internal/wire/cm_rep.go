package wire

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
)

// REPPrivateLen is the private data of a REP.
const REPPrivateLen = 196

// REP accepts a REQ (IBTA vol. 1, chapter 12).
type REP [MADDataLen]byte

// REPFields is what a REP says; all reserved bits are zero.
type REPFields struct {
	LocalCommID, RemoteCommID uint32
	LocalQKey                 uint32
	LocalQPN                  uint32  // 24 bits
	VendorID                  uint32  // 24 bits
	LocalEEC                  uint32  // 24 bits; an XRC target's QPN
	StartingPSN               psn.PSN // of the receiver's first request
	ResponderResources        uint8   // READs and atomics that the sender serves at a time
	InitiatorDepth            uint8   // READs and atomics that it will have outstanding
	TargetACKDelay            uint8   // 5 bits: 4.096 us * 2^n
	Failover                  uint8   // 2 bits: what became of the alternate path
	FlowControl               bool
	RNRRetryCount             uint8 // 3 bits: rnr_retry of the receiver's queue pair
	SRQ                       bool
	LocalCAGUID               uint64
	PrivateData               []byte // up to 196 bytes; what is missing is zero
}

// REPAt lays a REP over the 232 bytes after a MAD header.
func REPAt(b []byte) *REP { return (*REP)(b) }

// LocalCommID is the sender's id of the connection.
func (m *REP) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[0:4]) }

// RemoteCommID is the receiver's id of the connection.
func (m *REP) RemoteCommID() uint32 { return binary.BigEndian.Uint32(m[4:8]) }

// LocalQKey is 0 for connected queue pairs.
func (m *REP) LocalQKey() uint32 { return binary.BigEndian.Uint32(m[8:12]) }

// LocalQPN is the sender's queue pair number, 24 bits.
func (m *REP) LocalQPN() uint32 { return get24((*[3]byte)(m[12:15])) }

// VendorID is the OUI of a device with vendor options, 24 bits, which the
// message has in three pieces.
func (m *REP) VendorID() uint32 { return uint32(m[15])<<16 | uint32(m[19])<<8 | uint32(m[23]) }

// LocalEEC is the queue pair number of an XRC target.
func (m *REP) LocalEEC() uint32 { return get24((*[3]byte)(m[16:19])) }

// StartingPSN is where the receiver of the REP starts to send.
func (m *REP) StartingPSN() psn.PSN { return psn.PSN(get24((*[3]byte)(m[20:23]))) }

// ResponderResources is how many READs and atomics the sender serves at a time.
func (m *REP) ResponderResources() uint8 { return m[24] }

// InitiatorDepth is how many READs and atomics the sender has outstanding.
func (m *REP) InitiatorDepth() uint8 { return m[25] }

// TargetACKDelay is the exponent of the time that the sender's device takes to
// acknowledge, 0 to 31.
func (m *REP) TargetACKDelay() uint8 { return m[26] >> 3 }

// Failover says what became of the alternate path, 2 bits.
func (m *REP) Failover() uint8 { return m[26] >> 1 & 3 }

// FlowControl says whether the sender does end-to-end flow control.
func (m *REP) FlowControl() bool { return m[26]&1 != 0 }

// RNRRetryCount is the rnr_retry of the receiver's queue pair, 0 to 7.
func (m *REP) RNRRetryCount() uint8 { return m[27] >> 5 }

// SRQ says whether the sender uses a shared receive queue.
func (m *REP) SRQ() bool { return m[27]&0x10 != 0 }

// LocalCAGUID names the sender's device.
func (m *REP) LocalCAGUID() uint64 { return binary.BigEndian.Uint64(m[28:36]) }

// PrivateData is what comes with the REP.
func (m *REP) PrivateData() []byte { return m[36:] }

// SetLocalCommID replaces the sender's id.
func (m *REP) SetLocalCommID(v uint32) { binary.BigEndian.PutUint32(m[0:4], v) }

// SetRemoteCommID replaces the receiver's id.
func (m *REP) SetRemoteCommID(v uint32) { binary.BigEndian.PutUint32(m[4:8], v) }

// SetLocalQKey replaces the Q_Key.
func (m *REP) SetLocalQKey(v uint32) { binary.BigEndian.PutUint32(m[8:12], v) }

// SetLocalQPN replaces the queue pair number with the low 24 bits of v.
func (m *REP) SetLocalQPN(v uint32) { put24((*[3]byte)(m[12:15]), v) }

// SetVendorID replaces the OUI with the low 24 bits of v.
func (m *REP) SetVendorID(v uint32) { m[15], m[19], m[23] = byte(v>>16), byte(v>>8), byte(v) }

// SetLocalEEC replaces the target's queue pair number with the low 24 bits of v.
func (m *REP) SetLocalEEC(v uint32) { put24((*[3]byte)(m[16:19]), v) }

// SetStartingPSN replaces the PSN.
func (m *REP) SetStartingPSN(v psn.PSN) { put24((*[3]byte)(m[20:23]), uint32(v)) }

// SetResponderResources replaces the responder resources.
func (m *REP) SetResponderResources(v uint8) { m[24] = v }

// SetInitiatorDepth replaces the initiator depth.
func (m *REP) SetInitiatorDepth(v uint8) { m[25] = v }

// SetTargetACKDelay replaces the exponent with the low 5 bits of v.
func (m *REP) SetTargetACKDelay(v uint8) { m[26] = m[26]&7 | v<<3 }

// SetFailover replaces the answer about the alternate path with the low 2 bits of v.
func (m *REP) SetFailover(v uint8) { m[26] = m[26]&^6 | v&3<<1 }

// SetFlowControl replaces the flow control bit.
func (m *REP) SetFlowControl(v bool) { setBit(&m[26], 1, v) }

// SetRNRRetryCount replaces the count with the low 3 bits of v.
func (m *REP) SetRNRRetryCount(v uint8) { m[27] = m[27]&0x1F | v<<5 }

// SetSRQ replaces the SRQ bit.
func (m *REP) SetSRQ(v bool) { setBit(&m[27], 0x10, v) }

// SetLocalCAGUID replaces the device's name.
func (m *REP) SetLocalCAGUID(v uint64) { binary.BigEndian.PutUint64(m[28:36], v) }

// SetPrivateData copies up to 196 bytes and clears the rest.
func (m *REP) SetPrivateData(b []byte) { setPadded(m[36:], b) }

// Fields takes all fields out; PrivateData points into m.
func (m *REP) Fields() REPFields {
	return REPFields{
		LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), LocalQKey: m.LocalQKey(), LocalQPN: m.LocalQPN(),
		VendorID: m.VendorID(), LocalEEC: m.LocalEEC(), StartingPSN: m.StartingPSN(), ResponderResources: m.ResponderResources(),
		InitiatorDepth: m.InitiatorDepth(), TargetACKDelay: m.TargetACKDelay(), Failover: m.Failover(), FlowControl: m.FlowControl(),
		RNRRetryCount: m.RNRRetryCount(), SRQ: m.SRQ(), LocalCAGUID: m.LocalCAGUID(), PrivateData: m.PrivateData(),
	}
}

// Encode writes the whole message. f.PrivateData may point into it.
func (m *REP) Encode(f *REPFields) {
	clear(m[:36])
	m.SetLocalCommID(f.LocalCommID)
	m.SetRemoteCommID(f.RemoteCommID)
	m.SetLocalQKey(f.LocalQKey)
	m.SetLocalQPN(f.LocalQPN)
	m.SetVendorID(f.VendorID)
	m.SetLocalEEC(f.LocalEEC)
	m.SetStartingPSN(f.StartingPSN)
	m.SetResponderResources(f.ResponderResources)
	m.SetInitiatorDepth(f.InitiatorDepth)
	m.SetTargetACKDelay(f.TargetACKDelay)
	m.SetFailover(f.Failover)
	m.SetFlowControl(f.FlowControl)
	m.SetRNRRetryCount(f.RNRRetryCount)
	m.SetSRQ(f.SRQ)
	m.SetLocalCAGUID(f.LocalCAGUID)
	m.SetPrivateData(f.PrivateData)
}
