package ibv

import (
	"net/netip"
	"testing"
)

func TestScope(t *testing.T) {
	for _, tc := range []struct {
		name, addr string
		index      uint32
		want       string
		scope      uint32
	}{
		{"link-local", "fe80::1", 7, "fe80::1%7", 7},
		{"the largest index", "fe80::1", 1<<31 - 1, "fe80::1%2147483647", 1<<31 - 1},
		{"another zone before", "fe80::1%eth0", 7, "fe80::1%7", 7},
		{"no interface", "fe80::1%eth0", 0, "fe80::1", 0},
		{"link-local group", "ff02::5", 7, "ff02::5%7", 7},
		{"group of the site", "ff05::5", 7, "ff05::5", 0},
		{"global", "2001:db8::1%eth0", 7, "2001:db8::1", 0},
		{"IPv4", "169.254.0.1", 7, "169.254.0.1", 0},
		{"IPv4-mapped", "::ffff:192.0.2.1", 7, "192.0.2.1", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := WithScope(netip.MustParseAddr(tc.addr), tc.index)
			if got.String() != tc.want || Scope(got) != tc.scope {
				t.Errorf("%s with scope %d", got, Scope(got))
			}
		})
	}
	if got := WithScope(netip.Addr{}, 7); got.IsValid() || Scope(got) != 0 {
		t.Errorf("no address became %v", got)
	}
	for _, zone := range []string{"%eth0", "", "%2147483648", "%-1", "%0"} {
		if got := Scope(netip.MustParseAddr("fe80::1" + zone)); got != 0 {
			t.Errorf("fe80::1%s is of interface %d", zone, got)
		}
	}
}
