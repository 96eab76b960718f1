package wire

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// reencodeMAD takes a MAD apart into fields and builds it again. ok is false
// for a message that is none of the connection manager's.
func reencodeMAD(m *MAD) (out MAD, ok bool) {
	h := m.Fields()
	out.Encode(&h)
	from, to := m.Data(), out.Data()
	switch h.Attr {
	case AttrREQ:
		f := REQAt(from).Fields()
		REQAt(to).Encode(&f)
	case AttrMRA:
		f := MRAAt(from).Fields()
		MRAAt(to).Encode(&f)
	case AttrREJ:
		f := REJAt(from).Fields()
		REJAt(to).Encode(&f)
	case AttrREP:
		f := REPAt(from).Fields()
		REPAt(to).Encode(&f)
	case AttrRTU, AttrDREP:
		f := RTUAt(from).Fields()
		RTUAt(to).Encode(&f)
	case AttrDREQ:
		f := DREQAt(from).Fields()
		DREQAt(to).Encode(&f)
	case AttrSIDRREQ:
		f := SIDRREQAt(from).Fields()
		SIDRREQAt(to).Encode(&f)
	case AttrSIDRREP:
		f := SIDRREPAt(from).Fields()
		SIDRREPAt(to).Encode(&f)
	case AttrLAP:
		f := LAPAt(from).Fields()
		LAPAt(to).Encode(&f)
	case AttrAPR:
		f := APRAt(from).Fields()
		APRAt(to).Encode(&f)
	case AttrClassPortInfo:
		return out, false
	default:
		return out, false
	}
	return out, true
}

// madOf is the MAD in a frame, nil when it carries none.
func madOf(t testing.TB, frame []byte) *MAD {
	t.Helper()
	var p Packet
	if r := p.Parse(frame); r != Accept {
		t.Fatal(r)
	}
	if p.Hdr().DestQP() != ibv.GSIQPN {
		return nil
	}
	if p.DETH().QKey() != ibv.GSIQKey || p.PayloadLen != MADLen || p.NPayload != 1 {
		t.Fatalf("packet to QP1: Q_Key %#x, %d bytes in %d pieces", p.DETH().QKey(), p.PayloadLen, p.NPayload)
	}
	return MADAt(p.Payload[0])
}

// reencodeCMA builds the private data of a REQ again, too.
func reencodeCMA(t *testing.T, name string, private []byte) {
	t.Helper()
	h := CMAAt(private)
	if !h.Valid() {
		t.Errorf("%s: CMA header % x is not valid", name, h[:])
		return
	}
	var out CMA
	f := h.Fields()
	out.Encode(&f)
	if d := cmp.Diff(*h, out); d != "" {
		t.Errorf("%s: CMA header (-captured +encoded)\n%s", name, d)
	}
}

func TestCapturedMADs(t *testing.T) {
	seen := map[CMAttr]int{}
	check := func(name string, m *MAD) {
		seen[m.Attr()]++
		out, ok := reencodeMAD(m)
		if d := cmp.Diff(*m, out); d != "" || !ok {
			t.Errorf("%s, %v: (-captured +encoded)\n%s", name, m.Attr(), d)
		}
		switch m.Attr() {
		case AttrREQ:
			reencodeCMA(t, name, REQAt(m.Data()).PrivateData())
		case AttrSIDRREQ:
			reencodeCMA(t, name, SIDRREQAt(m.Data()).PrivateData())
		default:
		}
	}
	eachVector(t, func(t *testing.T, name string, _ int, frame []byte) {
		if m := madOf(t, frame); m != nil {
			check(name, m)
		}
	})
	for _, name := range []string{"hca-cm-req", "hca-cm-rtu"} {
		check(name, madOf(t, hexFrame(t, name)))
	}
	want := map[CMAttr]int{
		AttrREQ: 8, AttrREP: 5, AttrREJ: 1, AttrRTU: 6, AttrDREQ: 5, AttrDREP: 5, AttrSIDRREQ: 1, AttrSIDRREP: 1,
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("messages (-want +captured):\n%s", d)
	}
}

