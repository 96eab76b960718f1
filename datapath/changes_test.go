package datapath

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// postWrite posts a WRITE of n bytes from A to B of a connection.
func postWrite(t *testing.T, p *verbstest.Pair, id uint64, n int) {
	t.Helper()
	err := p.A.Post(verbs.SendWR{
		WRID: id, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) addresses(d *Device, addrs ...netip.Addr) {
	r.t.Helper()
	if err := d.setAddresses(addrs); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) mtu(d *Device, mtu int) {
	d.mu.Lock()
	link := d.link
	d.mu.Unlock()
	link.mtu = mtu
	d.setLink(link)
}

// TestAddressGone: from an address that is gone nothing is sent; a connection
// goes on if it comes back in time, and else fails as over a dead link.
func TestAddressGone(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{Timeout: 12}) // 17 ms, seven times
	if err := p.Write(100, false); err != nil {
		t.Fatal(err)
	}
	r.addresses(r.a)
	if e, err := r.a.NextEvent(context.Background()); err != nil || e.Type != ibv.EventGIDChange {
		t.Errorf("event %v, %v", e.Type, err)
	}
	sent := counterOf(t, r.a, "xsk_tx_frames")
	postWrite(t, p, 5, 100)
	waitFor(t, "the second try", func() bool { return counterOf(t, r.a, "tx_drop_no_address") >= 2 })
	if n := counterOf(t, r.a, "xsk_tx_frames"); n != sent {
		t.Errorf("%d frames from an address that is gone", n-sent)
	}
	r.addresses(r.a, addrA)
	if _, err := p.A.Done(5, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Every(1, 5000), p.Reverse().Every(1, 5000)); err != nil {
		t.Fatal(err)
	}
	r.addresses(r.a)
	postWrite(t, p, 6, 100)
	if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCRetryExceeded {
		t.Errorf("completion %+v, %v", wc, err)
	}
}

// TestAddressGoneDatagram: a datagram from an address that is gone is lost, and
// its address handle good again when the address is back.
func TestAddressGoneDatagram(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	r.addresses(r.a)
	if err := p.A.Post(p.Datagram(10)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(1, verbs.WCSend); err != nil {
		t.Fatal(err)
	}
	if lost, sent := counterOf(t, r.a, "tx_drop_no_address"), counterOf(t, r.a, "xsk_tx_frames"); lost != 1 || sent != 0 {
		t.Errorf("%d lost, %d sent", lost, sent)
	}
	r.addresses(r.a, addrA)
	if err := p.Every(0, 100); err != nil {
		t.Error(err)
	}
}

// TestPeerMovesHere: an address that another host had, and then this one, is
// reached at either, by connections and by address handles.
func TestPeerMovesHere(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	if err := p.Send(10, false); err != nil {
		t.Fatal(err)
	}
	here := verbstest.UDPair(t, r.ca, r.ca, verbstest.Options{})
	if err := here.B.Recv(9, 0, 200); err != nil {
		t.Fatal(err)
	}
	toHere := func() {
		t.Helper()
		wr := p.Datagram(10)
		wr.RemoteQPN = here.B.QP.Num()
		if err := p.A.Post(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := p.A.Done(1, verbs.WCSend); err != nil {
			t.Fatal(err)
		}
	}
	toHere() // to B, which does not know the queue pair
	waitFor(t, "drop_unknown_qpn", func() bool { return counterOf(t, r.b, "drop_unknown_qpn") == 1 })
	r.addresses(r.a, addrA, addrB)
	toHere()
	if _, err := here.B.Done(9, verbs.WCRecv); err != nil {
		t.Fatal(err)
	}
	r.addresses(r.a, addrA)
	toHere() // nobody has been asked yet who has it now
	if n := counterOf(t, r.a, "tx_drop_no_address"); n != 1 {
		t.Errorf("%d lost, want 1", n)
	}
	r.a.followRoutes()
	if err := p.Every(10); err != nil {
		t.Error(err)
	}
}

// TestMTULowered: packets that the link carries no more are not sent, shorter
// ones are, and all goes on when the link's MTU is what it was.
func TestMTULowered(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{Timeout: 14})
	self := verbstest.RCPair(t, r.ca, r.ca, verbstest.Options{})
	r.mtu(r.a, 1500)
	if err := p.Write(1000, false); err != nil {
		t.Fatalf("a short packet: %v", err)
	}
	postWrite(t, p, 5, 9000)
	waitFor(t, "tx_drop_too_long", func() bool { return counterOf(t, r.a, "tx_drop_too_long") >= 3 })
	if err := self.Write(9000, false); err != nil {
		t.Errorf("within the device: %v", err)
	}
	r.mtu(r.a, 9000)
	if _, err := p.A.Done(5, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
	r.mtu(r.a, 1500)
	for _, tt := range []struct {
		mtu  verbs.MTU
		want error
	}{{verbs.MTU1024, nil}, {verbs.MTU2048, ErrMTU}} {
		q, err := verbstest.NewRCPair(r.ca, r.cb, verbstest.Options{MTU: tt.mtu})
		if !errors.Is(err, tt.want) {
			t.Errorf("a new connection with %v bytes: %v", tt.mtu, err)
		}
		if err == nil {
			err = errors.Join(q.Write(5000, false), q.Close())
		}
		if tt.want == nil && err != nil {
			t.Error(err)
		}
	}
}

// TestRouteChanges: another next hop is followed by connections and address
// handles that are there already; one that does not answer is not.
func TestRouteChanges(t *testing.T) {
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	rc := r.pair(verbstest.Options{})
	ud := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	group := toGroup(t, ud, group4, 0)
	gateway, other := netip.MustParseAddr("192.0.2.253"), netip.MustParseAddr("192.0.2.254")
	mac := [6]byte{2, 7, 7, 7, 7, 7}
	send := func() {
		t.Helper()
		if err := errors.Join(rc.Write(10, false), ud.Send(10, false), cast(ud, group, 1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	send()
	if n := s.to(mac); n != 0 {
		t.Fatalf("%d frames to a stranger", n)
	}
	r.routes[0].set(gateway, mac)
	r.routes[0].via(addrB, gateway)
	r.a.followRoutes()
	before := s.to(macB)
	send()
	if n := s.to(mac); n < 2 || s.to(macB) != before {
		t.Errorf("%d frames to the gateway, %d still to the peer", n, s.to(macB)-before)
	}
	r.routes[0].via(addrB, other) // which does not answer
	r.a.followRoutes()
	before = s.to(mac)
	send()
	if n := s.to(mac) - before; n < 2 {
		t.Errorf("%d frames to the gateway that is there", n)
	}
	asked := r.routes[0].asked
	r.routes[0].via(addrB, gateway)
	r.a.followRoutes()
	if n := r.routes[0].asked - asked; n != 0 {
		t.Errorf("asked %d times for a next hop that is in use", n)
	}
	moved := [6]byte{2, 7, 7, 7, 7, 8}
	r.a.neighbourChanged(1, gateway, moved)
	send()
	if s.to(moved) < 2 {
		t.Error("the gateway's new link-layer address is not in use")
	}
}

// TestChangeWhileConnecting: what changes while the way to a peer is looked for
// is not missed, by a queue pair nor by an address handle.
func TestChangeWhileConnecting(t *testing.T) {
	r := newRig(t, rigOptions{})
	old, moved := [6]byte{2, 8, 8, 8, 8, 8}, [6]byte{2, 9, 9, 9, 9, 9}
	peer := netip.MustParseAddr("192.0.2.9")
	q := r.initQP()
	attr := rtrAttr()
	attr.AV.DGID = gidOf(peer)
	during := func() {
		r.routes[0].set(peer, moved)
		r.a.neighbourChanged(1, peer, moved)
	}
	r.routes[0].set(peer, old)
	r.routes[0].during = during
	if err := q.Modify(t.Context(), &attr, rtrMask); err != nil {
		t.Fatal(err)
	}
	if got := q.route.fields.DstMAC; got != moved {
		t.Errorf("the queue pair sends to %x", got)
	}
	r.routes[0].set(peer, old)
	r.routes[0].during = during
	pd := domain(t, r.a)
	h := handleOf(t, r.a, pd, attr.AV)
	if got := r.a.handles[h].route.fields.DstMAC; got != moved {
		t.Errorf("the handle leads to %x", got)
	}
}

// TestInterfaceGone: all that is posted is flushed, nothing can be begun, and the
// device closes.
func TestInterfaceGone(t *testing.T) {
	r := newRig(t, rigOptions{})
	rc := r.pair(verbstest.Options{})
	ud := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	idle := r.initQP()
	if err := errors.Join(rc.A.Recv(8, 0, 10), ud.A.Recv(9, 0, 100)); err != nil {
		t.Fatal(err)
	}
	link := r.a.link
	link.gone, link.running = true, false
	r.a.setLink(link)
	r.addresses(r.a)
	for _, want := range []ibv.EventType{ibv.EventDeviceFatal, ibv.EventGIDChange} {
		if e, err := r.a.NextEvent(context.Background()); err != nil || e.Type != want {
			t.Errorf("event %v, %v; want %v", e.Type, err, want)
		}
	}
	for _, e := range []*verbstest.End{rc.A, ud.A} {
		if wc, err := e.Next(); err != nil || wc.Status != verbs.WCFlushed {
			t.Errorf("completion %+v, %v", wc, err)
		}
		if attr, err := e.QP.Query(); err != nil || attr.State != verbs.QPStateErr {
			t.Errorf("state %v, %v", attr.State, err)
		}
	}
	postWrite(t, rc, 7, 10)
	if wc, err := rc.A.Next(); err != nil || wc.Status != verbs.WCFlushed || wc.WRID != 7 {
		t.Errorf("posted afterwards: %+v, %v", wc, err)
	}
	if s := idle.state; s != ibv.QPStateErr {
		t.Errorf("the queue pair in INIT is in %v", s)
	}
	if err := idle.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState); err != nil {
		t.Errorf("to RESET: %v", err)
	}
	if err := idle.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateInit, Port: 1}, initMask); !errors.Is(err, ErrInterface) {
		t.Errorf("to INIT: %v, want ErrInterface", err)
	}
	if port, err := r.ca.QueryPort(); err != nil || port.State != verbs.PortDown {
		t.Errorf("port %v, %v", port.State, err)
	}
}
