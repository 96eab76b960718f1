package cmfsm

import (
	"encoding/binary"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Destroy ends an id in whatever state it is, and tells the peer.
func (m *Machine) Destroy(now mono.Time, id ID) error {
	c, err := m.find(id)
	if err != nil {
		return err
	}
	m.destroy(now, c)
	return nil
}

// Owned are the ids of an owner, oldest first: who has many to destroy and others to
// serve does it in parts.
func (m *Machine) Owned(owner Owner) []ID {
	var all []ID
	for id, c := range m.ids {
		if c.owner == owner {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

func (m *Machine) destroy(now mono.Time, c *conn) {
	delete(m.ids, c.id)
	c.destroyed = true
	c.decided()
	m.unbind(c)
	switch c.state {
	case StateListen:
		m.destroyRequests(now, c)
	case StateREQSent, StateMRAREQRcvd:
		var guid [8]byte
		binary.BigEndian.PutUint64(guid[:], m.cfg.GUID)
		m.sendREJ(c, wire.CMMessageOther, wire.RejTimeout, guid[:], nil)
	case StateREQRcvd:
		m.sendREJ(c, wire.CMMessageREQ, wire.RejConsumer, nil, nil)
	case StateREPRcvd:
		m.sendREJ(c, wire.CMMessageREP, wire.RejConsumer, nil, nil)
	case StateREPSent, StateMRAREPRcvd:
		// The peer may already send on the queue pair.
		m.sendREJ(c, wire.CMMessageOther, wire.RejConsumer, nil, nil)
		m.timewait(now, c)
		return
	case StateEstablished:
		m.sendDREQ(now, c)
		m.hold(c)
		return
	case StateDREQSent:
		m.hold(c)
		return
	case StateDREQRcvd:
		m.sendDREP(c, c.dreqTID)
		m.timewait(now, c)
		return
	case StateTimewait:
		return
	case StateSIDRREQRcvd:
		m.sendSIDRREP(c, &wire.SIDRREPFields{Status: wire.SIDRRejected})
	case StateIdle, StateSIDRREQSent, StateSIDRDone, StateClosed:
		// Nobody waits for anything.
	}
	m.close(c)
}

// destroyRequests refuses what came to a listener and nobody has seen. What the
// application has seen is its own.
func (m *Machine) destroyRequests(now mono.Time, l *conn) {
	for _, c := range slices.Clone(l.pending) {
		if !c.delivered {
			m.destroy(now, c)
			continue
		}
		c.listener = nil
	}
	l.pending = nil
}
