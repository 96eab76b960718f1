package datapath

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

const upperIndex = 77 // of a VLAN interface on top

var macUpper = [6]byte{2, 0, 0, 0, 0, 0xc}

// inVLAN gives both devices of a rig a second address, in a VLAN: index 1.
func (r *rig) inVLAN(vlan uint16) (a, b netip.Addr) {
	r.t.Helper()
	a, b = netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	err := errors.Join(
		r.a.setOwn([]ownAddr{{place: place{addrA, 1, 0}}, {place{a, upperIndex, vlan}, macUpper}}),
		r.b.setOwn([]ownAddr{{place: place{addrB, 2, 0}}, {place: place{b, upperIndex, vlan}}}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.routes[0].set(b, macB)
	r.routes[1].set(a, macUpper)
	return a, b
}

var ofSecond = verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{1, 1}}

// TestVLANTraffic: frames between addresses in a VLAN have its tag and those of
// the device itself none, and the GID table says what is where.
func TestVLANTraffic(t *testing.T) {
	var c captured
	r := newRig(t, rigOptions{hook: c.hook, queues: 2, crossed: true})
	a, b := r.inVLAN(5)
	tagged, plain := verbstest.RCPair(t, r.ca, r.cb, ofSecond), r.pair(verbstest.Options{})
	ud := verbstest.UDPair(t, r.ca, r.cb, ofSecond)
	if err := errors.Join(tagged.Every(1, 9000), plain.Every(1, 9000), ud.Every(0, 100), ud.Reverse().Every(0, 100)); err != nil {
		t.Fatal(err)
	}
	for _, frame := range c.take() {
		var p wire.Packet
		if reason := p.Parse(frame); reason != wire.Accept {
			t.Fatal(reason)
		}
		from, vlan, mac := addrOf(p.SrcGID), uint16(0), map[netip.Addr][6]byte{addrA: macA, addrB: macB, a: macUpper, b: macB}
		if from == a || from == b {
			vlan = 5
		}
		if p.VLAN != vlan || p.SrcMAC != mac[from] {
			t.Fatalf("a frame of %v has VLAN %d and comes from %x", from, p.VLAN, p.SrcMAC)
		}
	}
	list, err := r.ca.GIDs()
	if err != nil || len(list) != 2 || list[0].VLAN != 0 || list[0].IfIndex != 1 || list[1].VLAN != 5 || list[1].IfIndex != upperIndex {
		t.Errorf("GIDs %+v, %v", list, err)
	}
	if n := counterOf(t, r.b, "drop_vlan"); n != 0 {
		t.Errorf("%d frames had a wrong tag", n)
	}
	self := verbstest.RCPair(t, r.ca, r.ca, verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{0, 1}})
	if err := errors.Join(self.Every(1, 9000), self.Reverse().Every(1, 9000)); err != nil {
		t.Errorf("between two VLANs of one device: %v", err)
	}
}

// TestVLANPriority: the service level is the priority of the tag.
func TestVLANPriority(t *testing.T) {
	var c captured
	r := newRig(t, rigOptions{hook: c.hook})
	_, b := r.inVLAN(5)
	p := verbstest.UDPair(t, r.ca, r.cb, ofSecond)
	ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: gidOf(b), SGIDIndex: 1, SL: 6})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ah.Destroy() }()
	if err := p.B.Recv(3, 0, 200); err != nil {
		t.Fatal(err)
	}
	wr := p.Datagram(10)
	wr.AH = ah
	if err := p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	wc, err := p.B.Done(3, verbs.WCRecv)
	if err != nil || wc.SL != 6 || wc.VLAN != 5 {
		t.Errorf("completion %+v, %v", wc, err)
	}
	if f := c.take(); len(f) != 1 || f[0][14] != 6<<5 || f[0][15] != 5 {
		t.Errorf("frames % x", f)
	}
	// The same address without a VLAN is not what the datagram was for.
	if err := r.b.setOwn([]ownAddr{{place: place{b, 2, 0}}, {place: place{b, upperIndex, 5}}}); err != nil {
		t.Fatal(err)
	}
	av, err := r.cb.InitAHFromWC(&wc, p.B.Buf)
	if err != nil || av.SGIDIndex != 1 || av.SL != 6 {
		t.Errorf("answer by %+v, %v", av, err)
	}
}

