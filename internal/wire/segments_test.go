package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A frame cut anywhere after its headers is the same packet as in one piece.
func TestSegmentsAreOnePiece(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]PathFields{testV4, testV6}).Draw(t, "path")
		f := sendOnly(path, rapid.IntRange(0, 300).Draw(t, "payload"))
		b := append(f.bytes(), make([]byte, rapid.IntRange(0, 12).Draw(t, "padding"))...)
		segs := cut(b, cutPoints(t, bthOf(b)+BTHLen, len(b))...)
		var p Packet
		if r := p.Parse(segs...); r != Accept {
			t.Fatalf("Parse: %v", r)
		}
		if got := bytes.Join(p.Segments(), nil); !bytes.Equal(got, f.data) || p.PayloadLen != len(f.data) {
			t.Fatalf("payload % x of length %d, want % x", got, p.PayloadLen, f.data)
		}
		for i, s := range p.Segments() {
			if len(s) == 0 || cap(s) != len(s) {
				t.Fatalf("segment %d: length %d, capacity %d", i, len(s), cap(s))
			}
		}
		if r := p.ParseReadOnly(segs...); r != Accept {
			t.Fatalf("ParseReadOnly: %v", r)
		}
		// The last covered byte and the ICRC's bytes count wherever they are.
		i := bthOf(b) + BTHLen + len(f.data) + PadLen(len(f.data)) + rapid.IntRange(-1, 3).Draw(t, "flip")
		b[i] ^= 0x40
		if r := p.Parse(segs...); r != DropICRC {
			t.Fatalf("byte %d changed: %v, want %v", i, r, DropICRC)
		}
	})
}

// Cut short, or cut within the headers, at every offset.
func TestEveryCut(t *testing.T) {
	tagged := testV6
	tagged.Tagged = true
	for _, path := range []PathFields{testV4, testV6, tagged} {
		f := testFrame{path: path, bth: BTHFields{Opcode: RC | WriteOnly, DestQP: 1}, ext: make([]byte, RETHLen), data: pattern(7)}
		b := f.bytes()
		headers := bthOf(b) + BTHLen + RETHLen
		var p Packet
		for n := range len(b) {
			if r := p.Parse(b[:n:n]); r != DropTruncated {
				t.Errorf("first %d of %d bytes: %v, want %v", n, len(b), r, DropTruncated)
			}
			want := Accept
			if n < headers {
				want = DropSplit
			}
			if r := p.Parse(cut(b, n)...); r != want {
				t.Errorf("cut at %d, headers to %d: %v, want %v", n, headers, r, want)
			}
		}
	}
}

func TestNumberOfSegments(t *testing.T) {
	f := sendOnly(testV4, 100)
	b := f.bytes()
	at := bthOf(b) + BTHLen
	var p Packet
	if r := p.Parse(); r != DropSegments {
		t.Errorf("no segment: %v, want %v", r, DropSegments)
	}
	if r := p.Parse(nil); r != DropTruncated {
		t.Errorf("an empty segment: %v, want %v", r, DropTruncated)
	}
	if r := p.Parse(cut(b, at, at+1, at+2, at+3, at+4, at+5, at+6)...); r != Accept || len(p.Segments()) != MaxSegments-1 {
		t.Errorf("eight segments: %v, payload in %d", r, len(p.Segments()))
	}
	if r := p.Parse(cut(b, at, at+1, at+2, at+3, at+4, at+5, at+6, at+7)...); r != DropSegments {
		t.Errorf("nine segments: %v, want %v", r, DropSegments)
	}
	if r := p.Parse(cut(b, at, at, at, len(b)-2, len(b)-2)...); r != Accept || len(p.Segments()) != 1 {
		t.Errorf("empty segments between: %v, payload in %d", r, len(p.Segments()))
	}
}
