package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// datagramLen is the message of a datagram row; a receive has the GRH before it.
const datagramLen = 999

// ids is our side of a row of datagrams: rdma_cm's objects.
type ids struct {
	m   *meeting
	ch  *cm.EventChannel
	own *local
}

// withIDs runs f with a channel, and memory.
func (m *meeting) withIDs(f func(*ids) error) error {
	own, err := m.side()
	s := &ids{m: m, own: own, ch: cm.NewEventChannel(m.dev)}
	if err == nil {
		err = f(s)
	}
	own.qp = nil // it goes with its id
	return errors.Join(err, s.ch.Close(), own.close())
}

// next demands the next event.
func (s *ids) next(want cm.EventType) (*cm.Event, error) {
	ev, err := s.ch.Next(s.m.ctx)
	if err == nil && ev.Type != want {
		err = fmt.Errorf("our event is %w, want %v", eventError(ev), want)
	}
	return ev, err
}

// eventError is an event that was not wanted.
func eventError(ev *cm.Event) error {
	if ev.Err != nil {
		return fmt.Errorf("%v: %w", ev.Type, ev.Err)
	}
	return errors.New(ev.Type.String())
}

// queuePair makes the queue pair of an id.
func (s *ids) queuePair(id *cm.ID) error {
	err := id.CreateQP(s.own.pd, &verbs.QPInitAttr{SendCQ: s.own.cq, RecvCQ: s.own.cq, SigAll: true})
	s.own.qp = id.QP()
	return err
}

// ask asks the guest for the queue pair of a service.
func (s *ids) ask(private []byte) error {
	id, err := s.ch.CreateID(cm.PortSpaceUDP)
	if err != nil {
		return err
	}
	if err := id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(s.m.family.guest, s.m.port), eventTime); err != nil {
		return err
	}
	if _, err := s.next(cm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(eventTime); err != nil {
		return err
	}
	if _, err := s.next(cm.EventRouteResolved); err != nil {
		return err
	}
	if err := s.queuePair(id); err != nil {
		return err
	}
	return id.Connect(&cm.ConnParam{PrivateData: private})
}

// offer listens with a service.
func (s *ids) offer() error {
	id, err := s.ch.CreateID(cm.PortSpaceUDP)
	if err != nil {
		return err
	}
	return errors.Join(id.BindAddr(netip.AddrPortFrom(s.m.family.ours, s.m.port)), id.Listen(0))
}

// datagrams has one end ask for the other's queue pair, with all the private data that
// there is room for, and send it a message.
func datagrams(m *meeting) error {
	request, answer := withZeros("request", cm.MaxUDPrivate), withZeros("answer", cm.MaxUDAnswer)
	return m.withIDs(func(s *ids) error {
		if m.dial {
			return s.sendThere(request, answer)
		}
		return s.sendHere(request, answer)
	})
}

func (s *ids) sendThere(asking, answer []byte) error {
	g := s.m.guest
	if err := g.listen(s.m.family, s.m.port, portSpaceUDP); err != nil {
		return err
	}
	if err := s.ask(asking); err != nil {
		return err
	}
	asked, err := g.event("CONNECT_REQUEST")
	if err == nil {
		err = asked.carries("SIDR_REQ", asking, cm.MaxUDPrivate)
	}
	if err == nil {
		err = g.call("prepare", nil, 0, nil)
	}
	if err == nil {
		err = g.recv(1, target, verbs.GRHLen+datagramLen)
	}
	if err == nil {
		err = g.accept(offer{private: answer})
	}
	if err != nil {
		return err
	}
	ev, err := s.next(cm.EventEstablished)
	if err == nil {
		err = carries("SIDR_REP", ev.Param.PrivateData, answer, cm.MaxUDAnswer)
	}
	if err != nil {
		return err
	}
	ah, err := s.own.pd.CreateAH(&ev.AV)
	if err != nil {
		return err
	}
	if err := s.own.fill(source, datagramLen, "datagram"); err != nil {
		return err
	}
	err = s.own.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.OpSend, SGList: []verbs.SGE{s.own.mr.SGE(source, datagramLen)}, AH: ah, RemoteQPN: ev.Param.QPN, RemoteQKey: ev.Param.QKey,
	})
	if err == nil {
		err = s.arrives(s.own, g)
	}
	return errors.Join(err, ah.Destroy())
}

