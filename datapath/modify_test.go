package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const (
	initMask = ibv.QPAttrState | ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
	rtrMask  = ibv.QPAttrState | ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN |
		ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
)

// initQP is a queue pair of device a in INIT.
func (r *rig) initQP() *qp {
	r.t.Helper()
	p, err := r.a.CreateQP(initOf(r.t.(*testing.T), r.a))
	if err == nil {
		err = p.Modify(r.t.Context(), &ibv.QPAttr{State: ibv.QPStateInit, Port: 1}, initMask)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return p.(*qp)
}

func rtrAttr() ibv.QPAttr {
	return ibv.QPAttr{
		State: ibv.QPStateRTR, PathMTU: ibv.MTU1024, DestQPN: 0x123456, MaxDestRDAtomic: 1, MinRNRTimer: 1,
		AV: ibv.AddressVector{DGID: gidOf(addrB), Port: 1},
	}
}

func TestModifyToRTR(t *testing.T) {
	conformance.Rule(t, "8.4-5")
	for _, tt := range []struct {
		name   string
		mtu    int
		change func(*ibv.QPAttr)
		want   error // nil: it works
		says   string
	}{
		{"right", 1500, func(*ibv.QPAttr) {}, nil, ""},
		{"path MTU beyond the link's", 1500, func(a *ibv.QPAttr) { a.PathMTU = ibv.MTU2048 }, ErrMTU,
			"whose MTU of 1500 carries 1024: use that, or set the MTU to 2128"},
		{"no such path MTU", 1500, func(a *ibv.QPAttr) { a.PathMTU = 9 }, transport.ErrAttrValue, "PATH_MTU"},
		{"GID index of nothing", 1500, func(a *ibv.QPAttr) { a.AV.SGIDIndex = 3 }, ErrNoGID, "index 3 on mem0, which has 0: 192.0.2.1"},
		{"GID index below zero", 1500, func(a *ibv.QPAttr) { a.AV.SGIDIndex = -1 }, ErrNoGID, "index -1"},
		{"IPv6 peer of an IPv4 address", 1500, func(a *ibv.QPAttr) { a.AV.DGID = gidOf(netip.MustParseAddr("fd00::2")) }, ErrInvalid,
			"different families"},
		{"no peer", 1500, func(a *ibv.QPAttr) { a.AV.DGID = ibv.GID{} }, ErrInvalid, "not the address of a peer"},
		{"a group", 1500, func(a *ibv.QPAttr) { a.AV.DGID = gidOf(netip.MustParseAddr("224.0.0.1")) }, ErrInvalid, "not the address of a peer"},
		{"a peer that does not answer", 1500, func(a *ibv.QPAttr) { a.AV.DGID = gidOf(netip.MustParseAddr("192.0.2.9")) }, ErrNoNeighbour, "192.0.2.9"},
		{"a transition that cannot be", 1500, func(a *ibv.QPAttr) { a.State = ibv.QPStateRTS }, transport.ErrTransition, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{mtu: tt.mtu})
			q := r.initQP()
			attr := rtrAttr()
			tt.change(&attr)
			err := q.Modify(t.Context(), &attr, rtrMask)
			if !errors.Is(err, tt.want) || tt.want != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v: %q", err, tt.want, tt.says)
			}
			got, err := q.Query()
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]ibv.QPState{true: ibv.QPStateRTR, false: ibv.QPStateInit}[tt.want == nil]; got.State != want {
				t.Errorf("state %v, want %v", got.State, want)
			}
		})
	}
}

// TestModifyAsksLate: a transition that cannot be is refused without asking the
// network for the peer.
func TestModifyAsksLate(t *testing.T) {
	r := newRig(t, rigOptions{})
	q := r.initQP()
	attr := rtrAttr()
	if err := q.Modify(t.Context(), &attr, rtrMask&^ibv.QPAttrDestQPN); !errors.Is(err, transport.ErrAttrMask) {
		t.Errorf("error %v", err)
	}
	if r.routes[0].asked != 0 {
		t.Errorf("asked %d times", r.routes[0].asked)
	}
}

