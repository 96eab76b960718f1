package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// inState is a world whose host b has an id in the given state, with the
// connection's ids, so that bytes can be about it.
func inState(t testing.TB, state State) (w *world, c *conn) {
	w = newWorld(t, 1)
	find := func(h *host) *conn {
		for id := ID(1); id <= h.lastID; id++ {
			if c := h.ids[id]; c != nil && c.state == state {
				return c
			}
		}
		w.fatal("%s has no id in %v", h.name, state)
		return nil
	}
	swap := func() { w.a, w.b = w.b, w.a }
	switch state {
	case StateIdle:
		w.create(w.b, wire.PortSpaceTCP)
	case StateListen:
		w.listen(wire.PortSpaceTCP, 2)
	case StateREQSent:
		w.connect(wire.PortSpaceTCP)
		w.a.NextMAD()
		swap()
	case StateMRAREQRcvd, StateREPRcvd, StateREQRcvd, StateREPSent, StateMRAREPRcvd:
		if state != StateREQRcvd && state != StateMRAREQRcvd {
			w.b.app = w.polite
		}
		w.listen(wire.PortSpaceTCP, 2)
		w.connect(wire.PortSpaceTCP)
		w.run(time.Millisecond)
		if state == StateMRAREQRcvd || state == StateMRAREPRcvd {
			w.run(5 * time.Second)
		}
		if state == StateMRAREQRcvd || state == StateREPRcvd {
			swap()
		}
	case StateEstablished, StateDREQSent, StateDREQRcvd, StateTimewait, StateClosed:
		a, b := established(w)
		if state == StateDREQSent {
			w.a.app = nil
			w.check(w.b.Disconnect(w.now, b))
			break
		}
		if state == StateEstablished {
			break
		}
		if state == StateDREQRcvd {
			w.b.app = nil
		}
		w.check(w.a.Disconnect(w.now, a))
		w.run(time.Millisecond)
		if state == StateClosed {
			w.run(time.Minute)
		}
	case StateSIDRREQSent:
		w.connect(wire.PortSpaceUDP)
		w.a.NextMAD()
		swap()
	case StateSIDRREQRcvd, StateSIDRDone:
		if state == StateSIDRDone {
			w.b.app = w.serve
		}
		w.listen(wire.PortSpaceUDP, 2)
		w.connect(wire.PortSpaceUDP)
		w.run(time.Millisecond)
	}
	w.a.app, w.b.app = nil, nil
	return w, find(w.b)
}

// every message of the class that fits the connection c of w.b.
func aimed(w *world, c *conn, attr wire.CMAttr) wire.MAD {
	var m wire.MAD
	m.EncodeCM(c.peerTID, attr)
	d := m.Data()
	switch attr {
	case wire.AttrREQ:
		other := newWorld(w.t, 3)
		other.a, other.b = newHost(w.t, "x", w.a.addr.String(), 3, Config{}), w.b
		req, _ := takeREQ(other)
		return *req
	case wire.AttrSIDRREQ:
		wire.SIDRREQAt(d).Encode(&wire.SIDRREQFields{
			RequestID: c.commID, ServiceID: wire.ServiceIDOf(wire.PortSpaceUDP, testPort), PrivateData: c.cma(nil),
		})
	case wire.AttrSIDRREP:
		wire.SIDRREPAt(d).Encode(&wire.SIDRREPFields{RequestID: c.commID, QPN: 9})
	case wire.AttrDREQ:
		wire.DREQAt(d).Encode(&wire.DREQFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, RemoteQPN: c.qpn})
	case wire.AttrREP:
		wire.REPAt(d).Encode(&wire.REPFields{LocalCommID: max(c.peerCommID, 1), RemoteCommID: c.commID, LocalQPN: 9})
	case wire.AttrREJ:
		wire.REJAt(d).Encode(&wire.REJFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, Message: wire.CMMessageOther, Reason: wire.RejConsumer})
	case wire.AttrMRA:
		about := wire.CMMessageREQ
		if c.passive {
			about = wire.CMMessageREP
		}
		wire.MRAAt(d).Encode(&wire.MRAFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID, Message: about, ServiceTimeout: 22})
	default:
		wire.RTUAt(d).Encode(&wire.RTUFields{LocalCommID: c.peerCommID, RemoteCommID: c.commID})
	}
	return m
}

// counted is the sum of what is counted besides the messages received.
func counted(h *host) (sum uint64) {
	for _, n := range h.counters[CounterTxREQ:] {
		sum += n
	}
	return sum
}

