package wire

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestSyndromeKinds(t *testing.T) {
	for i := range 256 {
		s, want := Syndrome(i), KindReserved
		switch {
		case i < 0x20:
			want = KindACK
		case i < 0x40:
			want = KindRNR
		case i >= 0x60 && i < 0x80:
			want = KindNAK
		}
		if got := s.Kind(); got != want {
			t.Errorf("syndrome %#02x: kind %d, want %d", i, got, want)
		}
		if got := int(s.Code()); got != i%32 {
			t.Errorf("syndrome %#02x: code %d, want %d", i, got, i%32)
		}
	}
}

func TestSyndromeConstructors(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want Syndrome
	}{
		{"ACK, no credits", SynACK(NoCredits), 0x1F},
		{"ACK, credit code 0", SynACK(0), 0x00},
		{"ACK, code too large", SynACK(0x25), 0x05},
		{"RNR, timer 20", SynRNR(20), 0x34},
		{"RNR, timer 0", SynRNR(0), 0x20},
		{"RNR, code too large", SynRNR(0xE1), 0x21},
		{"PSN sequence", NakPSNSeq, 0x60},
		{"invalid request", NakInvalidRequest, 0x61},
		{"remote access", NakRemoteAccess, 0x62},
		{"remote operation", NakRemoteOp, 0x63},
		{"invalid RD", NakInvalidRD, 0x64},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#02x, want %#02x", c.name, c.got, c.want)
		}
	}
}

// Each credit code is a power of two or three halves of one.
func TestCredits(t *testing.T) {
	conformance.Rule(t, "5.2-1")
	small := []int{0, 1, 2, 3}
	for code := range uint8(31) {
		want := 0
		if code < 4 {
			want = small[code]
		} else if code%2 == 0 {
			want = 1 << (code / 2)
		} else {
			want = 3 << (code/2 - 1)
		}
		if got := Credits(code); got != want {
			t.Errorf("Credits(%d) = %d, want %d", code, got, want)
		}
	}
	if got := Credits(NoCredits); got != -1 {
		t.Errorf("Credits(NoCredits) = %d, want -1", got)
	}
	if got := Credits(0x60 | 4); got != 4 {
		t.Errorf("Credits looks at more than five bits: %d", got)
	}
}

func TestCreditCode(t *testing.T) {
	for _, c := range []struct {
		n    int
		want uint8
	}{
		{-1, 0}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 4}, {6, 5}, {7, 5}, {8, 6}, {11, 6}, {12, 7},
		{500, 17}, {512, 18}, {32767, 29}, {32768, 30}, {1 << 30, 30},
	} {
		if got := CreditCode(c.n); got != c.want {
			t.Errorf("CreditCode(%d) = %d, want %d", c.n, got, c.want)
		}
	}
	for n := range 40000 {
		if code := CreditCode(n); Credits(code) > n || code < 30 && Credits(code+1) <= n {
			t.Fatalf("CreditCode(%d) = %d, which promises %d", n, code, Credits(code))
		}
	}
}

func TestRNRTimer(t *testing.T) {
	conformance.Rule(t, "5.3-1")
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 5: 60 * time.Microsecond, 12: 640 * time.Microsecond,
		14: 1280 * time.Microsecond, 20: 10240 * time.Microsecond, 25: 61440 * time.Microsecond, 31: 491520 * time.Microsecond,
		32: 655360 * time.Microsecond,
	} {
		if got := RNRTimer(code); got != want {
			t.Errorf("RNRTimer(%d) = %v, want %v", code, got, want)
		}
	}
	// From code 2 on, each is 10 us times a credit count; 0 stands for 32.
	for code := uint8(1); code < 32; code++ {
		if got, want := RNRTimer(code), 10*time.Microsecond*time.Duration(rnrUnits(code)); got != want {
			t.Errorf("RNRTimer(%d) = %v, want %v", code, got, want)
		}
	}
}

// rnrUnits is 1, 2, 3, 4, 6, 8, 12, ...: powers of two and three halves.
func rnrUnits(code uint8) int {
	switch {
	case code < 4:
		return int(code)
	case code%2 == 0:
		return 1 << (code / 2)
	}
	return 3 << (code/2 - 1)
}
