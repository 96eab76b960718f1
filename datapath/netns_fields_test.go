package datapath_test

import (
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNetnsHeaderFields compares what address vectors say with the IP and UDP
// headers on the wire, of requests and acknowledgements, for connections and
// datagrams of both families.
func TestNetnsHeaderFields(t *testing.T) {
	conformance.Rule(t, "4.2-3", "4.2-4", "4.3-1", "4.3-2", "4.3-3", "4.3-4", "4.3-5")
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	for _, tt := range []struct {
		name  string
		typ   verbs.QPType
		av    verbs.AddressVector // all but the addresses
		label uint32              // on the wire, of IPv6
		port  uint16              // 0: that of the queue pair numbers
		hops  uint8
	}{
		{"RC, nothing set", verbs.RC, verbs.AddressVector{}, 0, 0, 64},
		{"RC, all set", verbs.RC, verbs.AddressVector{FlowLabel: 0x5BA59, TrafficClass: 0xB9, HopLimit: 3}, 0x5BA59, 0xFA4F, 3},
		{"UC, flow label", verbs.UC, verbs.AddressVector{FlowLabel: 0xFFFFF, HopLimit: 255}, 0xFFFFF, 0xFFC0, 255},
		{"RC, ECN alone", verbs.RC, verbs.AddressVector{TrafficClass: 2, HopLimit: 1}, 0, 0, 1},
		{"UD, nothing set", verbs.UD, verbs.AddressVector{}, 0, 0, 64},
		{"UD, all set", verbs.UD, verbs.AddressVector{FlowLabel: 1, TrafficClass: 0xFC, HopLimit: 7}, 1, 0xC001, 7},
	} {
		for _, family := range []struct {
			name     string
			from, to netip.Addr
		}{{"IPv4", hosts.A.IPv4, hosts.B.IPv4}, {"IPv6", hosts.A.IPv6, hosts.B.IPv6}} {
			t.Run(tt.name+", "+family.name, func(t *testing.T) {
				tap := netns.CaptureForTest(t, hosts.Bridge, hosts.Taps[0])
				p := &verbstest.Pair{A: looseEnd(t, tt.typ, a, family.from), B: looseEnd(t, tt.typ, b, family.to), MTU: verbs.MTU1024}
				direct(t, p.A, p.B, tt.av)
				direct(t, p.B, p.A, tt.av)
				if err := p.Send(1500/2, false); err != nil {
					t.Fatal(err)
				}
				want := wire.Packet{TOS: tt.av.TrafficClass, TTL: tt.hops, UDPSrcPort: tt.port, FlowLabel: tt.label}
				if family.from.Is4() {
					want.FlowLabel = 0
				}
				if want.UDPSrcPort == 0 {
					want.UDPSrcPort = wire.PortFromQPN(p.A.QP.Num())
					if tt.typ != verbs.UD {
						want.UDPSrcPort = wire.FlowLabelToPort(wire.FlowLabelFromQPNs(p.A.QP.Num(), p.B.QP.Num()))
					}
				}
				directions := 1
				if tt.typ == verbs.RC {
					directions = 2 // the acknowledgement
				}
				waitFor(t, "the frames", func() bool { return checkFields(t, tap, p, &want) >= directions })
			})
		}
	}
}

// checkFields compares the RoCE frames between two ends with want and counts them.
func checkFields(t *testing.T, c *netns.Capture, p *verbstest.Pair, want *wire.Packet) (n int) {
	t.Helper()
	for _, f := range c.Frames() {
		var got wire.Packet
		if got.ParseReadOnly(f.Data) != wire.Accept {
			continue
		}
		if to := got.Hdr().DestQP(); to != p.A.QP.Num() && to != p.B.QP.Num() {
			continue
		}
		n++
		if got.TOS != want.TOS || got.TTL != want.TTL || got.UDPSrcPort != want.UDPSrcPort || got.FlowLabel != want.FlowLabel {
			t.Fatalf("traffic class %#x, hop limit %d, port %#x, flow label %#x; want %#x, %d, %#x, %#x", got.TOS, got.TTL,
				got.UDPSrcPort, got.FlowLabel, want.TOS, want.TTL, want.UDPSrcPort, want.FlowLabel)
		}
		udp := wire.UDPAt(f.Data[wire.EthernetLen+len(got.IP):])
		if udp.Checksum() != 0 || got.VLAN != 0 || !got.IPv6 && got.IP[6] != 0x40 {
			t.Fatalf("UDP checksum %#x, VLAN %d, IP header % x", udp.Checksum(), got.VLAN, got.IP)
		}
	}
	return n
}

// looseEnd is an end with a queue pair in INIT.
func looseEnd(t *testing.T, typ verbs.QPType, dev *verbs.Context, at netip.Addr) *verbstest.End {
	t.Helper()
	pair, err := verbstest.NewPair(typ, dev, dev, verbstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	e := pair.A
	e.GID = gidOfAddr(t, dev, at)
	if err := e.QP.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := connect.ToInit(e.QP, connect.Path{QKey: e.QKey, Access: verbstest.All}); err != nil {
		t.Fatal(err)
	}
	return e
}

// direct brings e to RTS towards peer by an address vector.
func direct(t *testing.T, e, peer *verbstest.End, av verbs.AddressVector) {
	t.Helper()
	av.DGID, av.SGIDIndex, av.Port = peer.GID.GID, e.GID.Index, 1
	rtr, mask := verbs.QPAttr{State: verbs.QPStateRTR}, verbs.AttrState
	if typ := e.QP.Type(); typ == verbs.UD {
		if err := e.AH.Destroy(); err != nil {
			t.Fatal(err)
		}
		var err error
		if e.AH, err = e.PD.CreateAH(&av); err != nil {
			t.Fatal(err)
		}
	} else {
		rtr.AV, rtr.PathMTU, rtr.DestQPN, rtr.RQPSN = av, verbs.MTU1024, peer.QP.Num(), peer.PSN
		mask |= ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
		if typ == verbs.RC {
			rtr.MinRNRTimer = 12
			mask |= ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
		}
	}
	if err := e.QP.Modify(&rtr, mask); err != nil {
		t.Fatal(err)
	}
	if err := connect.ToRTS(e.QP, connect.Path{}, connect.Endpoint{PSN: e.PSN}); err != nil {
		t.Fatal(err)
	}
}
