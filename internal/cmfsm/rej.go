package cmfsm

import (
	"bytes"
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// rejected finds the connection that a REJ is about. The sender of a REJ for
// a REQ may have made no id, and that of one for a timeout (4) may not know
// ours: it says the GUID of its device instead.
func (m *Machine) rejected(from *Path, rej *wire.REJ) *conn {
	c := m.comm[rej.RemoteCommID()]
	if rej.Reason() == wire.RejTimeout && rej.RemoteCommID() == 0 && len(rej.Info()) >= 8 {
		c = m.peerComm[peerComm{from.Remote, binary.BigEndian.Uint64(rej.Info()), rej.LocalCommID()}]
	}
	if c == nil {
		m.count(CounterUnknownID)
		return nil
	}
	if !c.isPeer(from) || c.peerCommID != 0 && c.peerCommID != rej.LocalCommID() {
		m.count(CounterWrongPeer)
		return nil
	}
	return c
}

// handleREJ ends a connection that is being made, or that there is.
func (m *Machine) handleREJ(now mono.Time, from *Path, rej *wire.REJ) {
	c := m.rejected(from, rej)
	if c == nil {
		return
	}
	switch c.state {
	case StateREQSent, StateMRAREQRcvd, StateREQRcvd, StateREPSent, StateMRAREPRcvd:
		// The peer's queue pair is still that of an old connection: ours should
		// rest as long as the old one's packets live.
		if rej.Reason() == wire.RejStaleConn {
			m.timewait(now, c)
		} else {
			m.close(c)
		}
	case StateREPRcvd, StateEstablished, StateDREQSent:
		m.timewait(now, c)
	case StateIdle, StateListen, StateDREQRcvd, StateTimewait, StateSIDRREQSent, StateSIDRREQRcvd, StateSIDRDone, StateClosed:
		m.count(CounterWrongState)
		return
	}
	m.report(c, Event{Type: EventRejected, Status: int(rej.Reason()), Param: ConnParam{PrivateData: bytes.Clone(rej.PrivateData())}})
}
