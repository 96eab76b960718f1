package ibv

import (
	"strings"
	"testing"
)

func TestDeviceCapNames(t *testing.T) {
	for _, tt := range []struct {
		caps DeviceCap
		want string
	}{
		{0, ""},
		{DeviceXRC, "XRC"},
		{DeviceAtomicWrite | DeviceBadPKeyCntr, "BAD_PKEY_CNTR ATOMIC_WRITE"},
		{DeviceSRQResize | 1<<50 | 1, "SRQ_RESIZE 0x4000000000001"},
	} {
		if got := strings.Join(tt.caps.Names(), " "); got != tt.want {
			t.Errorf("%#x: %q, want %q", uint64(tt.caps), got, tt.want)
		}
	}
	seen := map[DeviceCap]bool{}
	for _, n := range deviceCapNames {
		if seen[n.bit] || n.bit&(n.bit-1) != 0 {
			t.Errorf("%s has the bits %#x", n.name, uint64(n.bit))
		}
		seen[n.bit] = true
	}
}

func TestODPCapNames(t *testing.T) {
	if got := (ODPSend | ODPAtomic | 1<<9).String(); got != "SEND|ATOMIC|0x200" {
		t.Error(got)
	}
}