// seen are headers of frames that crossed the rig.
type seen struct {
	mu   sync.Mutex
	last map[[6]byte]wire.Packet // by source MAC
	n    map[[6]byte]int         // by destination MAC
}

func (s *seen) hook(frame []byte) xsktest.Action {
	var p wire.Packet
	if p.Parse(frame) != wire.Accept {
		return xsktest.Deliver
	}
	p.BTH, p.IP = nil, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[p.SrcMAC] = p
	s.n[p.DstMAC]++
	return xsktest.Deliver
}

func newSeen() *seen { return &seen{last: map[[6]byte]wire.Packet{}, n: map[[6]byte]int{}} }

func (s *seen) from(mac [6]byte) wire.Packet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[mac]
}

func (s *seen) to(mac [6]byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[mac]
}

func TestPathFields(t *testing.T) {
	conformance.Rule(t, "4.2-3")
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	p := r.pair(verbstest.Options{})
	if err := p.Write(10, false); err != nil {
		t.Fatal(err)
	}
	got := s.from(macA)
	port := wire.FlowLabelToPort(wire.FlowLabelFromQPNs(p.A.QP.Num(), p.B.QP.Num()))
	if got.DstMAC != macB || got.SrcGID != gidOf(addrA) || got.DstGID != gidOf(addrB) || got.TTL != 64 || got.UDPSrcPort != port || got.VLAN != 0 {
		t.Errorf("frames of A: %+v, want port %d", got, port)
	}
	if back := s.from(macB); back.UDPSrcPort != port {
		t.Errorf("the peer sends from port %d, not from %d", back.UDPSrcPort, port)
	}
}

func TestAddressVectorFields(t *testing.T) {
	conformance.Rule(t, "4.2-3", "4.3-1", "4.3-3", "4.3-4")
	r := newRig(t, rigOptions{})
	six := netip.MustParseAddr("fd00::1")
	if err := r.a.setAddresses([]netip.Addr{addrA, six}); err != nil {
		t.Fatal(err)
	}
	peer := netip.MustParseAddr("fd00::2")
	r.routes[0].set(peer, macB)
	q := r.initQP()
	attr := rtrAttr()
	attr.AV = ibv.AddressVector{DGID: gidOf(peer), SGIDIndex: 1, FlowLabel: 0x5BA59, HopLimit: 3, TrafficClass: 0x2a, Port: 1}
	if err := q.Modify(t.Context(), &attr, rtrMask); err != nil {
		t.Fatal(err)
	}
	f := q.route.fields
	if f.FlowLabel != 0x5BA59 || f.UDPSrcPort != 0xFA4F || f.TTL != 3 || f.TOS != 0x2a || f.SrcGID != gidOf(six) || f.DstMAC != macB {
		t.Errorf("%+v", f)
	}
}

// TestNeighbourMoves: when the next hop's link-layer address changes, frames go
// to the new one.
func TestNeighbourMoves(t *testing.T) {
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	p := r.pair(verbstest.Options{})
	moved := [6]byte{2, 9, 9, 9, 9, 9}
	r.a.neighbourChanged(1, netip.MustParseAddr("192.0.2.77"), moved) // somebody else
	if err := p.Write(10, false); err != nil {
		t.Fatal(err)
	}
	if n := s.to(moved); n != 0 {
		t.Fatalf("%d frames to a stranger", n)
	}
	r.a.neighbourChanged(1, addrB, moved)
	if err := p.Write(10, false); err != nil {
		t.Fatal(err)
	}
	if s.to(moved) == 0 {
		t.Error("no frame to the new address")
	}
}

// TestOwnAddressMoves: frames carry the interface's new link-layer address, and
// loop-back goes on.
func TestOwnAddressMoves(t *testing.T) {
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	p := r.pair(verbstest.Options{})
	self := verbstest.RCPair(t, r.ca, r.ca, verbstest.Options{})
	link := r.a.link
	link.mac = [6]byte{2, 1, 1, 1, 1, 1}
	r.a.setLink(link)
	if err := errors.Join(p.Write(10, false), self.Write(10, false)); err != nil {
		t.Fatal(err)
	}
	if got := s.from(link.mac); got.DstGID != gidOf(addrB) {
		t.Errorf("no frames from %x", link.mac)
	}
}