// The table of what each message leads to in each state, as far as it changes
// the state.
func TestEveryMessageInEveryState(t *testing.T) {
	type to = map[wire.CMAttr]State
	for state, want := range map[State]to{
		StateIdle:        {},
		StateListen:      {},
		StateREQSent:     {wire.AttrMRA: StateMRAREQRcvd, wire.AttrREP: StateREPRcvd, wire.AttrREJ: StateClosed},
		StateMRAREQRcvd:  {wire.AttrREP: StateREPRcvd, wire.AttrREJ: StateClosed},
		StateREPRcvd:     {wire.AttrREJ: StateTimewait, wire.AttrDREQ: StateDREQRcvd},
		StateREQRcvd:     {wire.AttrREJ: StateClosed},
		StateREPSent:     {wire.AttrMRA: StateMRAREPRcvd, wire.AttrRTU: StateEstablished, wire.AttrREJ: StateClosed, wire.AttrDREQ: StateDREQRcvd},
		StateMRAREPRcvd:  {wire.AttrRTU: StateEstablished, wire.AttrREJ: StateClosed, wire.AttrDREQ: StateDREQRcvd},
		StateEstablished: {wire.AttrREQ: StateDREQSent, wire.AttrREJ: StateTimewait, wire.AttrDREQ: StateDREQRcvd},
		StateDREQSent:    {wire.AttrREJ: StateTimewait, wire.AttrDREQ: StateTimewait, wire.AttrDREP: StateTimewait},
		StateDREQRcvd:    {},
		StateTimewait:    {},
		StateClosed:      {},
		StateSIDRREQSent: {wire.AttrSIDRREP: StateSIDRDone},
		StateSIDRREQRcvd: {},
		StateSIDRDone:    {},
	} {
		for attr := wire.AttrREQ; attr <= wire.AttrAPR; attr++ {
			w, c := inState(t, state)
			m := aimed(w, c, attr)
			before, deadline := counted(w.b), w.b.NextDeadline()
			w.b.Handle(w.now, &Path{Local: w.b.addr, Remote: w.a.addr}, m[:])
			// Nothing goes without leaving a trace.
			if counted(w.b) == before && w.b.Machine.events.len() == 0 && w.b.NextDeadline() == deadline {
				w.fatal("%v in %v is lost without a trace", attr, state)
			}
			next, changes := want[attr]
			if !changes {
				next = state
			}
			if c.state != next {
				w.fatal("%v in %v leads to %v, want %v", attr, state, c.state, next)
			}
		}
	}
}

// FuzzHandle gives a machine in each state any two MADs from its peer, which may
// name its ids and are else of any bytes; it must not panic, stay within its
// limits, and be empty when all is destroyed and enough time has passed.
func FuzzHandle(f *testing.F) {
	for state := range numStates {
		w, c := inState(f, state)
		for attr := wire.AttrREQ; attr <= wire.AttrAPR; attr++ {
			m := aimed(w, c, attr)
			f.Add(uint8(state), uint8(attr), m[8:], uint8(wire.AttrRTU), m[24:])
		}
	}
	f.Fuzz(func(t *testing.T, state, attr1 uint8, data1 []byte, attr2 uint8, data2 []byte) {
		w, c := inState(t, State(state)%numStates)
		from := &Path{Local: w.b.addr, Remote: w.a.addr, HopLimit: 64}
		for i, data := range [][]byte{data1, data2} {
			var m wire.MAD
			copy(m[:], data)
			// The ids of the connection get the message past its door.
			m.EncodeCM(c.peerTID, wire.AttrREQ+wire.CMAttr([]uint8{attr1, attr2}[i]%11))
			if attr1&0x80 != 0 && m.Attr() != wire.AttrREQ && m.Attr() != wire.AttrSIDRREQ {
				rtu := wire.RTUAt(m.Data())
				rtu.SetLocalCommID(c.peerCommID)
				rtu.SetRemoteCommID(c.commID)
			}
			w.b.Handle(w.now, from, m[:])
			if w.b.mads.len() > 8 || w.b.Len() > 4 {
				t.Fatalf("%d MADs wait, %d ids", w.b.mads.len(), w.b.Len())
			}
		}
		w.b.Handle(w.now, from, data1)
		w.fate = func(int, *MAD) []time.Duration { return nil }
		w.run(24 * time.Hour)
		w.b.dropOwner(w.now, 1)
		w.run(24 * time.Hour)
		w.checkEmpty(w.b, 0)
	})
}
