package wire

import "encoding/binary"

// A management datagram is a UD SEND between two ports' QP1, ibv.GSIQPN.
const (
	MADLen       = 256 // every MAD, and so the payload of its packet
	MADHeaderLen = 24  // the common header
	MADDataLen   = 232 // what follows it
)

// What the common header of a connection manager's MAD says.
const (
	MADBaseVersion = 1
	MADClassCM     = 0x07 // management class: communication management
	CMClassVersion = 2
	MADMethodSend  = 0x03 // the only method of the class in use
)

// MAD is a management datagram with its common header (IBTA vol. 1, 13.4).
type MAD [MADLen]byte

// MADFields is what the common header says; its reserved field is zero.
type MADFields struct {
	BaseVersion   uint8
	Class         uint8
	ClassVersion  uint8
	Method        uint8 // bit 7 marks a response
	Status        uint16
	ClassSpecific uint16
	TID           uint64 // transaction id, chosen by who asks
	Attr          CMAttr
	AttrMod       uint32
}

// MADAt lays a MAD over the first 256 bytes of b.
func MADAt(b []byte) *MAD { return (*MAD)(b) }

// BaseVersion is the version of the header, 1.
func (m *MAD) BaseVersion() uint8 { return m[0] }

// Class is the management class, MADClassCM here.
func (m *MAD) Class() uint8 { return m[1] }

// ClassVersion is the version of the class, CMClassVersion here.
func (m *MAD) ClassVersion() uint8 { return m[2] }

// Method is what is asked; the connection manager only sends.
func (m *MAD) Method() uint8 { return m[3] }

// Status is zero but in answers of other classes.
func (m *MAD) Status() uint16 { return binary.BigEndian.Uint16(m[4:6]) }

// ClassSpecific is zero.
func (m *MAD) ClassSpecific() uint16 { return binary.BigEndian.Uint16(m[6:8]) }

// TID is the transaction id. Connections are told apart by communication
// ids, never by it.
func (m *MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:16]) }

// Attr says which message the data is.
func (m *MAD) Attr() CMAttr { return CMAttr(binary.BigEndian.Uint16(m[16:18])) }

// AttrMod is zero, or the vendor option of REQ, REP and SIDR_REP.
func (m *MAD) AttrMod() uint32 { return binary.BigEndian.Uint32(m[20:24]) }

// Data is the 232 bytes after the header.
func (m *MAD) Data() []byte { return m[MADHeaderLen:] }

// SetTID replaces the transaction id.
func (m *MAD) SetTID(v uint64) { binary.BigEndian.PutUint64(m[8:16], v) }

// SetAttr replaces the attribute id.
func (m *MAD) SetAttr(a CMAttr) { binary.BigEndian.PutUint16(m[16:18], uint16(a)) }

// SetAttrMod replaces the attribute modifier.
func (m *MAD) SetAttrMod(v uint32) { binary.BigEndian.PutUint32(m[20:24], v) }

// Fields takes all fields of the header out.
func (m *MAD) Fields() MADFields {
	return MADFields{
		BaseVersion: m.BaseVersion(), Class: m.Class(), ClassVersion: m.ClassVersion(), Method: m.Method(),
		Status: m.Status(), ClassSpecific: m.ClassSpecific(), TID: m.TID(), Attr: m.Attr(), AttrMod: m.AttrMod(),
	}
}

// Encode writes the whole header and leaves the data alone.
func (m *MAD) Encode(f *MADFields) {
	m[0], m[1], m[2], m[3] = f.BaseVersion, f.Class, f.ClassVersion, f.Method
	binary.BigEndian.PutUint16(m[4:6], f.Status)
	binary.BigEndian.PutUint16(m[6:8], f.ClassSpecific)
	m.SetTID(f.TID)
	m.SetAttr(f.Attr)
	binary.BigEndian.PutUint16(m[18:20], 0)
	m.SetAttrMod(f.AttrMod)
}

// EncodeCM writes the header of a connection manager's message.
func (m *MAD) EncodeCM(tid uint64, attr CMAttr) {
	m.Encode(&MADFields{
		BaseVersion: MADBaseVersion, Class: MADClassCM, ClassVersion: CMClassVersion,
		Method: MADMethodSend, TID: tid, Attr: attr,
	})
}
