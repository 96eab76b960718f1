package cm_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestUD resolves a service of datagrams, and uses what was learned.
func TestUD(t *testing.T) { datagrams(t, inMemory) }

func datagrams(t *testing.T, join link) {
	a, b, _ := stations(t, join, cm.PortSpaceUDP)
	client := a.routed(cm.PortSpaceUDP, "192.0.2.2:7471")
	a.qp(client)
	a.ok(client.Connect(&cm.ConnParam{PrivateData: counting(180)}))
	e := b.next(cm.EventConnectRequest)
	if !bytes.Equal(e.Param.PrivateData, counting(180)) {
		t.Errorf("request says %x", e.Param.PrivateData)
	}
	b.qp(e.ID)
	buf := make([]byte, 128)
	mr, err := b.pd.RegisterMemory(buf, verbs.AccessLocalWrite)
	b.ok(err)
	b.ok(e.ID.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 128)}}))
	b.ok(e.ID.Accept(&cm.ConnParam{PrivateData: counting(136)}))

	e = a.next(cm.EventEstablished)
	if e.Param.QKey != cm.DefaultQKey || !bytes.Equal(e.Param.PrivateData, counting(136)) {
		t.Errorf("answer %+v", e.Param)
	}
	a.datagram(client, e, "hello")
	b.received(buf, "hello")
	b.ok(mr.Deregister())

	rejected := a.routed(cm.PortSpaceUDP, "192.0.2.2:7471")
	a.ok(rejected.Connect(nil))
	b.ok(b.next(cm.EventConnectRequest).ID.Reject([]byte("no")))
	if e := a.next(cm.EventUnreachable); !errors.Is(e.Err, cm.ErrRejected) || e.Status != 2 || !bytes.HasPrefix(e.Param.PrivateData, []byte("no")) {
		t.Error(e)
	}
}

// datagram sends inline data to where an event leads.
func (s *station) datagram(id *cm.ID, e *cm.Event, text string) {
	s.t.Helper()
	ah, err := s.pd.CreateAH(&e.AV)
	s.ok(err)
	b := []byte(text)
	mr, err := s.pd.RegisterMemory(b, 0)
	s.ok(err)
	s.ok(id.QP().PostSend(&verbs.SendWR{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, len(b))},
		AH: ah, RemoteQPN: e.Param.QPN, RemoteQKey: e.Param.QKey,
	}))
	var wc [1]verbs.WC
	_, err = s.cq.Wait(within(s.t), wc[:])
	s.ok(errors.Join(err, wc[0].Err(), mr.Deregister(), ah.Destroy()))
}

func (s *station) received(buf []byte, text string) {
	s.t.Helper()
	var wc [1]verbs.WC
	_, err := s.cq.Wait(within(s.t), wc[:])
	s.ok(errors.Join(err, wc[0].Err()))
	if got := string(buf[verbs.GRHLen:wc[0].ByteLen]); got != text {
		s.t.Errorf("received %q, want %q", got, text)
	}
}

// TestMulticast sends to a group that both ends have joined.
func TestMulticast(t *testing.T) { groups(t, inMemory) }

func groups(t *testing.T, join link) {
	for _, group := range []string{"239.1.2.3", "ff05::1234"} {
		t.Run(group, func(t *testing.T) {
			da, db := join(t)
			a, b := newStation(t, da), newStation(t, db)
			addr := netip.MustParseAddr(group)
			sender, member := a.id(cm.PortSpaceUDP), b.id(cm.PortSpaceUDP)
			a.ok(sender.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(addr, 0), time.Minute))
			a.next(cm.EventAddrResolved)
			own := datapathtest.IPv4[1]
			if addr.Is6() {
				own = datapathtest.IPv6[1]
			}
			b.ok(member.BindAddr(netip.AddrPortFrom(own, 0)))
			a.qp(sender)
			b.qp(member)
			buf := make([]byte, 128)
			mr, err := b.pd.RegisterMemory(buf, verbs.AccessLocalWrite)
			b.ok(err)
			b.ok(member.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 128)}}))
			b.ok(member.JoinMulticast(addr))
			b.next(cm.EventMulticastJoin)
			if err := member.JoinMulticast(addr); !errors.Is(err, cm.ErrState) {
				t.Errorf("joined twice: %v", err)
			}
			a.ok(sender.JoinMulticast(addr))
			e := a.next(cm.EventMulticastJoin)
			if e.Param.QPN != verbs.MulticastQPN || e.Param.QKey != cm.DefaultQKey {
				t.Errorf("group %+v", e.Param)
			}
			a.ok(sender.LeaveMulticast(addr)) // one may send without being a member
			a.datagram(sender, e, "all of you")
			b.received(buf, "all of you")
			b.ok(errors.Join(member.LeaveMulticast(addr), mr.Deregister()))
			if err := member.LeaveMulticast(addr); !errors.Is(err, cm.ErrState) {
				t.Errorf("left twice: %v", err)
			}
		})
	}
}
