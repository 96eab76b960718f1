package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestParseFields(t *testing.T) {
	v6 := testV6
	v6.Tagged, v6.VLAN, v6.PCP = true, 0x123, 5
	ext := make([]byte, RETHLen+ImmDtLen)
	RETHAt(ext).Encode(&RETHFields{VA: 0x1122334455667788, RKey: 0x99, DMALen: 5})
	copy(ext[RETHLen:], "\xa1\xb2\xc3\xd4")
	f := testFrame{
		path: v6, ext: ext, data: []byte("hello"),
		bth: BTHFields{Opcode: RC | WriteOnlyImm, SE: true, PKey: 0x8001, DestQP: 0xABCDEF, AckReq: true, PSN: 0xFFFFFE},
	}
	frame := f.bytes()
	var p Packet
	if r := p.Parse(frame); r != Accept {
		t.Fatalf("Parse: %v", r)
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"opcode", p.Opcode, Opcode(0x0B)}, {"info", p.Info, Opcode(0x0B).Info()}, {"ICRC", p.ICRC, ICRCStandard},
		{"BTH bytes", p.BTH, frame[66 : 66+32]}, {"IP", p.IP, frame[18 : 18+40]},
		{"payload", p.Segments(), [][]byte{[]byte("hello")}}, {"length", p.PayloadLen, 5},
		{"source", p.SrcGID, v6.SrcGID}, {"destination", p.DstGID, v6.DstGID}, {"IPv6", p.IPv6, true},
		{"TOS", p.TOS, uint8(0x68)}, {"ECN", p.ECN(), uint8(0)}, {"TTL", p.TTL, uint8(33)}, {"flow label", p.FlowLabel, uint32(0x12345)},
		{"port", p.UDPSrcPort, uint16(0xC123)}, {"source MAC", p.SrcMAC, v6.SrcMAC}, {"destination MAC", p.DstMAC, v6.DstMAC},
		{"VLAN", p.VLAN, uint16(0x123)}, {"outer VLAN", p.OuterVLAN, uint16(0)},
		{"RETH", p.RETH().Fields(), RETHFields{VA: 0x1122334455667788, RKey: 0x99, DMALen: 5}},
		{"immediate", string(p.ImmDt()[:]), "\xa1\xb2\xc3\xd4"}, {"PSN", int(p.Hdr().PSN()), 0xFFFFFE},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}

	// A second frame leaves nothing of the first.
	g := sendOnly(testV4, 0)
	if r := p.Parse(g.bytes()); r != Accept {
		t.Fatalf("Parse: %v", r)
	}
	if p.IPv6 || p.VLAN != 0 || p.FlowLabel != 0 || p.TTL != DefaultTTL || p.ECN() != 2 || len(p.Segments()) != 0 || p.PayloadLen != 0 ||
		p.SrcGID != testV4.SrcGID || p.DstGID != testV4.DstGID {
		t.Errorf("after an IPv4 frame without payload: %+v", p)
	}
}

