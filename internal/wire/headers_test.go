package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codec is a header view; F is its Fields type.
type codec[F any] interface {
	Fields() F
	Encode(*F)
}

// testHeader checks one header against bytes written down by hand, both ways,
// over a buffer of ones so that Encode must clear what is reserved.
func testHeader[F any, H codec[F]](t *testing.T, at func([]byte) H, bytes string, f F) {
	t.Helper()
	if d := cmp.Diff(f, at([]byte(bytes)).Fields()); d != "" {
		t.Errorf("Fields of % x (-want +got):\n%s", bytes, d)
	}
	buf := make([]byte, len(bytes)+1)
	for i := range buf {
		buf[i] = 0xFF
	}
	at(buf).Encode(&f)
	if got, want := string(buf), bytes+"\xff"; got != want {
		t.Errorf("Encode(%+v):\n got % x\nwant % x", f, got, want)
	}
}

func TestBTH(t *testing.T) {
	testHeader(t, BTHAt, "\x04\x00\xff\xff\x00\x00\x00\x11\x80\x00\x10\x00",
		BTHFields{Opcode: 0x04, PKey: 0xFFFF, DestQP: 0x11, AckReq: true, PSN: 0x1000})
	testHeader(t, BTHAt, "\x81\x00\xff\xff\x40\x00\x01\x18\x00\x00\x00\x00",
		BTHFields{Opcode: CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118})
	testHeader(t, BTHAt, "\x64\xff\x12\x34\x80\xab\xcd\xef\x00\xfe\xdc\xba",
		BTHFields{Opcode: 0x64, SE: true, MigReq: true, PadCnt: 3, TVer: 15, PKey: 0x1234, FECN: true, DestQP: 0xABCDEF, PSN: 0xFEDCBA})
	testHeader(t, BTHAt, "\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", BTHFields{PadCnt: 2, PSN: 1})
}

func TestRETH(t *testing.T) {
	testHeader(t, RETHAt, "\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x80\x00\x00\x01",
		RETHFields{VA: 0x0123456789ABCDEF, RKey: 0xFEDCBA98, DMALen: 0x80000001})
}

func TestAtomicETH(t *testing.T) {
	testHeader(t, AtomicETHAt, "\x01\x02\x03\x04\x05\x06\x07\x08"+"\x11\x12\x13\x14"+
		"\x21\x22\x23\x24\x25\x26\x27\x28"+"\x31\x32\x33\x34\x35\x36\x37\x38",
		AtomicETHFields{VA: 0x0102030405060708, RKey: 0x11121314, SwapAdd: 0x2122232425262728, Compare: 0x3132333435363738})
}

func TestAETH(t *testing.T) {
	testHeader(t, AETHAt, "\x62\x00\x00\x02", AETHFields{Syndrome: NakRemoteAccess, MSN: 2})
	testHeader(t, AETHAt, "\x1f\xfe\xdc\xba", AETHFields{Syndrome: 0x1F, MSN: 0xFEDCBA})
}

func TestDETH(t *testing.T) {
	testHeader(t, DETHAt, "\x80\x01\x00\x00\x00\xab\xcd\xef", DETHFields{QKey: 0x80010000, SrcQP: 0xABCDEF})
}

func TestFETH(t *testing.T) {
	testHeader(t, FETHAt, "\x00\x00\x00\x01", FETHFields{Placement: PlacementGlobal})
	testHeader(t, FETHAt, "\x00\x00\x00\x13", FETHFields{Placement: PlacementGlobal | PlacementPersistent, Selectivity: SelectRegion})
}

func TestEthernet(t *testing.T) {
	testHeader(t, EthernetAt, "\x52\x54\x00\x77\x01\x0b\x52\x54\x00\x77\x01\x0c\x86\xdd",
		EthernetFields{DstMAC: [6]byte{0x52, 0x54, 0, 0x77, 1, 0x0B}, SrcMAC: [6]byte{0x52, 0x54, 0, 0x77, 1, 0x0C}, EtherType: EtherTypeIPv6})
}

func TestVLAN(t *testing.T) {
	testHeader(t, VLANAt, "\xd1\x23\x08\x00", VLANFields{PCP: 6, DEI: true, VID: 0x123, EtherType: EtherTypeIPv4})
	testHeader(t, VLANAt, "\x2f\xff\x81\x00", VLANFields{PCP: 1, VID: 0xFFF, EtherType: EtherTypeVLAN})
}

