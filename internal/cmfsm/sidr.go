package cmfsm

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// question names a SIDR_REQ: its id is unique for its sender only.
type question struct {
	from netip.Addr
	id   uint32
}

func (c *conn) question() question { return question{c.path.Remote, c.commID} }

func (m *Machine) sendSIDRREQ(now mono.Time, c *conn, p *ConnParam) {
	m.newMessage(c, c.tid, wire.AttrSIDRREQ)
	wire.SIDRREQAt(c.out.Data()).Encode(&wire.SIDRREQFields{
		RequestID: c.commID, PKey: wire.DefaultPKey, ServiceID: c.serviceID, PrivateData: c.cma(p.PrivateData),
	})
	c.interval = cmTime(m.cfg.ResponseTimeout)
	c.state = StateSIDRREQSent
	m.emit(&c.path, c.out)
	m.start(c, now.Add(c.interval))
}

// handleSIDRREQ makes an id of a question, for its listener's owner to answer.
func (m *Machine) handleSIDRREQ(from *Path, mad *wire.MAD, req *wire.SIDRREQ) {
	if old := m.questions[question{from.Remote, req.RequestID()}]; old != nil {
		same := old.peerTID == mad.TID() && old.serviceID == req.ServiceID()
		if same || old.state == StateSIDRREQRcvd {
			m.count(CounterDuplicates)
			if old.state == StateSIDRDone {
				m.emit(&old.path, old.out)
			}
			return
		}
		// The sender has begun anew with its ids.
		delete(m.questions, old.question())
		old.inQuestions = false
	}
	cma := wire.CMAAt(req.PrivateData())
	if !cma.Valid() {
		m.count(CounterBadMessage)
		return
	}
	l := m.listenerFor(req.ServiceID(), facing(from.Local, cma.Dst()))
	if l == nil || l.typ != ibv.QPTypeUD {
		m.count(CounterNoListener)
		m.refuseSIDR(from, mad, req, wire.SIDRUnsupported)
		return
	}
	c := m.enqueue(l)
	if c == nil {
		m.refuseSIDR(from, mad, req, wire.SIDRNoQP)
		return
	}
	c.passive = true
	c.state = StateSIDRREQRcvd
	_, port, _ := req.ServiceID().Split()
	c.local = netip.AddrPortFrom(facing(from.Local, cma.Dst()), port)
	c.remote = netip.AddrPortFrom(facing(from.Local, cma.Src()), cma.SrcPort())
	c.path = *replyTo(from)
	c.commID, c.peerTID, c.serviceID = req.RequestID(), mad.TID(), req.ServiceID()
	m.questions[c.question()] = c
	c.inQuestions = true
	m.report(c, Event{Type: EventConnectRequest, Listener: l.id, Param: ConnParam{
		PrivateData: bytes.Clone(req.PrivateData()[wire.CMALen:]),
	}})
}

func (m *Machine) refuseSIDR(from *Path, mad *wire.MAD, req *wire.SIDRREQ, why wire.SIDRStatus) {
	m.reply(from, mad, wire.AttrSIDRREP, func(data []byte) {
		wire.SIDRREPAt(data).Encode(&wire.SIDRREPFields{RequestID: req.RequestID(), Status: why, ServiceID: req.ServiceID()})
	})
}

func (m *Machine) acceptSIDR(c *conn, p *ConnParam) error {
	if p == nil || p.QPN == 0 || p.QPN > psn.Mask {
		return fmt.Errorf("%w: accepting a request takes the queue pair's number", ErrInvalid)
	}
	if err := checkPrivate(p.PrivateData, MaxSIDRREPPrivate); err != nil {
		return err
	}
	c.decided()
	c.qpn = p.QPN
	m.sendSIDRREP(c, &wire.SIDRREPFields{
		Status: wire.SIDRSuccess, QPN: p.QPN, QKey: or(p.QKey, DefaultQKey), PrivateData: p.PrivateData,
	})
	c.state = StateSIDRDone
	return nil
}

// sendSIDRREP answers, and keeps the answer.
func (m *Machine) sendSIDRREP(c *conn, f *wire.SIDRREPFields) {
	f.RequestID, f.ServiceID = c.commID, c.serviceID
	m.newMessage(c, c.peerTID, wire.AttrSIDRREP)
	wire.SIDRREPAt(c.out.Data()).Encode(f)
	m.emit(&c.path, c.out)
}

// handleSIDRREP takes the answer to our question.
func (m *Machine) handleSIDRREP(from *Path, rep *wire.SIDRREP) {
	c := m.comm[rep.RequestID()]
	switch {
	case c == nil:
		m.count(CounterUnknownID)
		return
	case !c.isPeer(from):
		m.count(CounterWrongPeer)
		return
	case c.state != StateSIDRREQSent:
		m.count(CounterWrongState)
		return
	}
	m.close(c)
	e := Event{Type: EventUnreachable, Status: int(rep.Status()), Param: ConnParam{PrivateData: bytes.Clone(rep.PrivateData())}}
	if rep.Status() == wire.SIDRSuccess {
		c.state = StateSIDRDone
		c.peerQPN = rep.QPN()
		e.Type = EventEstablished
		e.Param.QPN, e.Param.QKey = rep.QPN(), rep.QKey()
		e.AV = c.av()
	}
	m.report(c, e)
}