// TestVLANMismatch: a tag that is not of the address's VLAN keeps a packet from
// the queue pair, whatever its kind; a packet without one may have lost it.
func TestVLANMismatch(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, b := r.inVLAN(5)
	rc, ud := verbstest.RCPair(t, r.ca, r.cb, ofSecond), verbstest.UDPair(t, r.ca, r.cb, ofSecond)
	conn, dgram := r.b.table.get(rc.B.QP.Num()), r.b.table.get(ud.B.QP.Num())
	packet := func(outer, vlan uint16) *wire.Packet {
		return &wire.Packet{SrcGID: gidOf(a), DstGID: gidOf(b), VLAN: vlan, OuterVLAN: outer}
	}
	for _, tt := range []struct {
		name        string
		outer, vlan uint16
		want        bool
	}{
		{"its VLAN", 0, 5, true}, {"another", 0, 6, false}, {"two tags, the inner its VLAN", 9, 5, false}, {"two tags, the outer its VLAN", 5, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := packet(tt.outer, tt.vlan)
			if got := r.b.tagFits(conn, p); got != tt.want {
				t.Errorf("a connection: %v", got)
			}
			if got := r.b.tagFits(dgram, p); got != tt.want {
				t.Errorf("datagrams: %v", got)
			}
			if got := r.b.groupTagFits(p); got != tt.want {
				t.Errorf("groups: %v", got)
			}
		})
	}
	untagged := packet(0, 5)
	untagged.DstGID = gidOf(addrB)
	if r.b.tagFits(dgram, untagged) {
		t.Error("a tagged datagram to an address without VLAN fits")
	}
}

// TestVLANAddressGoes: when the interface on top goes, so do its address and what
// is sent from it; the device's own stays.
func TestVLANAddressGoes(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, _ := r.inVLAN(5)
	tagged, plain := verbstest.RCPair(t, r.ca, r.cb, ofSecond), r.pair(verbstest.Options{})
	if err := tagged.Write(10, false); err != nil {
		t.Fatal(err)
	}
	// The same address is now the device's own: another place.
	if err := r.a.setOwn([]ownAddr{{place: place{addrA, 1, 0}}, {place: place{a, 1, 0}}}); err != nil {
		t.Fatal(err)
	}
	if !r.steered[0].addrs[a] {
		t.Error("an address that is still there is not steered any more")
	}
	postWrite(t, tagged, 3, 10)
	waitFor(t, "tx_drop_no_address", func() bool { return counterOf(t, r.a, "tx_drop_no_address") != 0 })
	if err := plain.Every(1, 5000); err != nil {
		t.Error(err)
	}
	r.inVLAN(5)
	if _, err := tagged.A.Done(3, verbs.WCRDMAWrite); err != nil {
		t.Error(err)
	}
}

// TestVLANUpperMAC: frames follow the link-layer address of the interface on top.
func TestVLANUpperMAC(t *testing.T) {
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	a, _ := r.inVLAN(5)
	p := verbstest.RCPair(t, r.ca, r.cb, ofSecond)
	moved := [6]byte{2, 0, 0, 0, 0, 0xd}
	if err := r.a.setOwn([]ownAddr{{place: place{addrA, 1, 0}}, {place{a, upperIndex, 5}, moved}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(10, false); err != nil {
		t.Fatal(err)
	}
	if got := s.from(moved); got.SrcGID != gidOf(a) {
		t.Errorf("no frame from %x", moved)
	}
}

// TestVLANOfOptions: addresses of options are in the table, and reach the peers
// that are named there.
func TestVLANOfOptions(t *testing.T) {
	addr, peer := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	r := newRig(t, rigOptions{opts: Options{VLANAddrs: []VLANAddr{{Addr: addr, VLAN: 7, Neighbors: neighbours(peer, macB)}}}})
	if i, err := r.ca.GIDIndex(addr); err != nil || i != 1 {
		t.Fatalf("index %d, %v", i, err)
	}
	pd := domain(t, r.a)
	h := handleOf(t, r.a, pd, ibv.AddressVector{DGID: gidOf(peer), SGIDIndex: 1})
	if f := r.a.handles[h].route.fields; f.DstMAC != macB || !f.Tagged || f.VLAN != 7 {
		t.Errorf("handle of %+v", f)
	}
	_, err := r.a.CreateAH(t.Context(), pd, &ibv.AddressVector{DGID: gidOf(peer.Next()), SGIDIndex: 1})
	if !errors.Is(err, ErrNoNeighbour) || !strings.Contains(err.Error(), "name 198.51.100.3 in VLANAddr.Neighbors") {
		t.Errorf("a peer that is not named: %v", err)
	}
	link := r.a.link
	link.gone = true
	r.a.setLink(link)
	r.addresses(r.a)
	if _, err := r.ca.GIDIndex(addr); err == nil {
		t.Error("the address outlives the interface")
	}
}

func neighbours(peer netip.Addr, mac [6]byte) map[netip.Addr]net.HardwareAddr {
	return map[netip.Addr]net.HardwareAddr{peer: mac[:]}
}