func TestIPv4(t *testing.T) {
	// RFC 1071's method on these ten words gives b4 d5.
	testHeader(t, IPv4At, "\x45\x01\x00\x40\x04\x78\x40\x00\x40\x11\xb4\xd5\xc0\xa8\x00\x07\xc0\xa8\x00\x07",
		IPv4Fields{TOS: 1, TotalLen: 64, ID: 0x478, DF: true, TTL: 64, Protocol: ProtoUDP, Src: [4]byte{192, 168, 0, 7}, Dst: [4]byte{192, 168, 0, 7}})
	// 4500+0014+0000+3fff+0000+7f00+0001+7f00+0001 = 18315, folded 8316.
	testHeader(t, IPv4At, "\x45\x00\x00\x14\x00\x00\x3f\xff\x00\x00\x7c\xe9\x7f\x00\x00\x01\x7f\x00\x00\x01",
		IPv4Fields{TotalLen: 20, MF: true, FragOffset: 0x1FFF, Src: [4]byte{127, 0, 0, 1}, Dst: [4]byte{127, 0, 0, 1}})
}

func TestIPv6(t *testing.T) {
	testHeader(t, IPv6At, "\x66\x81\x23\x45\x00\x1c\x11\x21"+
		"\xfd\x77\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c"+
		"\xfd\x77\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b",
		IPv6Fields{TrafficClass: 0x68, FlowLabel: 0x12345, PayloadLen: 28, NextHeader: ProtoUDP, HopLimit: 33,
			Src: [16]byte{0: 0xFD, 1: 0x77, 3: 1, 15: 0x0C}, Dst: [16]byte{0: 0xFD, 1: 0x77, 3: 1, 15: 0x0B}})
}

func TestUDP(t *testing.T) {
	testHeader(t, UDPAt, "\xc0\x00\x12\xb7\x00\x2c\xac\xa2", UDPFields{SrcPort: 0xC000, DstPort: UDPPort, Length: 44, Checksum: 0xACA2})
}

func TestOneFieldHeaders(t *testing.T) {
	b := []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	IETHAt(b).SetRKey(0x01020304)
	ImmDtAt(b[4:])[0] = 0xA1
	if got, want := string(b), "\x01\x02\x03\x04\xa1\xff\xff\xff\xff"; got != want {
		t.Errorf("IETH and ImmDt: % x, want % x", got, want)
	}
	if k := IETHAt(b).RKey(); k != 0x01020304 {
		t.Errorf("IETH RKey %#x", k)
	}
	XRCETHAt(b).SetSRQN(0xFF0A0B0C)
	if got, want := string(b[:4]), "\x00\x0a\x0b\x0c"; got != want {
		t.Errorf("XRCETH: % x, want % x", got, want)
	}
	if n := XRCETHAt([]byte("\xee\x0a\x0b\x0c")).SRQN(); n != 0x0A0B0C {
		t.Errorf("SRQN %#x, want the low 24 bits", n)
	}
	AtomicAckETHAt(b).SetOrig(0x0102030405060708)
	if got, want := string(b), "\x01\x02\x03\x04\x05\x06\x07\x08\xff"; got != want {
		t.Errorf("AtomicAckETH: % x, want % x", got, want)
	}
	if v := AtomicAckETHAt(b).Orig(); v != 0x0102030405060708 {
		t.Errorf("Orig %#x", v)
	}
}

func TestReservedBitsAreNotRead(t *testing.T) {
	bth := BTHAt([]byte("\x04\x00\xff\xff\x3f\x00\x00\x11\x7f\x00\x10\x00"))
	want := BTHFields{Opcode: 4, PKey: 0xFFFF, DestQP: 0x11, PSN: 0x1000}
	if d := cmp.Diff(want, bth.Fields()); d != "" {
		t.Errorf("BTH with resv6 and resv7 set (-want +got):\n%s", d)
	}
	if q := DETHAt([]byte("\x00\x00\x00\x01\xff\x00\x00\x02")).SrcQP(); q != 2 {
		t.Errorf("DETH SrcQP %#x with the reserved byte set, want 2", q)
	}
	if f := FETHAt([]byte("\xff\xff\xff\xd2")).Fields(); f != (FETHFields{Placement: PlacementPersistent, Selectivity: SelectRegion}) {
		t.Errorf("FETH with reserved bits set: %+v", f)
	}
}

