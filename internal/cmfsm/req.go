package cmfsm

import (
	"bytes"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// handleREQ makes a connection of a request, for its listener's owner to
// decide on. A request that is refused leaves nothing behind.
func (m *Machine) handleREQ(now mono.Time, from *Path, mad *wire.MAD, req *wire.REQ) {
	if req.LocalCommID() == 0 {
		m.count(CounterBadMessage)
		return
	}
	guid := req.LocalCAGUID()
	if c := m.peerComm[peerComm{from.Remote, guid, req.LocalCommID()}]; c != nil {
		same := c.passive && c.peerTID == mad.TID() && c.peerQPN == req.LocalQPN() && c.serviceID == req.ServiceID()
		switch {
		case same && c.isPeer(from):
			m.repeatedREQ(c)
			return
		case c.state != StateTimewait:
			m.refuse(from, mad, req, wire.RejDuplicateLocalCommID, nil)
			return
		}
		m.forgetPeerComm(c)
	}
	if c := m.peerQPN[peerQPN{from.Remote, guid, req.LocalQPN()}]; c != nil {
		m.count(CounterStale)
		m.refuse(from, mad, req, wire.RejStaleConn, nil)
		m.dropStale(now, c)
		return
	}
	l := m.listenerOf(from, mad, req)
	if l == nil {
		return
	}
	c := m.enqueue(l)
	if c == nil {
		m.refuse(from, mad, req, wire.RejNoResources, nil)
		return
	}
	m.accepted(c, from, mad, req)
}

// listenerOf checks everything in a new request and finds who is asked; nil
// when that has been answered.
func (m *Machine) listenerOf(from *Path, mad *wire.MAD, req *wire.REQ) *conn {
	cma := wire.CMAAt(req.PrivateData())
	dst := from.Local
	if cma.Valid() {
		dst = facing(from.Local, cma.Dst())
	}
	l := m.listenerFor(req.ServiceID(), dst)
	local := ibv.GIDOf(from.Local)
	path := req.Primary()
	switch {
	case l == nil:
		m.count(CounterNoListener)
		m.refuse(from, mad, req, wire.RejInvalidServiceID, nil)
	case !cma.Valid():
		// Nobody can be told whom this would connect; rdma_cm drops it, too.
		m.count(CounterBadMessage)
	case transportOf(req) != l.typ:
		m.refuse(from, mad, req, wire.RejInvalidTransportType, nil)
	case path.RemoteGID() != local || path.LocalGID() != ibv.GIDOf(from.Remote):
		// A path that the packet did not take could not be answered on.
		m.refuse(from, mad, req, wire.RejInvalidGID, local[:])
	case !req.PathMTU().Valid() || req.PathMTU() > m.cfg.MTU:
		m.refuse(from, mad, req, wire.RejInvalidMTU, nil)
	case req.LocalQPN() <= ibv.GSIQPN:
		// QP0 and QP1 have no connections.
		m.refuse(from, mad, req, wire.RejUnsupported, nil)
	default:
		return l
	}
	return nil
}

// transportOf is the type of queue pair that a REQ wants, 0 for one that we do
// not have.
func transportOf(req *wire.REQ) ibv.QPType {
	switch req.TransportType() {
	case wire.TransportRC:
		return ibv.QPTypeRC
	case wire.TransportUC:
		return ibv.QPTypeUC
	case wire.TransportRD, wire.TransportExtended:
	}
	return 0
}

// accepted fills in c from its REQ, with everything that swaps sides swapped
// (IBTA vol. 1, 12.7), and reports it.
func (m *Machine) accepted(c *conn, from *Path, mad *wire.MAD, req *wire.REQ) {
	cma, path := wire.CMAAt(req.PrivateData()), req.Primary()
	_, port, _ := req.ServiceID().Split()
	c.passive = true
	c.state = StateREQRcvd
	c.local = netip.AddrPortFrom(facing(from.Local, cma.Dst()), port)
	c.remote = netip.AddrPortFrom(facing(from.Local, cma.Src()), cma.SrcPort())
	c.path = *replyTo(from)
	c.path.TrafficClass = path.TrafficClass()
	c.path.SL = path.SL() & 7
	c.flowLabel = path.FlowLabel()
	if from.Local.Is6() {
		c.path.FlowLabel = c.flowLabel
	}
	c.hopLimit = DefaultHopLimit
	c.serviceID = req.ServiceID()
	c.mtu = req.PathMTU()
	c.ackTimeout = path.LocalACKTimeout()
	c.sqPSN, c.rqPSN = req.StartingPSN(), m.newPSN()
	c.responder = min(req.InitiatorDepth(), m.cfg.MaxResponderResources)
	c.initiator = min(req.ResponderResources(), m.cfg.MaxInitiatorDepth)
	c.retryCount, c.rnrRetryCount = req.RetryCount(), req.RNRRetryCount()
	c.peerTID = mad.TID()
	c.interval = cmTime(req.LocalResponseTimeout())
	c.tries, c.maxTries = req.MaxCMRetries(), req.MaxCMRetries()
	m.newCommID(c)
	m.setPeer(c, req.LocalCAGUID(), req.LocalCommID(), req.LocalQPN())
	m.report(c, Event{Type: EventConnectRequest, Listener: c.listener.id, Param: ConnParam{
		PrivateData:        bytes.Clone(req.PrivateData()[wire.CMALen:]),
		ResponderResources: req.InitiatorDepth(), InitiatorDepth: req.ResponderResources(),
		FlowControl: req.FlowControl(), RetryCount: req.RetryCount(), RNRRetryCount: req.RNRRetryCount(), SRQ: req.SRQ(),
		QPN: req.LocalQPN(),
	}})
}

// repeatedREQ answers a request that has come before. After Accept the REP is
// repeated anyway.
func (m *Machine) repeatedREQ(c *conn) {
	m.count(CounterDuplicates)
	if c.state == StateREQRcvd {
		m.sendMRA(c, wire.CMMessageREQ)
	}
}

// refuse answers a REQ for which no id was made.
func (m *Machine) refuse(from *Path, mad *wire.MAD, req *wire.REQ, why wire.RejReason, info []byte) {
	m.reply(from, mad, wire.AttrREJ, func(data []byte) {
		wire.REJAt(data).Encode(&wire.REJFields{RemoteCommID: req.LocalCommID(), Message: wire.CMMessageREQ, Reason: why, Info: info})
	})
}
