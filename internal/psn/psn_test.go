package psn

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestOrderAcrossWrap(t *testing.T) {
	conformance.Rule(t, "6.1-1")
	for _, c := range []struct {
		p, q PSN
		sub  int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, Mask, 1},
		{Mask, 0, -1},
		{5, 0xfffffe, 7},
		{Half - 1, 0, Half - 1},
		{Half, 0, -Half},
	} {
		if got := c.p.Sub(c.q); got != c.sub {
			t.Errorf("%#x.Sub(%#x) = %d, want %d", c.p, c.q, got, c.sub)
		}
		if got, want := c.p.Less(c.q), c.sub < 0; got != want {
			t.Errorf("%#x.Less(%#x) = %v", c.p, c.q, got)
		}
		if got, want := c.p.LessEq(c.q), c.sub <= 0; got != want {
			t.Errorf("%#x.LessEq(%#x) = %v", c.p, c.q, got)
		}
	}
	if got := PSN(Mask).Next(); got != 0 {
		t.Errorf("Next of the last PSN is %#x", got)
	}
	if Of(0x1234567) != 0x234567 {
		t.Error("Of keeps more than 24 bits")
	}
}

func TestAddUndoesSub(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := PSN(rapid.Uint32Range(0, Mask).Draw(t, "p"))
		n := rapid.IntRange(-Half, Half-1).Draw(t, "n")
		if got := p.Add(n).Sub(p); got != n {
			t.Fatalf("(%#x+%d)-%#x = %d", p, n, p, got)
		}
		k := rapid.IntRange(0, Half-1).Draw(t, "k")
		if in := p.Add(n).In(p, k); in != (n >= 0 && n < k) {
			t.Fatalf("In(%#x, %d) of +%d = %v", p, k, n, in)
		}
	})
}