// Each extension header comes out of the packet at its own offset.
func TestParseExtensionHeaders(t *testing.T) {
	for _, c := range []struct {
		name string
		op   Opcode
		ext  string
		got  func(p *Packet) any
		want any
	}{
		{"AtomicETH", RC | FetchAdd, "VVVVVVVVKKKKSSSSSSSSCCCCCCC\x01", func(p *Packet) any { return p.AtomicETH().Compare() & 0xFF }, uint64(1)},
		{"AETH", RC | Acknowledge, "\x60\x00\x00\x07", func(p *Packet) any { return p.AETH().Fields() }, AETHFields{NakPSNSeq, 7}},
		{"AtomicAckETH", RC | AtomicAck, "\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09", func(p *Packet) any { return p.AtomicAckETH().Orig() }, uint64(9)},
		{"IETH", RC | SendOnlyInv, "\x00\x00\x00\x07", func(p *Packet) any { return p.IETH().RKey() }, uint32(7)},
		{"DETH", UD | SendOnlyImm, "\x80\x01\x00\x00\x00\x00\x00\x01IMMD", func(p *Packet) any { return p.DETH().Fields() }, DETHFields{0x80010000, 1}},
		{"ImmDt after DETH", UD | SendOnlyImm, "\x80\x01\x00\x00\x00\x00\x00\x01IMMD", func(p *Packet) any { return string(p.ImmDt()[:]) }, "IMMD"},
		{"XRCETH", XRC | ReadRequest, "\x00\x00\x00\x09VVVVVVVVKKKK\x00\x00\x00\x08", func(p *Packet) any { return p.XRCETH().SRQN() }, uint32(9)},
		{"RETH after XRCETH", XRC | ReadRequest, "\x00\x00\x00\x09VVVVVVVVKKKK\x00\x00\x00\x08", func(p *Packet) any { return p.RETH().DMALen() }, uint32(8)},
		{"FETH", RC | Flush, "\x00\x00\x00\x12VVVVVVVVKKKK\x00\x00\x00\x08", func(p *Packet) any { return p.FETH().Fields() }, FETHFields{2, 1}},
	} {
		f := testFrame{path: testV4, bth: BTHFields{Opcode: c.op, DestQP: 1}, ext: []byte(c.ext)}
		var p Packet
		if r := p.Parse(f.bytes()); r != Accept {
			t.Errorf("%s: %v", c.name, r)
			continue
		}
		if d := cmp.Diff(c.want, c.got(&p)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// change edits a good frame; l3 and bth are the offsets in it.
type change func(b []byte, l3, bth int) []byte

func TestDropReasons(t *testing.T) {
	conformance.Rule(t, "2.1-30", "3.1-8", "3.1-10", "4.3-5", "4.5-1", "4.5-2", "4.5-3", "4.5-4", "4.5-5")
	for _, c := range []struct {
		name string
		path PathFields
		n    int // payload bytes
		do   change
		want DropReason
	}{
		{"good", testV4, 5, func(b []byte, l3, bth int) []byte { return b }, Accept},
		{"Ethernet padding", testV4, 0, func(b []byte, l3, bth int) []byte { return append(b, make([]byte, 20)...) }, Accept},
		{"another EtherType", testV4, 5, func(b []byte, l3, bth int) []byte { b[13] = 6; return b }, DropNotIP},
		{"RoCEv1", testV4, 5, func(b []byte, l3, bth int) []byte { b[12], b[13] = 0x89, 0x15; return b }, DropNotIP},
		{"IPv4 EtherType, version 6", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3] = 0x65; return b }, DropIPHeader},
		{"IPv4 options", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3] = 0x46; return b }, DropIPHeader},
		{"IPv4 header too short", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3] = 0x44; return b }, DropIPHeader},
		{"IPv6 EtherType, version 4", testV6, 5, func(b []byte, l3, bth int) []byte { b[l3] = 0x45; return b }, DropIPHeader},
		{"first fragment", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3+6] = 0x20; return b }, DropFragment},
		{"last fragment", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3+7] = 1; return b }, DropFragment},
		{"IPv6 fragment", testV6, 5, func(b []byte, l3, bth int) []byte { b[l3+6] = 44; return b }, DropFragment},
		{"reserved flag only", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3+6] = 0xC0; return reseal(b) }, Accept},
		{"TCP", testV4, 5, func(b []byte, l3, bth int) []byte { b[l3+9] = 6; return b }, DropNotRoCE},
		{"IPv6 hop-by-hop options", testV6, 5, func(b []byte, l3, bth int) []byte { b[l3+6] = 0; return b }, DropNotRoCE},
		{"another port", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth-5]++; return b }, DropNotRoCE},
		{"UDP longer than IP", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth-3] += 4; return b }, DropLength},
		{"UDP shorter than IP", testV6, 5, func(b []byte, l3, bth int) []byte { b[bth-3] -= 4; return b }, DropLength},
		{"IPv6 payload length 0", testV6, 5, func(b []byte, l3, bth int) []byte { b[l3+5] = 0; return b }, DropLength},
		{"not a multiple of four", testV4, 5, func(b []byte, l3, bth int) []byte { return setLen(b, 8+12+7+4) }, DropLength},
		{"no room for an ICRC", testV4, 5, func(b []byte, l3, bth int) []byte { return setLen(b, 8+12) }, DropLength},
		{"UDP length 0", testV4, 5, func(b []byte, l3, bth int) []byte { return setLen(b, 0) }, DropLength},
		{"smallest packet", testV4, 0, func(b []byte, l3, bth int) []byte { return b }, Accept},
		{"no room for the RETH", testV4, 0, func(b []byte, l3, bth int) []byte { b[bth] = 0x0A; return reseal(b) }, DropLength},
		{"cut by one byte", testV4, 5, func(b []byte, l3, bth int) []byte { return b[:len(b)-1] }, DropTruncated},
		{"transport version", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth+1] |= 1; return reseal(b) }, DropTVer},
		{"reserved opcode", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth] = 0x15; return reseal(b) }, DropOpcode},
		{"RD opcode", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth] = 0x44; return reseal(b) }, DropOpcode},
		{"destination QP 0", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth+7] = 0; return reseal(b) }, DropDestQP},
		{"pad without payload", testV4, 0, func(b []byte, l3, bth int) []byte { b[bth+1] |= 0x10; return reseal(b) }, DropPad},
		{"three of four are pad", testV4, 4, func(b []byte, l3, bth int) []byte { b[bth+1] |= 0x30; return reseal(b) }, Accept},
		{"wrong ICRC", testV4, 5, func(b []byte, l3, bth int) []byte { b[len(b)-1]++; return b }, DropICRC},
		{"ICRC byte order", testV4, 5, func(b []byte, l3, bth int) []byte {
			icrc := b[len(b)-4:]
			icrc[0], icrc[1], icrc[2], icrc[3] = icrc[3], icrc[2], icrc[1], icrc[0]
			return b
		}, DropICRC},
		{"right UDP checksum", testV4, 5, func(b []byte, l3, bth int) []byte { b[bth-2] = 0x12; return b }, Accept},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sendOnly(c.path, c.n)
			b := f.bytes()
			b = c.do(b, l3Of(b), bthOf(b))
			before := bytes.Clone(b)
			var p Packet
			if got := p.Parse(b); got != c.want {
				t.Errorf("Parse: %v, want %v", got, c.want)
			}
			if got := p.ParseReadOnly(b); got != c.want {
				t.Errorf("ParseReadOnly: %v, want %v", got, c.want)
			}
			if !bytes.Equal(b, before) {
				t.Error("the frame has changed")
			}
		})
	}
}

