package wire

import (
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestMulticastMAC(t *testing.T) {
	conformance.Rule(t, "8.4-2", "8.4-3")
	for _, tt := range []struct {
		group string
		want  [6]byte
	}{
		{"224.0.0.1", [6]byte{0x01, 0x00, 0x5e, 0, 0, 1}},
		{"239.255.254.253", [6]byte{0x01, 0x00, 0x5e, 0x7f, 0xfe, 0xfd}}, // bit 23 is not in it
		{"239.127.254.253", [6]byte{0x01, 0x00, 0x5e, 0x7f, 0xfe, 0xfd}},
		{"ff02::1", [6]byte{0x33, 0x33, 0, 0, 0, 1}},
		{"ff0e::ffff:ef01:203", [6]byte{0x33, 0x33, 0xef, 1, 2, 3}}, // RoCEv1's form of 239.1.2.3
	} {
		gid := netip.MustParseAddr(tt.group).As16()
		if got := MulticastMAC(&gid); got != tt.want {
			t.Errorf("%s: %x, want %x", tt.group, got, tt.want)
		}
	}
}
