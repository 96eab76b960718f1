package config

import (
	"testing"

	"pgregory.net/rapid"
)

func TestSizesAndRates(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "4KiB": 4096, "64 MiB": 64 << 20, "3GiB": 3 << 30, "8388607TiB": 8388607 << 40,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "64", "64MB", "-1KiB", "1.5GiB", "8388608TiB", "MiB", "1 M iB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
	for text, want := range map[string]Rate{"8bit": 8, "100Mbit": 1e8, "25Gbit": 25e9, "1Tbit": 1e12, "7Kbit": 7000} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want || r.String() != text {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
}

// What is printed is read as the same.
func TestSizeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Min(0).Draw(t, "size") >> rapid.IntRange(0, 40).Draw(t, "by"))
		var got Size
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Errorf("%d is printed as %v and read as %d, %v", want, want, got, err)
		}
	})
}

func TestNames(t *testing.T) {
	var (
		s Socket
		p Poll
		c Congestion
	)
	for _, n := range socketNames {
		if err := s.UnmarshalText([]byte(n)); err != nil || s.String() != n {
			t.Errorf("socket %q is %v, %v", n, s, err)
		}
	}
	for _, n := range pollNames {
		if err := p.UnmarshalText([]byte(n)); err != nil || p.String() != n {
			t.Errorf("poll %q is %v, %v", n, p, err)
		}
	}
	for _, n := range congestionNames {
		if err := c.UnmarshalText([]byte(n)); err != nil || c.String() != n {
			t.Errorf("congestion %q is %v, %v", n, c, err)
		}
	}
}