func (s *ids) sendHere(asked, answer []byte) error {
	g := s.m.guest
	if err := s.offer(); err != nil {
		return err
	}
	if err := g.request(s.m.family, s.m.port, portSpaceUDP, offer{private: asked}); err != nil {
		return err
	}
	ev, err := s.next(cm.EventConnectRequest)
	if err == nil {
		err = carries("SIDR_REQ", ev.Param.PrivateData, asked, cm.MaxUDPrivate)
	}
	if err == nil {
		err = s.queuePair(ev.ID)
	}
	if err == nil {
		err = s.own.recv(1, target, verbs.GRHLen+datagramLen)
	}
	if err == nil {
		err = ev.ID.Accept(&cm.ConnParam{PrivateData: answer})
	}
	if err != nil {
		return err
	}
	told, err := g.event("ESTABLISHED")
	if err == nil {
		err = told.carries("SIDR_REP", answer, cm.MaxUDAnswer)
	}
	if err == nil && (told.QPN != s.own.qp.Num() || told.QKey != cm.DefaultQKey) {
		err = fmt.Errorf("the guest is told of queue pair %#x with Q_Key %#x, want %#x and %#x", told.QPN, told.QKey, s.own.qp.Num(), cm.DefaultQKey)
	}
	if err == nil {
		err = g.fill(source, datagramLen, "datagram")
	}
	if err == nil { // the session knows the way
		err = g.post(request{Op: verbs.OpSend, Off: source, N: datagramLen})
	}
	if err != nil {
		return err
	}
	return s.arrives(g, s.own)
}

// arrives demands that a message is sent by one side and received by the other.
func (s *ids) arrives(from, to side) error {
	for _, x := range []struct {
		s      side
		opcode verbs.WCOpcode
	}{{from, verbs.WCSend}, {to, verbs.WCRecv}} {
		got, err := x.s.wait(1, eventTime)
		if err != nil {
			return err
		}
		if len(got) != 1 || got[0].Status != verbs.WCSuccess || got[0].Opcode != x.opcode {
			return fmt.Errorf("%s: %+v, want a %v", x.s.name(), got, x.opcode)
		}
		if x.opcode == verbs.WCRecv && got[0].Len != verbs.GRHLen+datagramLen {
			return fmt.Errorf("%s: received %d bytes with the GRH, want %d", x.s.name(), got[0].Len, verbs.GRHLen+datagramLen)
		}
	}
	sum, err := to.sum(target+verbs.GRHLen, datagramLen)
	if err == nil && sum != digest(data("datagram", datagramLen)) {
		err = fmt.Errorf("%s: another message has arrived", to.name())
	}
	return err
}

// Statuses of a SIDR_REP (IBTA vol. 1, 12.11.2).
const noService, rejected = 1, 2

// datagramsRefused asks where nobody listens, and then a program that says no.
func datagramsRefused(m *meeting) error {
	why := withZeros("no", cm.MaxUDAnswer)
	return m.withIDs(func(s *ids) error {
		for _, status := range []int{noService, rejected} {
			if err := s.refuse(status, why); err != nil {
				return fmt.Errorf("status %d: %w", status, err)
			}
		}
		return nil
	})
}

// refuse has one end refuse, with private data where the program does.
func (s *ids) refuse(status int, why []byte) error {
	m, g := s.m, s.m.guest
	if m.dial {
		if status == rejected {
			if err := g.listen(m.family, m.port, portSpaceUDP); err != nil {
				return err
			}
		}
		if err := s.ask(nil); err != nil {
			return err
		}
		if status == rejected {
			if _, err := g.event("CONNECT_REQUEST"); err != nil {
				return err
			}
			if err := g.reject(why); err != nil {
				return err
			}
		}
		ev, err := s.next(cm.EventUnreachable)
		if err == nil && (ev.Status != status || !errors.Is(ev.Err, cm.ErrRejected)) {
			err = fmt.Errorf("our status is %d: %w", ev.Status, ev.Err)
		}
		return err
	}
	if status == rejected {
		if err := s.offer(); err != nil {
			return err
		}
	} else {
		l, err := cm.Listen(m.dev, ":1", nil) // so that our connection manager is there
		if err != nil {
			return err
		}
		defer l.Close()
	}
	if err := g.request(m.family, m.port, portSpaceUDP, offer{}); err != nil {
		return err
	}
	if status == rejected {
		ev, err := s.next(cm.EventConnectRequest)
		if err != nil {
			return err
		}
		if err := ev.ID.Reject(why); err != nil {
			return err
		}
	}
	ev, err := g.event("UNREACHABLE")
	if err == nil && ev.Status != status {
		err = fmt.Errorf("the guest's status is %d", ev.Status)
	}
	return err
}
