package wire

import (
	"fmt"
	"strings"
	"testing"
)

// opcodeTable is the opcode table of the specification, one packet to a line:
// opcode, name, then P payload, R response, S SEND, W WRITE, c consumes and C
// completes a receive; F first, M middle, L last, O only; bytes up to the
// payload; extension headers and their offsets.
const opcodeTable = `
00 RC SEND_FIRST                      PSc  F 12
01 RC SEND_MIDDLE                     PS   M 12
02 RC SEND_LAST                       PSC  L 12
03 RC SEND_LAST_WITH_IMMEDIATE        PSC  L 16 ImmDt=12
04 RC SEND_ONLY                       PScC O 12
05 RC SEND_ONLY_WITH_IMMEDIATE        PScC O 16 ImmDt=12
06 RC RDMA_WRITE_FIRST                PW   F 28 RETH=12
07 RC RDMA_WRITE_MIDDLE               PW   M 12
08 RC RDMA_WRITE_LAST                 PW   L 12
09 RC RDMA_WRITE_LAST_WITH_IMMEDIATE  PWcC L 16 ImmDt=12
0A RC RDMA_WRITE_ONLY                 PW   O 28 RETH=12
0B RC RDMA_WRITE_ONLY_WITH_IMMEDIATE  PWcC O 32 RETH=12 ImmDt=28
0C RC RDMA_READ_REQUEST               -    O 28 RETH=12
0D RC RDMA_READ_RESPONSE_FIRST        PR   F 16 AETH=12
0E RC RDMA_READ_RESPONSE_MIDDLE       PR   M 12
0F RC RDMA_READ_RESPONSE_LAST         PR   L 16 AETH=12
10 RC RDMA_READ_RESPONSE_ONLY         PR   O 16 AETH=12
11 RC ACKNOWLEDGE                     R    O 16 AETH=12
12 RC ATOMIC_ACKNOWLEDGE              R    O 24 AETH=12 AtomicAckETH=16
13 RC COMPARE_SWAP                    -    O 40 AtomicETH=12
14 RC FETCH_ADD                       -    O 40 AtomicETH=12
16 RC SEND_LAST_WITH_INVALIDATE       PSC  L 16 IETH=12
17 RC SEND_ONLY_WITH_INVALIDATE       PScC O 16 IETH=12
1C RC FLUSH                           -    O 32 FETH=12 RETH=16
1D RC ATOMIC_WRITE                    P    O 28 RETH=12
20 UC SEND_FIRST                      PSc  F 12
21 UC SEND_MIDDLE                     PS   M 12
22 UC SEND_LAST                       PSC  L 12
23 UC SEND_LAST_WITH_IMMEDIATE        PSC  L 16 ImmDt=12
24 UC SEND_ONLY                       PScC O 12
25 UC SEND_ONLY_WITH_IMMEDIATE        PScC O 16 ImmDt=12
26 UC RDMA_WRITE_FIRST                PW   F 28 RETH=12
27 UC RDMA_WRITE_MIDDLE               PW   M 12
28 UC RDMA_WRITE_LAST                 PW   L 12
29 UC RDMA_WRITE_LAST_WITH_IMMEDIATE  PWcC L 16 ImmDt=12
2A UC RDMA_WRITE_ONLY                 PW   O 28 RETH=12
2B UC RDMA_WRITE_ONLY_WITH_IMMEDIATE  PWcC O 32 RETH=12 ImmDt=28
64 UD SEND_ONLY                       PScC O 20 DETH=12
65 UD SEND_ONLY_WITH_IMMEDIATE        PScC O 24 DETH=12 ImmDt=20
81 CNP                                -    O 28 CNP
A0 XRC SEND_FIRST                     PSc  F 16 XRCETH=12
A1 XRC SEND_MIDDLE                    PS   M 16 XRCETH=12
A2 XRC SEND_LAST                      PSC  L 16 XRCETH=12
A3 XRC SEND_LAST_WITH_IMMEDIATE       PSC  L 20 XRCETH=12 ImmDt=16
A4 XRC SEND_ONLY                      PScC O 16 XRCETH=12
A5 XRC SEND_ONLY_WITH_IMMEDIATE       PScC O 20 XRCETH=12 ImmDt=16
A6 XRC RDMA_WRITE_FIRST               PW   F 32 XRCETH=12 RETH=16
A7 XRC RDMA_WRITE_MIDDLE              PW   M 16 XRCETH=12
A8 XRC RDMA_WRITE_LAST                PW   L 16 XRCETH=12
A9 XRC RDMA_WRITE_LAST_WITH_IMMEDIATE PWcC L 20 XRCETH=12 ImmDt=16
AA XRC RDMA_WRITE_ONLY                PW   O 32 XRCETH=12 RETH=16
AB XRC RDMA_WRITE_ONLY_WITH_IMMEDIATE PWcC O 36 XRCETH=12 RETH=16 ImmDt=32
AC XRC RDMA_READ_REQUEST              -    O 32 XRCETH=12 RETH=16
AD XRC RDMA_READ_RESPONSE_FIRST       PR   F 16 AETH=12
AE XRC RDMA_READ_RESPONSE_MIDDLE      PR   M 12
AF XRC RDMA_READ_RESPONSE_LAST        PR   L 16 AETH=12
B0 XRC RDMA_READ_RESPONSE_ONLY        PR   O 16 AETH=12
B1 XRC ACKNOWLEDGE                    R    O 16 AETH=12
B2 XRC ATOMIC_ACKNOWLEDGE             R    O 24 AETH=12 AtomicAckETH=16
B3 XRC COMPARE_SWAP                   -    O 44 XRCETH=12 AtomicETH=16
B4 XRC FETCH_ADD                      -    O 44 XRCETH=12 AtomicETH=16
B6 XRC SEND_LAST_WITH_INVALIDATE      PSC  L 20 XRCETH=12 IETH=16
B7 XRC SEND_ONLY_WITH_INVALIDATE      PScC O 20 XRCETH=12 IETH=16
`

