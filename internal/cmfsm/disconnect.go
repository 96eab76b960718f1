package cmfsm

import (
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Disconnect ends a connection, or agrees to its end. The queue pair should be
// in ERR. While the end is on its way, and in TIMEWAIT, it changes nothing.
func (m *Machine) Disconnect(now mono.Time, id ID) error {
	c, err := m.find(id, StateEstablished, StateDREQRcvd, StateDREQSent, StateTimewait)
	if err != nil {
		return err
	}
	switch c.state {
	case StateEstablished:
		m.sendDREQ(now, c)
	case StateDREQRcvd:
		m.sendDREP(c, c.dreqTID)
		m.timewait(now, c)
	default:
	}
	return nil
}

func (m *Machine) sendDREQ(now mono.Time, c *conn) {
	m.newMessage(c, c.tid, wire.AttrDREQ)
	wire.DREQAt(c.out.Data()).Encode(&wire.DREQFields{LocalCommID: c.commID, RemoteCommID: c.peerCommID, RemoteQPN: c.peerQPN})
	c.tries = c.maxTries
	c.state = StateDREQSent
	m.emit(&c.path, c.out)
	m.start(c, now.Add(c.interval))
}

func (m *Machine) sendDREP(c *conn, tid uint64) {
	m.send(c, tid, wire.AttrDREP, func(data []byte) {
		wire.DREPAt(data).Encode(&wire.DREPFields{LocalCommID: c.commID, RemoteCommID: c.peerCommID})
	})
}

// timewait lets c rest for as long as its packets may be on their way (IBTA
// vol. 1, 12.9.8.4). The peer may connect its queue pair anew meanwhile; a copy of
// the old REQ is still known for what it is.
func (m *Machine) timewait(now mono.Time, c *conn) {
	m.forgetPeerQPN(c)
	c.out = nil
	c.state = StateTimewait
	m.hold(c)
	m.start(c, now.Add(cmTime(c.timeout())))
}

// timeout is the exponent of the queue pair's timeout.
func (c *conn) timeout() uint8 { return or(c.opt.AckTimeout, c.ackTimeout) }

// handleDREQ is the peer's wish to disconnect.
func (m *Machine) handleDREQ(now mono.Time, from *Path, mad *wire.MAD, dreq *wire.DREQ) {
	c := m.comm[dreq.RemoteCommID()]
	if c == nil || c.peerCommID != dreq.LocalCommID() {
		// It has ended here already, and the DREP was lost.
		m.count(CounterUnknownID)
		m.reply(from, mad, wire.AttrDREP, func(data []byte) {
			wire.DREPAt(data).Encode(&wire.DREPFields{LocalCommID: dreq.RemoteCommID(), RemoteCommID: dreq.LocalCommID()})
		})
		return
	}
	if !c.isPeer(from) || c.qpn != dreq.RemoteQPN() {
		m.count(CounterWrongPeer)
		return
	}
	switch c.state {
	case StateEstablished, StateREPSent, StateMRAREPRcvd, StateREPRcvd:
		m.stop(c)
		c.out = nil
		c.state, c.dreqTID = StateDREQRcvd, mad.TID()
		m.report(c, Event{Type: EventDisconnected})
	case StateDREQSent:
		// The application has said already what it would be asked.
		m.sendDREP(c, mad.TID())
		m.timewait(now, c)
		m.report(c, Event{Type: EventDisconnected})
	case StateTimewait:
		m.count(CounterDuplicates)
		m.sendDREP(c, mad.TID())
	case StateDREQRcvd:
		m.count(CounterDuplicates)
	case StateIdle, StateListen, StateREQSent, StateMRAREQRcvd, StateREQRcvd, StateSIDRREQSent, StateSIDRREQRcvd,
		StateSIDRDone, StateClosed:
		m.count(CounterWrongState)
	}
}

// handleDREP is the peer's consent.
func (m *Machine) handleDREP(now mono.Time, from *Path, drep *wire.DREP) {
	c := m.connection(from, drep.RemoteCommID(), drep.LocalCommID())
	if c == nil {
		return
	}
	if c.state != StateDREQSent {
		m.count(CounterWrongState)
		return
	}
	m.timewait(now, c)
	m.report(c, Event{Type: EventDisconnected})
}

// dropStale ends a connection whose peer has shown that it no longer has it, by
// using the queue pair for another.
func (m *Machine) dropStale(now mono.Time, c *conn) {
	if c.state == StateEstablished {
		m.sendDREQ(now, c)
	}
}