// Every setter changes its own bits and no other: over a buffer of zeros and
// one of ones.
func TestSetters(t *testing.T) {
	type set struct {
		name        string
		do          func(b []byte)
		zeros, ones string // the header afterwards, in hex digits of its first bytes
	}
	for _, c := range []set{
		{"BTH opcode", func(b []byte) { BTHAt(b).SetOpcode(0xA5) }, "\xa5", "\xa5"},
		{"BTH SE on", func(b []byte) { BTHAt(b).SetSE(true) }, "\x00\x80", "\xff\xff"},
		{"BTH SE off", func(b []byte) { BTHAt(b).SetSE(false) }, "", "\xff\x7f"},
		{"BTH MigReq on", func(b []byte) { BTHAt(b).SetMigReq(true) }, "\x00\x40", "\xff\xff"},
		{"BTH MigReq off", func(b []byte) { BTHAt(b).SetMigReq(false) }, "", "\xff\xbf"},
		{"BTH PadCnt 1", func(b []byte) { BTHAt(b).SetPadCnt(1) }, "\x00\x10", "\xff\xdf"},
		{"BTH PadCnt cut", func(b []byte) { BTHAt(b).SetPadCnt(6) }, "\x00\x20", "\xff\xef"},
		{"BTH TVer", func(b []byte) { BTHAt(b).SetTVer(0x15) }, "\x00\x05", "\xff\xf5"},
		{"BTH PKey", func(b []byte) { BTHAt(b).SetPKey(0x8001) }, "\x00\x00\x80\x01", "\xff\xff\x80\x01"},
		{"BTH FECN", func(b []byte) { BTHAt(b).SetFECN(false) }, "", "\xff\xff\xff\xff\x7f"},
		{"BTH BECN", func(b []byte) { BTHAt(b).SetBECN(true) }, "\x00\x00\x00\x00\x40", "\xff\xff\xff\xff\xff"},
		{"BTH DestQP", func(b []byte) { BTHAt(b).SetDestQP(0x99010203) }, "\x00\x00\x00\x00\x00\x01\x02\x03", "\xff\xff\xff\xff\xff\x01\x02\x03"},
		{"BTH AckReq", func(b []byte) { BTHAt(b).SetAckReq(true) }, "\x00\x00\x00\x00\x00\x00\x00\x00\x80", "\xff"},
		{"BTH PSN", func(b []byte) { BTHAt(b).SetPSN(0x010203) }, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03"},
		{"AETH syndrome", func(b []byte) { AETHAt(b).SetSyndrome(0x21) }, "\x21", "\x21"},
		{"AETH MSN", func(b []byte) { AETHAt(b).SetMSN(0x77010203) }, "\x00\x01\x02\x03", "\xff\x01\x02\x03"},
		{"DETH SrcQP", func(b []byte) { DETHAt(b).SetSrcQP(0x77010203) }, "\x00\x00\x00\x00\x00\x01\x02\x03", "\xff\xff\xff\xff\xff\x01\x02\x03"},
		{"FETH placement", func(b []byte) { FETHAt(b).SetPlacement(0x32) }, "\x00\x00\x00\x02", "\xff\xff\xff\xf2"},
		{"FETH selectivity", func(b []byte) { FETHAt(b).SetSelectivity(5) }, "\x00\x00\x00\x10", "\xff\xff\xff\xdf"},
		{"VLAN PCP", func(b []byte) { VLANAt(b).SetPCP(5) }, "\xa0", "\xbf"},
		{"VLAN DEI", func(b []byte) { VLANAt(b).SetDEI(true) }, "\x10", "\xff"},
		{"VLAN VID", func(b []byte) { VLANAt(b).SetVID(0xF123) }, "\x01\x23", "\xf1\x23"},
		{"IPv4 TOS", func(b []byte) { IPv4At(b).SetTOS(0xB8) }, "\x00\xb8", "\xff\xb8"},
		{"IPv4 TTL", func(b []byte) { IPv4At(b).SetTTL(9) }, "\x00\x00\x00\x00\x00\x00\x00\x00\x09", "\xff\xff\xff\xff\xff\xff\xff\xff\x09"},
		{"IPv6 traffic class", func(b []byte) { IPv6At(b).SetTrafficClass(0x5A) }, "\x05\xa0", "\xf5\xaf"},
		{"IPv6 flow label", func(b []byte) { IPv6At(b).SetFlowLabel(0xF12345) }, "\x00\x01\x23\x45", "\xff\xf1\x23\x45"},
		{"IPv6 hop limit", func(b []byte) { IPv6At(b).SetHopLimit(9) }, "\x00\x00\x00\x00\x00\x00\x00\x09", "\xff\xff\xff\xff\xff\xff\xff\x09"},
		{"UDP source port", func(b []byte) { UDPAt(b).SetSrcPort(0xC001) }, "\xc0\x01", "\xc0\x01"},
	} {
		for fill, want := range map[byte]string{0x00: c.zeros, 0xFF: c.ones} {
			b, w := make([]byte, 48), make([]byte, 48)
			for i := range b {
				b[i], w[i] = fill, fill
			}
			copy(w, want)
			c.do(b)
			if d := cmp.Diff(w, b); d != "" {
				t.Errorf("%s over %#02x (-want +got):\n%s", c.name, fill, d)
			}
		}
	}
}

func TestViewSizes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"BTH", len(BTH{}), 12}, {"RETH", len(RETH{}), 16}, {"AtomicETH", len(AtomicETH{}), 28},
		{"AtomicAckETH", len(AtomicAckETH{}), 8}, {"AETH", len(AETH{}), 4}, {"ImmDt", len(ImmDt{}), 4},
		{"IETH", len(IETH{}), 4}, {"DETH", len(DETH{}), 8}, {"FETH", len(FETH{}), 4}, {"XRCETH", len(XRCETH{}), 4},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d bytes, want %d", c.name, c.got, c.want)
		}
	}
}