// tableLine writes an entry in the form of opcodeTable, columns apart.
func tableLine(in *OpInfo) string {
	flags := ""
	for _, f := range []struct {
		on   bool
		name string
	}{{in.Payload, "P"}, {in.Response, "R"}, {in.Send, "S"}, {in.Write, "W"}, {in.Consumes, "c"}, {in.Completes, "C"}} {
		if f.on {
			flags += f.name
		}
	}
	if flags == "" {
		flags = "-"
	}
	pos := map[Position]string{First: "F", Middle: "M", Last: "L", Only: "O"}[in.Pos]
	s := fmt.Sprintf("%02X %s %s %s %d", uint8(in.Opcode), in.Name, flags, pos, in.HeaderLen)
	for _, h := range []struct {
		bit  Hdr
		name string
		off  int
	}{
		{HasXRCETH, "XRCETH", in.XRCETH}, {HasDETH, "DETH", in.DETH}, {HasFETH, "FETH", in.FETH}, {HasRETH, "RETH", in.RETH},
		{HasAtomicETH, "AtomicETH", in.AtomicETH}, {HasAETH, "AETH", in.AETH}, {HasAtomicAckETH, "AtomicAckETH", in.AtomicAckETH},
		{HasImmDt, "ImmDt", in.ImmDt}, {HasIETH, "IETH", in.IETH},
	} {
		switch {
		case in.Headers&h.bit != 0:
			s += fmt.Sprintf(" %s=%d", h.name, h.off)
		case h.off != 0:
			s += fmt.Sprintf(" no %s but =%d", h.name, h.off)
		}
	}
	if in.Headers&HasCNP != 0 {
		s += " CNP"
	}
	return s
}

func TestOpcodeTable(t *testing.T) {
	want := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(opcodeTable), "\n") {
		f := strings.Fields(line)
		want[f[0]] = strings.Join(f, " ")
	}
	if len(want) != 25+12+2+1+23 {
		t.Fatalf("the test's table has %d rows", len(want))
	}
	for i := range 256 {
		op := Opcode(i)
		got := ""
		if in := op.Info(); in != nil {
			got = tableLine(in)
			if in.Name != op.String() {
				t.Errorf("%#02x: String %q, name %q", i, op.String(), in.Name)
			}
		}
		if w := want[fmt.Sprintf("%02X", i)]; got != w {
			t.Errorf("opcode %#02x:\n got %q\nwant %q", i, got, w)
		}
	}
}

func TestUnknownOpcodeString(t *testing.T) {
	for op, want := range map[Opcode]string{0x15: "opcode 0x15", 0x80: "opcode 0x80", 0x40: "opcode 0x40", 0xFF: "opcode 0xff"} {
		if got := op.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestTransportAndOperation(t *testing.T) {
	for _, c := range []struct{ op, transport, operation Opcode }{
		{0x1C, RC, Flush}, {0x2B, UC, WriteOnlyImm}, {0x64, UD, SendOnly}, {0xB6, XRC, SendLastInv}, {CNP, 0x80, 1}, {0xFF, 0xE0, 0x1F},
	} {
		if got := c.op.Transport(); got != c.transport {
			t.Errorf("%#02x: transport %#02x, want %#02x", uint8(c.op), uint8(got), uint8(c.transport))
		}
		if got := c.op.Operation(); got != c.operation {
			t.Errorf("%#02x: operation %#02x, want %#02x", uint8(c.op), uint8(got), uint8(c.operation))
		}
	}
}

func TestMaxHeaderLen(t *testing.T) {
	longest := 0
	for i := range 256 {
		if in := Opcode(i).Info(); in != nil {
			longest = max(longest, in.HeaderLen)
		}
	}
	if longest != MaxHeaderLen {
		t.Errorf("MaxHeaderLen is %d, the longest header of the table %d", MaxHeaderLen, longest)
	}
}
