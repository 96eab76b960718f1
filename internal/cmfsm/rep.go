package cmfsm

import (
	"bytes"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// handleREP takes the answer to our REQ.
func (m *Machine) handleREP(now mono.Time, from *Path, mad *wire.MAD, rep *wire.REP) {
	c := m.comm[rep.RemoteCommID()]
	switch {
	case c == nil:
		m.count(CounterUnknownID)
	case !c.isPeer(from):
		m.count(CounterWrongPeer)
	case c.state == StateREQSent || c.state == StateMRAREQRcvd:
		m.firstREP(now, c, from, mad, rep)
	case c.passive || c.peerCommID != rep.LocalCommID():
		m.count(CounterWrongPeer)
	default:
		m.repeatedREP(c)
	}
}

// firstREP takes everything out of a REP that this end needs, swapped.
func (m *Machine) firstREP(now mono.Time, c *conn, from *Path, mad *wire.MAD, rep *wire.REP) {
	guid := rep.LocalCAGUID()
	if rep.LocalCommID() == 0 || rep.LocalQPN() <= ibv.GSIQPN {
		m.count(CounterBadMessage)
		return
	}
	// The request goes on: the peer may have another answer.
	if m.peerComm[peerComm{from.Remote, guid, rep.LocalCommID()}] != nil {
		m.refuseREP(from, mad, rep, wire.RejDuplicateLocalCommID)
		return
	}
	if rep.LocalCommID() == c.refusedCommID {
		// The peer has heard that it is over, so a late copy must not revive it.
		m.count(CounterDuplicates)
		m.refuseREP(from, mad, rep, wire.RejStaleConn)
		return
	}
	if old := m.peerQPN[peerQPN{from.Remote, guid, rep.LocalQPN()}]; old != nil {
		m.count(CounterStale)
		c.refusedCommID = rep.LocalCommID()
		m.refuseREP(from, mad, rep, wire.RejStaleConn)
		m.dropStale(now, old)
		return
	}
	m.stop(c)
	c.out = nil
	m.setPeer(c, guid, rep.LocalCommID(), rep.LocalQPN())
	c.sqPSN = rep.StartingPSN()
	c.initiator = min(rep.ResponderResources(), m.cfg.MaxInitiatorDepth)
	c.responder = min(rep.InitiatorDepth(), m.cfg.MaxResponderResources)
	c.rnrRetryCount = rep.RNRRetryCount()
	c.ackTimeout = ackTimeoutOf(rep.TargetACKDelay(), c.packetLife)
	c.state = StateREPRcvd
	m.report(c, Event{Type: EventConnectResponse, Param: ConnParam{
		PrivateData:        bytes.Clone(rep.PrivateData()),
		ResponderResources: rep.InitiatorDepth(), InitiatorDepth: rep.ResponderResources(),
		FlowControl: rep.FlowControl(), RetryCount: c.retryCount, RNRRetryCount: rep.RNRRetryCount(), SRQ: rep.SRQ(),
		QPN: rep.LocalQPN(),
	}})
}

// repeatedREP answers a REP whose answer was lost, or is not there yet.
func (m *Machine) repeatedREP(c *conn) {
	switch c.state {
	case StateREPRcvd:
		m.count(CounterDuplicates)
		m.sendMRA(c, wire.CMMessageREP)
	case StateEstablished:
		m.count(CounterDuplicates)
		m.sendRTU(c)
	case StateIdle, StateListen, StateREQSent, StateMRAREQRcvd, StateREQRcvd, StateREPSent, StateMRAREPRcvd, StateDREQSent,
		StateDREQRcvd, StateTimewait, StateSIDRREQSent, StateSIDRREQRcvd, StateSIDRDone, StateClosed:
		m.count(CounterWrongState)
	}
}

// refuseREP answers a REP that cannot be ours.
func (m *Machine) refuseREP(from *Path, mad *wire.MAD, rep *wire.REP, why wire.RejReason) {
	m.reply(from, mad, wire.AttrREJ, func(data []byte) {
		wire.REJAt(data).Encode(&wire.REJFields{
			LocalCommID: rep.RemoteCommID(), RemoteCommID: rep.LocalCommID(), Message: wire.CMMessageREP, Reason: why,
		})
	})
}

// handleRTU is the end of a passive connection's wait.
func (m *Machine) handleRTU(from *Path, rtu *wire.RTU) {
	c := m.connection(from, rtu.RemoteCommID(), rtu.LocalCommID())
	if c == nil {
		return
	}
	switch {
	case c.state == StateREPSent || c.state == StateMRAREPRcvd:
		m.establish(c)
	case c.state == StateEstablished && c.passive:
		m.count(CounterDuplicates)
	default:
		m.count(CounterWrongState)
	}
}
