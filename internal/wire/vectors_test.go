package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/pcap"
)

// capture reads one file of testdata/vectors.
func capture(t testing.TB, name string) [][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcap.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	ps, err := r.ReadAll()
	if err != nil || r.LinkType != pcap.LinkEthernet {
		t.Fatalf("%s: link type %d, %v", name, r.LinkType, err)
	}
	var frames [][]byte
	for _, p := range ps {
		frames = append(frames, p.Data)
	}
	return frames
}

// vectorTable is the README's table: file name to opcodes.
func vectorTable(t testing.TB) map[string][]Opcode {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors/README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]Opcode{}
	for line := range strings.Lines(string(text)) {
		col := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(col) != 4 || !strings.Contains(col[0], ".pcap") {
			continue
		}
		var ops []Opcode
		for _, word := range strings.Fields(col[3]) {
			op, times, repeated := strings.Cut(word, "x")
			n := 1
			if repeated {
				n = number(t, times)
			}
			for range n {
				ops = append(ops, Opcode(number(t, op)))
			}
		}
		if packets := number(t, strings.TrimSpace(col[2])); packets != len(ops) {
			t.Fatalf("README: %s has %d packets and %d opcodes", col[0], packets, len(ops))
		}
		table[strings.TrimSpace(col[0])] = ops
	}
	return table
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eachVector runs f on every packet of every capture.
func eachVector(t *testing.T, f func(t *testing.T, name string, n int, frame []byte)) {
	for name := range vectorTable(t) {
		for n, frame := range capture(t, name) {
			f(t, name, n+1, frame)
		}
	}
}

func TestVectorOpcodes(t *testing.T) {
	table := vectorTable(t)
	files, err := filepath.Glob("testdata/vectors/*.pcap")
	if err != nil || len(files) != len(table) || len(files) == 0 {
		t.Fatalf("%d captures, %d in the README, %v", len(files), len(table), err)
	}
	for name, want := range table {
		var got []Opcode
		for _, frame := range capture(t, name) {
			var p Packet
			if r := p.Parse(frame); r != Accept {
				t.Errorf("%s, packet %d: %v", name, len(got)+1, r)
			}
			got = append(got, p.Opcode)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-README +capture):\n%s", name, d)
		}
	}
}

func TestVectorsReencode(t *testing.T) {
	conformance.Rule(t, "3.3-1")
	forms := map[ICRCForm]int{}
	eachVector(t, func(t *testing.T, name string, n int, frame []byte) {
		var p Packet
		if r := p.Parse(frame); r != Accept {
			t.Errorf("%s, packet %d: %v", name, n, r)
			return
		}
		forms[p.ICRC]++
		if d := cmp.Diff(frame, reencode(&p, frame)); d != "" {
			t.Errorf("%s, packet %d: (-captured +encoded)\n%s", name, n, d)
		}
		if p.ICRC == ICRCRXE && (name != "rc-flush.pcap" || p.Opcode != RC|Flush) {
			t.Errorf("%s, packet %d: %v with rxe's ICRC", name, n, p.Opcode)
		}
	})
	if want := map[ICRCForm]int{ICRCStandard: 503, ICRCRXE: 2}; !cmp.Equal(forms, want) {
		t.Errorf("ICRC forms %v, want %v", forms, want)
	}
}

// masked reports whether the ICRC does not see a bit: byte off of the packet,
// counted from the IP header.
func masked(p *Packet, off int, bit byte) bool {
	bth := IPv4Len + UDPLen
	if p.IPv6 {
		bth = IPv6Len + UDPLen
	}
	switch off {
	case bth - 2, bth - 1: // UDP checksum
		return true
	case bth: // opcode
		return false
	case bth + 4: // FECN, BECN, reserved; rxe's second pass sees them
		return p.ICRC != ICRCRXE
	}
	if p.IPv6 {
		return off == 0 && bit < 0x10 || off >= 1 && off <= 3 || off == 7
	}
	return off == 1 || off == 8 || off == 10 || off == 11
}

