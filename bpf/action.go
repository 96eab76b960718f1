package bpf

import "fmt"

// Action is what becomes of a frame that is RoCEv2 for us and cannot be delivered.
type Action uint8

const (
	// ActionDrop drops the frame: the kernel does not see it.
	ActionDrop Action = iota
	// ActionPass leaves the frame to the kernel, for example to its own rdma_rxe.
	ActionPass
)

// Numbers of enum xdp_action, as the program's config map holds them.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

// String gives the action's name in configuration files.
func (a Action) String() string {
	switch a {
	case ActionDrop:
		return "drop"
	case ActionPass:
		return "pass"
	default:
		return fmt.Sprintf("Action(%d)", uint8(a))
	}
}

// ParseAction is the inverse of [Action.String].
func ParseAction(s string) (Action, error) {
	switch s {
	case "drop":
		return ActionDrop, nil
	case "pass":
		return ActionPass, nil
	default:
		return 0, fmt.Errorf("bpf: unknown action %q: want drop or pass", s)
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Action) UnmarshalText(text []byte) error {
	v, err := ParseAction(string(text))
	if err == nil {
		*a = v
	}
	return err
}

// xdp gives the action's number for the program. Everything but ActionPass drops.
func (a Action) xdp() uint32 {
	if a == ActionPass {
		return xdpPass
	}
	return xdpDrop
}
