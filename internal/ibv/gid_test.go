package ibv

import (
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestGIDOfAddress(t *testing.T) {
	conformance.Rule(t, "4.1-1", "4.1-2")
	for _, tc := range []struct {
		addr, gid string
		is4       bool
	}{
		{"10.77.0.12", "::ffff:10.77.0.12", true},
		{"255.255.255.255", "::ffff:255.255.255.255", true},
		{"fe80::5054:ff:fe12:3456", "fe80::5054:ff:fe12:3456", false},
		{"2001:db8::1", "2001:db8::1", false},
	} {
		a := netip.MustParseAddr(tc.addr)
		g := GIDOf(a)
		if g.String() != tc.gid || g.Is4() != tc.is4 {
			t.Errorf("%s: GID %s, IPv4 %v; want %s, %v", tc.addr, g, g.Is4(), tc.gid, tc.is4)
		}
		if g.Addr() != a {
			t.Errorf("%s: back to %s", tc.addr, g.Addr())
		}
	}
}

func TestGIDIsBytesOfTheAddress(t *testing.T) {
	conformance.Rule(t, "4.1-1")
	g := GIDOf(netip.MustParseAddr("1.2.3.4"))
	if want := (GID{10: 0xff, 11: 0xff, 12: 1, 13: 2, 14: 3, 15: 4}); g != want {
		t.Errorf("got % x", g[:])
	}
}

func TestGIDDropsTheZone(t *testing.T) {
	g := GIDOf(netip.MustParseAddr("fe80::1%eth0"))
	if want := netip.MustParseAddr("fe80::1"); g.Addr() != want {
		t.Errorf("got %s", g.Addr())
	}
}

func TestZeroGID(t *testing.T) {
	if g := GIDOf(netip.Addr{}); !g.IsZero() || g.String() != "::" {
		t.Errorf("no address gave %s", g)
	}
	if GIDOf(netip.IPv4Unspecified()).IsZero() {
		t.Error("::ffff:0.0.0.0 is not the zero GID")
	}
}

func TestEUI64(t *testing.T) {
	if got := EUI64([6]byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}); got != 0x505400fffe123456 {
		t.Errorf("GUID %#x", got)
	}
}
