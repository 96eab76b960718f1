package wire

import "strconv"

// CMAttr is the attribute id of a connection manager's MAD: which message it
// is (IBTA vol. 1, chapter 12).
type CMAttr uint16

// Messages of the connection manager.
const (
	AttrClassPortInfo CMAttr = 0x01
	AttrREQ           CMAttr = 0x10 // connection request
	AttrMRA           CMAttr = 0x11 // message receipt acknowledgement
	AttrREJ           CMAttr = 0x12 // reject
	AttrREP           CMAttr = 0x13 // reply
	AttrRTU           CMAttr = 0x14 // ready to use
	AttrDREQ          CMAttr = 0x15 // disconnection request
	AttrDREP          CMAttr = 0x16 // disconnection reply
	AttrSIDRREQ       CMAttr = 0x17 // service id resolution request
	AttrSIDRREP       CMAttr = 0x18 // service id resolution response
	AttrLAP           CMAttr = 0x19 // load alternate path
	AttrAPR           CMAttr = 0x1A // alternate path response
)

var cmAttrNames = map[CMAttr]string{
	AttrClassPortInfo: "ClassPortInfo", AttrREQ: "REQ", AttrMRA: "MRA", AttrREJ: "REJ", AttrREP: "REP", AttrRTU: "RTU",
	AttrDREQ: "DREQ", AttrDREP: "DREP", AttrSIDRREQ: "SIDR_REQ", AttrSIDRREP: "SIDR_REP", AttrLAP: "LAP", AttrAPR: "APR",
}

func (a CMAttr) String() string {
	if s, ok := cmAttrNames[a]; ok {
		return s
	}
	return "CM_ATTR(0x" + strconv.FormatUint(uint64(a), 16) + ")"
}

// CMMessage names the message that an MRA or a REJ is about, 2 bits.
type CMMessage uint8

// Messages that MRA and REJ are about.
const (
	CMMessageREQ   CMMessage = 0
	CMMessageREP   CMMessage = 1
	CMMessageOther CMMessage = 2 // in a REJ: none
	CMMessageLAP   CMMessage = 2 // in an MRA
)

// PortSpace is the space of rdma_cm's port numbers (rdma_port_space).
type PortSpace uint16

// Port spaces.
const (
	PortSpaceIPoIB PortSpace = 0x0002 // UD
	PortSpaceTCP   PortSpace = 0x0106 // RC
	PortSpaceUDP   PortSpace = 0x0111 // UD
	PortSpaceIB    PortSpace = 0x013F // any
)

func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPOIB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return "PORT_SPACE(0x" + strconv.FormatUint(uint64(p), 16) + ")"
}

// ServiceID names a port of a port space in REQ and SIDR_REQ (annex A11).
type ServiceID uint64

// ServiceIDOf is the service id of a port.
func ServiceIDOf(ps PortSpace, port uint16) ServiceID {
	return ServiceID(ps)<<16 | ServiceID(port)
}

// Split is the inverse of ServiceIDOf; ok is false when id is no port's.
func (id ServiceID) Split() (ps PortSpace, port uint16, ok bool) {
	return PortSpace(id >> 16), uint16(id), id>>32 == 0
}