// setLen makes both lengths of an IPv4 frame say n bytes of UDP.
func setLen(b []byte, n int) []byte {
	l3 := l3Of(b)
	IPv4At(b[l3:]).SetTotalLen(IPv4Len + n)
	UDPAt(b[l3+IPv4Len:]).SetLength(n)
	return b
}

func TestHeadersOnlyAcceptsAnyICRC(t *testing.T) {
	f := sendOnly(testV4, 64)
	b := f.bytes()
	b[len(b)-1]++
	var p Packet
	if r := p.ParseHeaders(b); r != Accept || p.ICRC != ICRCBad {
		t.Errorf("ParseHeaders: %v, ICRC form %d; want accepted, %d", r, p.ICRC, ICRCBad)
	}
}

func TestVLANTags(t *testing.T) {
	conformance.Rule(t, "3.1-9", "4.5-11")
	for _, c := range []struct {
		name        string
		tags        string // between the MAC addresses and the EtherType
		want        DropReason
		vlan, outer uint16
	}{
		{"none", "", Accept, 0, 0},
		{"one", "\x81\x00\xa1\x23", Accept, 0x123, 0},
		{"priority tag", "\x81\x00\xa0\x00", Accept, 0, 0},
		{"service tag alone", "\x88\xa8\x00\x07", Accept, 7, 0},
		{"service and customer tag", "\x88\xa8\x00\x07\x81\x00\x01\x23", Accept, 0x123, 7},
		{"two customer tags", "\x81\x00\x00\x08\x81\x00\x0f\xff", Accept, 0xFFF, 8},
		{"three", "\x81\x00\x00\x01\x81\x00\x00\x02\x81\x00\x00\x03", DropNotIP, 0, 0},
	} {
		f := sendOnly(testV4, 9)
		plain := f.bytes()
		b := append(append(bytes.Clone(plain[:12]), c.tags...), plain[12:]...)
		var p Packet
		if got := p.Parse(b); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		if c.want == Accept && (p.VLAN != c.vlan || p.OuterVLAN != c.outer) {
			t.Errorf("%s: VLAN %d in %d, want %d in %d", c.name, p.VLAN, p.OuterVLAN, c.vlan, c.outer)
		}
	}
}

func TestFlushICRCForms(t *testing.T) {
	conformance.Rule(t, "3.2-2", "3.2-3")
	f := flushFrame()
	frame := f.bytes()
	end := len(frame) - ICRCLen
	std := binary.LittleEndian.Uint32(frame[end:])
	rxe := ICRCFlushRXE(std, frame[bthOf(frame):])
	for _, c := range []struct {
		name string
		icrc uint32
		want DropReason
		form ICRCForm
	}{{"standard", std, Accept, ICRCStandard}, {"rxe", rxe, Accept, ICRCRXE}, {"neither", std ^ 1, DropICRC, ICRCBad}} {
		binary.LittleEndian.PutUint32(frame[end:], c.icrc)
		var p Packet
		if r := p.Parse(frame); r != c.want || p.ICRC != c.form {
			t.Errorf("%s: %v, form %d; want %v, form %d", c.name, r, p.ICRC, c.want, c.form)
		}
	}

	// Of any other opcode, rxe's form is wrong.
	g := testFrame{path: testV4, bth: BTHFields{Opcode: RC | ReadRequest, DestQP: 1}, ext: make([]byte, RETHLen)}
	frame = g.bytes()
	end = len(frame) - ICRCLen
	again := append(bytes.Clone(frame[bthOf(frame):end]), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(frame[end:], ICRCFlushRXE(binary.LittleEndian.Uint32(frame[end:]), again))
	var p Packet
	if r := p.Parse(frame); r != DropICRC {
		t.Errorf("READ_REQUEST with a second pass: %v, want %v", r, DropICRC)
	}
}

func TestDropNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range DropReason(NumDropReasons) {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("reason %d: name %q is empty or not its own", r, s)
		} else {
			seen[s] = true
		}
	}
	if got := DropICRC.String(); got != "icrc_errors" {
		t.Errorf("DropICRC is %q, want icrc_errors", got)
	}
	if got := fmt.Sprint(DropReason(NumDropReasons)); got != "unknown_drop" {
		t.Errorf("a reason that is none is %q", got)
	}
}
