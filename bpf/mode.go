package bpf

import (
	"fmt"

	"github.com/cilium/ebpf/link"
)

// Mode is where in the receive path the program runs.
type Mode uint8

const (
	// ModeAuto means native where the driver can, else generic.
	ModeAuto Mode = iota
	// ModeNative runs in the driver, before the kernel allocates a packet.
	ModeNative
	// ModeGeneric runs in the network stack: slower, works on every interface.
	ModeGeneric
)

// String gives the mode's name.
func (m Mode) String() string {
	switch m {
	case ModeAuto:
		return "auto"
	case ModeNative:
		return "native"
	case ModeGeneric:
		return "generic"
	default:
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
}

// ParseMode is the inverse of [Mode.String]. It also takes the names that
// iproute2 and xdp-tools use: "drv" and "xdpdrv", "skb" and "xdpgeneric".
func ParseMode(s string) (Mode, error) {
	switch s {
	case "auto":
		return ModeAuto, nil
	case "native", "drv", "xdpdrv":
		return ModeNative, nil
	case "generic", "skb", "xdpgeneric":
		return ModeGeneric, nil
	default:
		return 0, fmt.Errorf("bpf: unknown XDP mode %q: want auto, native (drv) or generic (skb)", s)
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Mode) UnmarshalText(text []byte) error {
	v, err := ParseMode(string(text))
	if err == nil {
		*m = v
	}
	return err
}

// flags gives the attach flags; ModeAuto is resolved before this is asked.
func (m Mode) flags() link.XDPAttachFlags {
	if m == ModeNative {
		return link.XDPDriverMode
	}
	return link.XDPGenericMode
}
