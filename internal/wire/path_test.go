package wire

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func TestPathBytes(t *testing.T) {
	conformance.Rule(t, "4.3-2", "4.3-5", "4.3-6", "4.3-7")
	v6 := testV6
	v6.Tagged, v6.VLAN, v6.PCP = true, 0x123, 6
	untaggedVLAN := testV4
	untaggedVLAN.VLAN, untaggedVLAN.PCP, untaggedVLAN.FlowLabel = 5, 5, 5 // none of which an untagged IPv4 frame has
	const macs = "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"
	for _, c := range []struct {
		name  string
		path  PathFields
		ibLen int
		id    uint16
		want  string
	}{
		{"IPv4", testV4, 16, 0x1234, macs + "\x08\x00" +
			// 4502+002c+1234+4000+4011+0a4d+010c+0a4d+010b is 0xee24.
			"\x45\x02\x00\x2c\x12\x34\x40\x00\x40\x11\x11\xdb\x0a\x4d\x01\x0c\x0a\x4d\x01\x0b" +
			"\xc1\x23\x12\xb7\x00\x18\x00\x00"},
		{"IPv4 without tag", untaggedVLAN, 16, 0x1234, macs + "\x08\x00" +
			"\x45\x02\x00\x2c\x12\x34\x40\x00\x40\x11\x11\xdb\x0a\x4d\x01\x0c\x0a\x4d\x01\x0b" +
			"\xc1\x23\x12\xb7\x00\x18\x00\x00"},
		{"IPv6, tag", v6, 4096 + 28 + 4, 0xFFFF, macs + "\x81\x00\xc1\x23\x86\xdd" +
			"\x66\x81\x23\x45\x10\x28\x11\x21" +
			"\xfd\x77\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c" +
			"\xfd\x77\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b" +
			"\xc1\x23\x12\xb7\x10\x28\x00\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Path
			if err := p.Set(&c.path); err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, MaxPathLen+1)
			for i := range dst {
				dst[i] = 0xEE
			}
			n := p.Put(dst, c.ibLen, c.id)
			if got := string(dst[:n]); got != c.want {
				t.Errorf("got\n% x, want\n% x", got, c.want)
			}
			if dst[n] != 0xEE {
				t.Error("Put wrote past its length")
			}
			if n != p.Len() || p.L3() != l3Of(dst) || p.IPv6() != (c.path.SrcGID[10] == 0) {
				t.Errorf("Len %d, L3 %d, IPv6 %v of %d bytes", p.Len(), p.L3(), p.IPv6(), n)
			}
		})
	}
}

func TestPathMixedFamilies(t *testing.T) {
	for _, f := range []PathFields{{SrcGID: testV4.SrcGID, DstGID: testV6.DstGID}, {SrcGID: testV6.SrcGID, DstGID: testV4.DstGID}} {
		if err := new(Path).Set(&f); !errors.Is(err, ErrMixedFamilies) {
			t.Errorf("from %x to %x: %v, want ErrMixedFamilies", f.SrcGID, f.DstGID, err)
		}
	}
}

func TestPathDefaultTTL(t *testing.T) {
	conformance.Rule(t, "4.3-3")
	for _, f := range []PathFields{testV4, testV6} {
		f.TTL = 0
		frame := testFrame{path: f, bth: BTHFields{Opcode: RC | SendOnly, DestQP: 1}}
		var p Packet
		if r := p.Parse(frame.bytes()); r != Accept || p.TTL != 64 {
			t.Errorf("TTL 0: %v with TTL %d, want 64", r, p.TTL)
		}
	}
}

// What Put writes, Parse reads: every field, and a right IPv4 checksum.
func TestPathRoundTrip(t *testing.T) {
	conformance.Rule(t, "4.3-1", "4.3-2", "4.3-4")
	rapid.Check(t, func(t *rapid.T) {
		f := PathFields{
			Tagged: rapid.Bool().Draw(t, "tagged"), PCP: rapid.Uint8Max(7).Draw(t, "pcp"), VLAN: rapid.Uint16Max(0xFFF).Draw(t, "vlan"),
			TOS: rapid.Uint8().Draw(t, "tos"), TTL: rapid.Uint8Min(1).Draw(t, "ttl"), UDPSrcPort: rapid.Uint16().Draw(t, "port"),
		}
		copy(f.SrcMAC[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "src mac"))
		copy(f.DstMAC[:], rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "dst mac"))
		v6 := rapid.Bool().Draw(t, "v6")
		if v6 {
			f.FlowLabel = rapid.Uint32Max(0xFFFFF).Draw(t, "label")
			f.SrcGID[0], f.DstGID[0] = 0x20, 0x20
		} else {
			f.SrcGID = [16]byte{10: 0xFF, 11: 0xFF}
			f.DstGID = f.SrcGID
		}
		copy(f.SrcGID[12:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "src"))
		copy(f.DstGID[12:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "dst"))

		frame := sendOnly(f, rapid.IntRange(0, 4096).Draw(t, "payload"))
		frame.id = rapid.Uint16().Draw(t, "id")
		b := frame.bytes()
		var p Packet
		if r := p.Parse(b); r != Accept {
			t.Fatalf("Parse: %v", r)
		}
		got := PathFields{
			DstMAC: p.DstMAC, SrcMAC: p.SrcMAC, Tagged: f.Tagged, VLAN: p.VLAN, PCP: f.PCP, SrcGID: p.SrcGID, DstGID: p.DstGID,
			TOS: p.TOS, TTL: p.TTL, FlowLabel: p.FlowLabel, UDPSrcPort: p.UDPSrcPort,
		}
		if !f.Tagged {
			got.VLAN = f.VLAN
		}
		if got != f {
			t.Fatalf("got  %+v\nwant %+v", got, f)
		}
		if ip := IPv4At(b[l3Of(b):]); !v6 && (ip.Checksum() != ip.ComputeChecksum() || ip.ID() != frame.id || !ip.DF()) {
			t.Fatalf("IPv4 header % x: checksum should be %#x, ID %#x, DF set", ip[:], ip.ComputeChecksum(), frame.id)
		}
	})
}
