package cmfsm

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Handle takes the payload of a packet to QP1. That its P_Key and Q_Key are
// right, its destination is ours and its source can be reached through this
// device is checked by the caller. What is malformed or fits nothing is counted
// and dropped: the connection manager's class knows no answer that says so.
func (m *Machine) Handle(now mono.Time, path *Path, payload []byte) {
	p := *path
	p.Local = ibv.PlainAddr(p.Local)
	p.Remote = facing(p.Local, p.Remote)
	from := &p
	if len(payload) != wire.MADLen {
		m.count(CounterBadLength)
		return
	}
	mad := wire.MADAt(payload)
	if mad.BaseVersion() != wire.MADBaseVersion || mad.Class() != wire.MADClassCM ||
		mad.ClassVersion() != wire.CMClassVersion || mad.Method() != wire.MADMethodSend {
		m.count(CounterBadHeader)
		return
	}
	attr := mad.Attr()
	if attr < wire.AttrREQ || attr > wire.AttrAPR {
		m.count(CounterBadAttr)
		return
	}
	if !unicast(from.Local) || !unicast(from.Remote) || from.Local.Is4() != from.Remote.Is4() {
		m.count(CounterBadAddress)
		return
	}
	m.countRx(attr)
	data := mad.Data()
	switch attr {
	case wire.AttrREQ:
		m.handleREQ(now, from, mad, wire.REQAt(data))
	case wire.AttrMRA:
		m.handleMRA(now, from, wire.MRAAt(data))
	case wire.AttrREJ:
		m.handleREJ(now, from, wire.REJAt(data))
	case wire.AttrREP:
		m.handleREP(now, from, mad, wire.REPAt(data))
	case wire.AttrRTU:
		m.handleRTU(from, wire.RTUAt(data))
	case wire.AttrDREQ:
		m.handleDREQ(now, from, mad, wire.DREQAt(data))
	case wire.AttrDREP:
		m.handleDREP(now, from, wire.DREPAt(data))
	case wire.AttrSIDRREQ:
		m.handleSIDRREQ(from, mad, wire.SIDRREQAt(data))
	case wire.AttrSIDRREP:
		m.handleSIDRREP(from, wire.SIDRREPAt(data))
	case wire.AttrLAP:
		m.handleLAP(from, mad, wire.LAPAt(data))
	case wire.AttrAPR, wire.AttrClassPortInfo:
		// We send no LAP, so nobody answers one.
		m.count(CounterWrongState)
	}
}

// connection finds the connection that a message names by both ids and that
// goes between the addresses of its packet.
func (m *Machine) connection(from *Path, ours, theirs uint32) *conn {
	c := m.comm[ours]
	if c == nil || c.peerCommID != theirs || theirs == 0 {
		m.count(CounterUnknownID)
		return nil
	}
	if !c.isPeer(from) {
		m.count(CounterWrongPeer)
		return nil
	}
	return c
}

func (c *conn) isPeer(from *Path) bool {
	return c.path.Local == from.Local && c.path.Remote == from.Remote
}

// replyTo is the path back to the sender of a packet. Its marks of congestion are
// not ours to send.
func replyTo(from *Path) *Path {
	p := *from
	p.TrafficClass &^= 3
	p.HopLimit = DefaultHopLimit
	return &p
}

// send makes a message about c that is not repeated.
func (m *Machine) send(c *conn, tid uint64, attr wire.CMAttr, encode func(data []byte)) {
	var mad wire.MAD
	mad.EncodeCM(tid, attr)
	encode(mad.Data())
	m.emit(&c.path, &mad)
}

// reply answers a message that belongs to no connection.
func (m *Machine) reply(from *Path, to *wire.MAD, attr wire.CMAttr, encode func(data []byte)) {
	var mad wire.MAD
	mad.EncodeCM(to.TID(), attr)
	encode(mad.Data())
	m.emit(replyTo(from), &mad)
}

func (m *Machine) sendMRA(c *conn, about wire.CMMessage) {
	m.send(c, c.requestTID(), wire.AttrMRA, func(data []byte) {
		wire.MRAAt(data).Encode(&wire.MRAFields{
			LocalCommID: c.commID, RemoteCommID: c.peerCommID, Message: about, ServiceTimeout: serviceTimeout,
		})
	})
}

// requestTID is the transaction id of the REQ, which MRA, REJ, REP and RTU have
// too: the peer's on the passive side, ours on the active.
func (c *conn) requestTID() uint64 {
	if c.passive {
		return c.peerTID
	}
	return c.tid
}

// handleMRA gives the peer the time that it asks for.
func (m *Machine) handleMRA(now mono.Time, from *Path, mra *wire.MRA) {
	c := m.comm[mra.RemoteCommID()]
	if c == nil {
		m.count(CounterUnknownID)
		return
	}
	if !c.isPeer(from) || c.peerCommID != 0 && c.peerCommID != mra.LocalCommID() {
		m.count(CounterWrongPeer)
		return
	}
	switch {
	case mra.Message() == wire.CMMessageREQ && (c.state == StateREQSent || c.state == StateMRAREQRcvd):
		c.state = StateMRAREQRcvd
	case mra.Message() == wire.CMMessageREP && (c.state == StateREPSent || c.state == StateMRAREPRcvd):
		c.state = StateMRAREPRcvd
	default:
		m.count(CounterWrongState)
		return
	}
	m.start(c, now.Add(cmTime(mra.ServiceTimeout())+cmTime(c.ackTimeout)))
}

// handleLAP says that there are no alternate paths.
func (m *Machine) handleLAP(from *Path, mad *wire.MAD, lap *wire.LAP) {
	c := m.connection(from, lap.RemoteCommID(), lap.LocalCommID())
	if c == nil {
		return
	}
	if c.state != StateEstablished {
		m.count(CounterWrongState)
		return
	}
	m.send(c, mad.TID(), wire.AttrAPR, func(data []byte) {
		wire.APRAt(data).Encode(&wire.APRFields{LocalCommID: c.commID, RemoteCommID: c.peerCommID, Status: wire.APUnsupported})
	})
}
