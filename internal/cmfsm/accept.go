package cmfsm

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Accept says yes: to a REQ with a REP, to a REP with an RTU (p may be nil
// then), to a SIDR_REQ with a SIDR_REP. The queue pair should be in RTS, so that it
// is ready for what the peer sends at once.
func (m *Machine) Accept(now mono.Time, id ID, p *ConnParam) error {
	c, err := m.find(id, StateREQRcvd, StateREPRcvd, StateSIDRREQRcvd)
	if err != nil {
		return err
	}
	switch c.state {
	case StateREPRcvd:
		c.state = StateEstablished
		m.sendRTU(c)
		m.report(c, Event{Type: EventEstablished})
		return nil
	case StateSIDRREQRcvd:
		return m.acceptSIDR(c, p)
	default:
		return m.acceptREQ(now, c, p)
	}
}

func (m *Machine) acceptREQ(now mono.Time, c *conn, p *ConnParam) error {
	if p == nil {
		return fmt.Errorf("%w: accepting a request takes the queue pair's number", ErrInvalid)
	}
	if err := m.checkParam(p); err != nil {
		return err
	}
	if err := checkPrivate(p.PrivateData, MaxREPPrivate); err != nil {
		return err
	}
	c.decided()
	c.qpn = p.QPN
	c.responder, c.initiator = m.negotiated(c, p)
	m.newMessage(c, c.peerTID, wire.AttrREP)
	wire.REPAt(c.out.Data()).Encode(&wire.REPFields{
		LocalCommID: c.commID, RemoteCommID: c.peerCommID, LocalQPN: c.qpn, StartingPSN: c.rqPSN,
		ResponderResources: c.responder, InitiatorDepth: c.initiator, TargetACKDelay: m.cfg.AckDelay,
		FlowControl: p.FlowControl, RNRRetryCount: min(p.RNRRetryCount, 7), SRQ: p.SRQ, LocalCAGUID: m.cfg.GUID,
		PrivateData: p.PrivateData,
	})
	c.state = StateREPSent
	m.emit(&c.path, c.out)
	m.start(c, now.Add(c.interval))
	return nil
}

// negotiated is what a passive connection serves and has outstanding when p is
// accepted. It asks the peer for no more than that offered, and may serve more
// than the peer wants.
func (m *Machine) negotiated(c *conn, p *ConnParam) (responder, initiator uint8) {
	responder = p.ResponderResources
	if responder == MaxResources {
		responder = c.responder
	}
	return responder, min(p.InitiatorDepth, c.initiator)
}

func (m *Machine) sendRTU(c *conn) {
	m.send(c, c.tid, wire.AttrRTU, func(data []byte) {
		wire.RTUAt(data).Encode(&wire.RTUFields{LocalCommID: c.commID, RemoteCommID: c.peerCommID})
	})
}

// Established says that the first packet of the peer has come on the queue pair
// of a passive connection, which is as good as the RTU (COMM_EST). Afterwards
// it changes nothing.
func (m *Machine) Established(id ID) error {
	c, err := m.find(id, StateREPSent, StateMRAREPRcvd, StateEstablished)
	if err != nil {
		return err
	}
	m.establish(c)
	return nil
}

// establish ends the wait for an RTU.
func (m *Machine) establish(c *conn) {
	if c.state == StateEstablished {
		return
	}
	m.stop(c)
	c.out = nil
	c.state = StateEstablished
	m.report(c, Event{Type: EventEstablished})
}

// Reject says no: to a REQ, a REP or a SIDR_REQ. A reason of 0 is
// wire.RejConsumer; of a UD id it is not transmitted.
func (m *Machine) Reject(id ID, why wire.RejReason, private []byte) error {
	c, err := m.find(id, StateREQRcvd, StateREPRcvd, StateSIDRREQRcvd)
	if err != nil {
		return err
	}
	room := MaxREJPrivate
	if c.typ == ibv.QPTypeUD {
		room = MaxSIDRREPPrivate
	}
	if err := checkPrivate(private, room); err != nil {
		return err
	}
	c.decided()
	if c.state == StateSIDRREQRcvd {
		m.sendSIDRREP(c, &wire.SIDRREPFields{Status: wire.SIDRRejected, PrivateData: private})
		m.close(c)
		return nil
	}
	about := wire.CMMessageREQ
	if c.state == StateREPRcvd {
		about = wire.CMMessageREP
	}
	why = or(why, wire.RejConsumer)
	m.sendREJ(c, about, why, nil, private)
	m.close(c)
	return nil
}

// sendREJ gives up c, as far as the peer can tell.
func (m *Machine) sendREJ(c *conn, about wire.CMMessage, why wire.RejReason, info, private []byte) {
	m.send(c, c.requestTID(), wire.AttrREJ, func(data []byte) {
		wire.REJAt(data).Encode(&wire.REJFields{
			LocalCommID: c.commID, RemoteCommID: c.peerCommID, Message: about, Reason: why, Info: info, PrivateData: private,
		})
	})
}