func TestCapturedREQ(t *testing.T) {
	f := REQAt(madOf(t, capture(t, "cm-rping.pcap")[0]).Data()).Fields()
	private := f.PrivateData
	f.PrivateData = nil
	want := REQFields{
		LocalCommID: 0x48fdc5c1, ServiceID: ServiceIDOf(PortSpaceTCP, 7174), LocalCAGUID: 0x505400fffe77010c, LocalQPN: 0x38,
		ResponderResources: 1, InitiatorDepth: 1, RemoteResponseTimeout: 20, StartingPSN: 0xf987b3, LocalResponseTimeout: 20,
		RetryCount: 7, PKey: DefaultPKey, PathMTU: ibv.MTU1024, RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: CMPathFields{
			LocalLID: 0xFFFF, RemoteLID: 0xFFFF,
			LocalGID: ibv.GIDOf(netip.MustParseAddr("10.77.1.12")), RemoteGID: ibv.GIDOf(netip.MustParseAddr("10.77.1.11")),
			FlowLabel: FlowLabelFromPorts(0xd8a6, 7174), HopLimit: 64, LocalACKTimeout: 17,
		},
	}
	// The rate of the link is of the kernel's choice.
	want.Primary.PacketRate = f.Primary.PacketRate
	if d := cmp.Diff(want, f); d != "" {
		t.Errorf("REQ of rping (-want +captured):\n%s", d)
	}
	cma := CMAAt(private).Fields()
	if cma.SrcPort != 0xd8a6 || cma.Src.String() != "10.77.1.12" || cma.Dst.String() != "10.77.1.11" {
		t.Errorf("CMA header %+v", cma)
	}

	hca := REQAt(madOf(t, hexFrame(t, "hca-cm-req")).Data()).Fields()
	if hca.VendorID != 0x0015B3 || hca.RemoteResponseTimeout != 22 || hca.Primary.LocalACKTimeout != 18 {
		t.Errorf("REQ of an HCA: %+v", hca)
	}
}

// The example of a CMA header that a capture of a hardware adapter has.
func TestCMAHeader(t *testing.T) {
	b, err := hex.DecodeString(strings.ReplaceAll("0040 ab40 000000000000000000000000 c0aa0102 000000000000000000000000 c0aa0132", " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	want := CMAFields{43840, netip.MustParseAddr("192.170.1.2"), netip.MustParseAddr("192.170.1.50")}
	if got := CMAAt(b).Fields(); got != want || !CMAAt(b).Valid() {
		t.Errorf("%+v, want %+v", got, want)
	}
	v6 := CMAFields{1, netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("fd00::2")}
	var h CMA
	h.Encode(&v6)
	v6.Src = v6.Src.WithZone("")
	if got := h.Fields(); got != v6 || h.IPVersion() != 6 {
		t.Errorf("%+v, want %+v", got, v6)
	}
	for _, c := range []struct {
		name           string
		version, ipver byte
	}{{"version 1", 1, 0x40}, {"IP version 5", 0, 0x50}, {"IP version 0", 0, 0}} {
		h[0], h[1] = c.version, c.ipver
		if h.Valid() {
			t.Errorf("%s is taken for valid", c.name)
		}
	}
}

func TestServiceID(t *testing.T) {
	id := ServiceIDOf(PortSpaceTCP, 0x1C06)
	if id != 0x0000000001061C06 {
		t.Errorf("service id %#x", uint64(id))
	}
	if ps, port, ok := id.Split(); ps != PortSpaceTCP || port != 0x1C06 || !ok {
		t.Errorf("split: %v %d %v", ps, port, ok)
	}
	if _, _, ok := (id | 1<<40).Split(); ok {
		t.Error("an id beyond port spaces has a port")
	}
}

func TestCMNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{AttrSIDRREQ.String(), "SIDR_REQ"}, {CMAttr(0x99).String(), "CM_ATTR(0x99)"},
		{RejStaleConn.String(), "stale connection"}, {RejReason(34).String(), "REJ(34)"}, {RejReason(9999).String(), "REJ(9999)"},
		{SIDRRejected.String(), "rejected by the service"}, {SIDRStatus(9).String(), "SIDR_STATUS(9)"},
		{PortSpaceUDP.String(), "UDP"}, {PortSpace(7).String(), "PORT_SPACE(0x7)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// FuzzMAD takes any 256 bytes through fields and back: the first round clears
// reserved bits, the second changes nothing.
func FuzzMAD(f *testing.F) {
	for _, name := range []string{"cm-rping.pcap", "cm-rping-v6.pcap", "cm-reject.pcap", "cm-udaddy.pcap"} {
		for _, frame := range capture(f, name) {
			if m := madOf(f, frame); m != nil {
				f.Add(m[:])
			}
		}
	}
	for attr := AttrREQ; attr <= AttrAPR; attr++ {
		b := make([]byte, MADLen)
		for i := range b {
			b[i] = 0xFF
		}
		MADAt(b).EncodeCM(1, attr)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m MAD
		copy(m[:], b)
		once, ok := reencodeMAD(&m)
		if !ok {
			return
		}
		if twice, _ := reencodeMAD(&once); twice != once {
			t.Fatalf("%v: second round\n% x\n% x", m.Attr(), once, twice)
		}
		if cma := CMAAt(m.Data()); cma.Valid() {
			f := cma.Fields()
			var out CMA
			out.Encode(&f)
			if out.Fields() != f {
				t.Fatalf("CMA header %+v is %+v in the second round", f, out.Fields())
			}
		}
	})
}
