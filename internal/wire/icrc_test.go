package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

// slowICRC is the definition, bit by bit: a second opinion that shares nothing
// with the code under test.
func slowICRC(ip []byte) uint32 {
	b := append([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, ip...)
	l3, l4 := b[8:], b[8+40:]
	if l3[0]>>4 == 4 {
		l4 = b[8+20:]
		l3[1], l3[8], l3[10], l3[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		l3[0], l3[1], l3[2], l3[3], l3[7] = 0x6F, 0xFF, 0xFF, 0xFF, 0xFF
	}
	l4[6], l4[7], l4[12] = 0xFF, 0xFF, 0xFF
	return ^slowCRC(0xFFFFFFFF, b)
}

func slowCRC(c uint32, b []byte) uint32 {
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0xEDB88320&-(c&1)
		}
	}
	return c
}

func TestSlowCRC(t *testing.T) {
	conformance.Rule(t, "3.1-7")
	if got := ^slowCRC(0xFFFFFFFF, []byte("123456789")); got != 0xCBF43926 {
		t.Fatalf("CRC-32 of the check string is %#x, want 0xcbf43926", got)
	}
	if got := slowCRC(0xFFFFFFFF, bytes.Repeat([]byte{0xFF}, 8)); got != icrcAfterLRH {
		t.Errorf("register after the link header's stand-in is %#x, want %#x", got, uint32(icrcAfterLRH))
	}
}

// Any bytes will do as a packet: both forms agree with the definition for all
// lengths, offsets and cuts, and leave the buffer as it was.
func TestICRCAgainstDefinition(t *testing.T) {
	conformance.Rule(t, "3.1-1", "3.1-7")
	rapid.Check(t, func(t *rapid.T) {
		v6 := rapid.Bool().Draw(t, "v6")
		l3 := rapid.IntRange(8, 22).Draw(t, "l3")
		hdr := IPv4Len + UDPLen + BTHLen
		if v6 {
			hdr = IPv6Len + UDPLen + BTHLen
		}
		n := rapid.IntRange(hdr, hdr+600).Draw(t, "n")
		extra := rapid.IntRange(0, 9).Draw(t, "extra")
		b := rapid.SliceOfN(rapid.Byte(), l3+n+extra, l3+n+extra).Draw(t, "bytes")
		b[l3] = 0x45
		if v6 {
			b[l3] = 0x60 | b[l3+1]>>4
		}
		before := bytes.Clone(b)
		want := slowICRC(before[l3 : l3+n])
		segs := cut(b, cutPoints(t, l3+hdr, len(b))...)

		if got := ICRC(segs[0], l3, n, segs[1:]...); got != want {
			t.Fatalf("ICRC = %#x, want %#x", got, want)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("ICRC left a changed buffer")
		}
		if got := ICRCReadOnly(segs[0][l3:], n, segs[1:]...); got != want {
			t.Fatalf("ICRCReadOnly = %#x, want %#x", got, want)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("ICRCReadOnly wrote to the buffer")
		}
	})
}

// cutPoints draws up to seven ascending offsets in [from, to].
func cutPoints(t *rapid.T, from, to int) []int {
	var at []int
	for range rapid.IntRange(0, MaxSegments-1).Draw(t, "cuts") {
		from = rapid.IntRange(from, to).Draw(t, "cut")
		at = append(at, from)
	}
	return at
}

func TestICRCOfTooFewBytes(t *testing.T) {
	f := sendOnly(testV4, 40)
	frame := f.bytes()
	segs := cut(frame, 60, 70)
	want := slowICRC(frame[EthernetLen:])
	if got := ICRC(segs[0], EthernetLen, 1000, segs[1:]...); got != want {
		t.Errorf("ICRC of 1000 bytes, of which %d exist: %#x, want %#x", len(frame)-EthernetLen, got, want)
	}
}

func TestICRCFlushRXE(t *testing.T) {
	f := flushFrame()
	frame := f.bytes()
	bth, end := bthOf(frame), len(frame)-ICRCLen
	std := binary.LittleEndian.Uint32(frame[end:])
	want := ^slowCRC(^std, frame[bth:bth+32])
	if got := ICRCFlushRXE(std, frame[bth:]); got != want {
		t.Errorf("ICRCFlushRXE = %#x, want %#x", got, want)
	}
}

func flushFrame() testFrame {
	ext := make([]byte, FETHLen+RETHLen)
	FETHAt(ext).Encode(&FETHFields{Placement: PlacementGlobal})
	RETHAt(ext[FETHLen:]).Encode(&RETHFields{VA: 0x7F0000001000, RKey: 0x1234, DMALen: 64})
	return testFrame{path: testV4, bth: BTHFields{Opcode: RC | Flush, PKey: DefaultPKey, DestQP: 0x11, AckReq: true, PSN: 5}, ext: ext}
}
