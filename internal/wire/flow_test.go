package wire

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestFlowLabelToPort(t *testing.T) {
	conformance.Rule(t, "4.2-1")
	for _, c := range []struct {
		label uint32
		want  uint16
	}{
		{0, 0xC000}, {1, 0xC001}, {0x3FFF, 0xFFFF}, {0x4000, 0xC001}, {0xFFFFF, 0xFFC0},
		{0x4D8C6, 0xD8D5}, // a connection of rdma_rxe
		{0x5BA59, 0xFA4F}, // one of a ConnectX
		{0xFFF00000, 0xC000},
	} {
		if got := FlowLabelToPort(c.label); got != c.want {
			t.Errorf("FlowLabelToPort(%#x) = %#x, want %#x", c.label, got, c.want)
		}
	}
}

func TestFlowLabelFromPorts(t *testing.T) {
	conformance.Rule(t, "4.2-5")
	if got := FlowLabelFromPorts(43840, 7174); got != 0x4D8C6 {
		t.Errorf("43840 to 7174: %#x, want 0x4d8c6", got)
	}
	if got := FlowLabelFromPorts(0xFFFF, 0xFFFF); got != 0xFFFE0 {
		t.Errorf("65535 to 65535: %#x, want the low 20 bits of 32*65535", got)
	}
}

func TestFlowLabelFromQPNs(t *testing.T) {
	conformance.Rule(t, "4.2-2")
	for _, c := range []struct{ a, b, want uint32 }{
		{0x11, 0x11, 0x121},
		{0, 0x12, 0},
		// 0x1000*0x1000 = 0x1000000; >>20 is 0x10.
		{0x1000, 0x1000, 0x00010},
		// 0xfffffe000001 xor 0xfffffe0 is 0xfffff1ffffe1; xor 0xff is 0xfffff1ffff1e.
		{0xFFFFFF, 0xFFFFFF, 0xFFF1E},
	} {
		if got := FlowLabelFromQPNs(c.a, c.b); got != c.want {
			t.Errorf("FlowLabelFromQPNs(%#x, %#x) = %#x, want %#x", c.a, c.b, got, c.want)
		}
		if got := FlowLabelFromQPNs(c.b, c.a); got != c.want {
			t.Errorf("FlowLabelFromQPNs(%#x, %#x) is another at the other end", c.b, c.a)
		}
	}
}

func TestPortFromQPN(t *testing.T) {
	conformance.Rule(t, "4.2-4")
	for qpn, want := range map[uint32]uint16{0: 0xC000, 1: 0xD872, 2: 0xF0E4} {
		if got := PortFromQPN(qpn); got != want {
			t.Errorf("PortFromQPN(%d) = %#x, want %#x", qpn, got, want)
		}
	}
}