func TestVectorsEveryBit(t *testing.T) {
	conformance.Rule(t, "3.1-2", "3.1-3", "3.1-4", "3.1-5", "3.1-6")
	flipped := 0
	eachVector(t, func(t *testing.T, name string, n int, frame []byte) {
		var p, q Packet
		if r := p.Parse(frame); r != Accept {
			t.Fatalf("%s, packet %d: %v", name, n, r)
		}
		end := p.l3 + p.covered + ICRCLen
		for i := p.l3; i < end; i++ {
			for bit := byte(1); bit != 0; bit <<= 1 {
				frame[i] ^= bit
				r := q.Parse(frame)
				frame[i] ^= bit
				if accepted := r == Accept; accepted != masked(&p, i-p.l3, bit) {
					t.Fatalf("%s, packet %d, byte %d from the IP header, bit %#02x changed: %v", name, n, i-p.l3, bit, r)
				}
				flipped++
			}
		}
	})
	if flipped < 1e6 {
		t.Errorf("only %d bits changed", flipped)
	}
}

// hexFrame reads one file of testdata/public.
func hexFrame(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "public", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestPublicPackets(t *testing.T) {
	conformance.Rule(t, "3.1-8", "3.3-1")
	for _, c := range []struct {
		name string
		want BTHFields
		icrc string
		pay  int
	}{
		{"hca-cnp", BTHFields{Opcode: CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}, "\x82\xfd\x00\x2a", 0},
		{"uc-send", BTHFields{Opcode: UC | SendOnly, MigReq: true, PadCnt: 2, PKey: 0xFFFF, DestQP: 211, PSN: 13571856}, "\x78\xf3\x53\xf3", 18},
		{"hca-cm-req", BTHFields{Opcode: UD | SendOnly, MigReq: true, PKey: 0xFFFF, DestQP: 1, PSN: 0x1CC}, "\x2f\xcc\x9e\x99", 256},
		{"hca-cm-rtu", BTHFields{Opcode: UD | SendOnly, MigReq: true, PKey: 0xFFFF, DestQP: 1, PSN: 0x1CD}, "\xa2\x86\xb2\x50", 256},
		{"hca-rc-send", BTHFields{Opcode: RC | SendOnly, MigReq: true, PKey: 0xFFFF, DestQP: 0xDEADED, AckReq: true, PSN: 0xFEDFED}, "\x1e\x08\x3e\xd6", 192},
		{"hca-rc-ack-1", BTHFields{Opcode: RC | Acknowledge, MigReq: true, PKey: 0xFFFF, DestQP: 0xDEADED, PSN: 0xCF7BF7}, "\x59\xca\xea\xf7", 0},
		{"hca-rc-ack-2", BTHFields{Opcode: RC | Acknowledge, MigReq: true, PKey: 0xFFFF, DestQP: 0xDEADED, PSN: 0xCF7BF9}, "\xa4\xda\x30\xef", 0},
	} {
		frame := hexFrame(t, c.name)
		var p Packet
		if r := p.Parse(frame); r != Accept || p.ICRC != ICRCStandard {
			t.Errorf("%s: %v, ICRC form %d", c.name, r, p.ICRC)
			continue
		}
		if d := cmp.Diff(c.want, p.Hdr().Fields()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if p.PayloadLen != c.pay {
			t.Errorf("%s: payload of %d bytes, want %d", c.name, p.PayloadLen, c.pay)
		}
		if got := string(frame[len(frame)-4:]); got != c.icrc {
			t.Errorf("%s: ICRC % x in the file, published as % x", c.name, got, c.icrc)
		}
		if got := reencode(&p, frame); !bytes.Equal(got, frame) {
			t.Errorf("%s: encoded % x, want % x", c.name, got, frame)
		}
	}
}
