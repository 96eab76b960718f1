package datapath

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestQPTable(t *testing.T) {
	var table qpTable
	q := &qp{}
	for _, n := range []uint32{0, 1, minQPN, 1023, 1024, maxQPN - 1} {
		if table.get(n) != nil {
			t.Errorf("%d is there", n)
		}
		table.put(n, q)
		if table.get(n) != q || table.get(n+1) == q && n+1 != 1 && n+1 != 1024 {
			t.Errorf("%d is not where it was put", n)
		}
	}
	table.put(1024, nil)
	if table.get(1024) != nil || table.get(1023) != q {
		t.Error("removing 1024")
	}
	for _, n := range []uint32{maxQPN, 1<<24 - 1, 1<<32 - 1} {
		if table.get(n) != nil {
			t.Errorf("%d is outside of the table", n)
		}
	}
}

// TestQPNumbers: numbers are in range, no two alike, and none comes again until
// all have been used.
func TestQPNumbers(t *testing.T) {
	conformance.Rule(t, "7.3-4")
	var table qpTable
	src := qpnSource{at: 12345}
	seen := make([]bool, maxQPN)
	for i := range maxQPN - minQPN {
		n, ok := src.next(&table)
		if !ok || n < minQPN || n >= maxQPN || seen[n] {
			t.Fatalf("number %d: %d, %v", i, n, ok)
		}
		seen[n] = true
	}
	again, _ := src.next(&table)
	if !seen[again] {
		t.Errorf("%d had not been used", again)
	}
	q := &qp{}
	n, _ := src.next(&table)
	table.put(n, q)
	src.at-- // the same number would be next
	if m, ok := src.next(&table); !ok || m == n {
		t.Errorf("%d is in use and was given out", m)
	}
}

func TestQPNumbersAllInUse(t *testing.T) {
	var table qpTable
	q := &qp{}
	for n := uint32(minQPN); n < maxQPN; n++ {
		table.put(n, q)
	}
	src := qpnSource{}
	if n, ok := src.next(&table); ok {
		t.Errorf("%d was given out", n)
	}
}

// frameTo is a packet to a queue pair behind tags.
func frameTo(t *testing.T, v6 bool, tags []uint16, qpn uint32) []byte {
	t.Helper()
	f := wire.PathFields{}
	if v6 {
		f.SrcGID[0], f.DstGID[0] = 0xfd, 0xfd
	} else {
		f.SrcGID[10], f.SrcGID[11], f.DstGID[10], f.DstGID[11] = 0xff, 0xff, 0xff, 0xff
	}
	var p wire.Path
	if err := p.Set(&f); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 128)
	n := p.Put(buf, wire.BTHLen+wire.ICRCLen, 0)
	h := wire.BTHAt(buf[n:])
	h.SetOpcode(wire.RC | wire.SendOnly)
	h.SetDestQP(qpn)
	buf = buf[:n+wire.BTHLen+wire.ICRCLen]
	for i := len(tags) - 1; i >= 0; i-- {
		tag := []byte{byte(tags[i] >> 8), byte(tags[i]), 0, 5}
		buf = append(buf[:12:12], append(tag, buf[12:]...)...)
	}
	return buf
}

func TestPeekQPN(t *testing.T) {
	const qpn = 0x12abcd
	for _, tt := range []struct {
		name string
		v6   bool
		tags []uint16
		min  int // bytes that are needed
	}{
		{"IPv4", false, nil, 54},
		{"IPv6", true, nil, 74},
		{"one tag", false, []uint16{wire.EtherTypeVLAN}, 58},
		{"two tags", true, []uint16{wire.EtherTypeQinQ, wire.EtherTypeVLAN}, 82},
	} {
		t.Run(tt.name, func(t *testing.T) {
			frame := frameTo(t, tt.v6, tt.tags, qpn)
			for n := range len(frame) + 1 {
				got, ok := peekQPN(frame[:n])
				if ok != (n >= tt.min) || ok && got != qpn {
					t.Errorf("%d bytes: %#x, %v", n, got, ok)
				}
			}
		})
	}
	three := frameTo(t, false, []uint16{wire.EtherTypeQinQ, wire.EtherTypeQinQ, wire.EtherTypeVLAN}, qpn)
	if _, ok := peekQPN(three); ok {
		t.Error("a third tag was passed over")
	}
	if _, ok := peekQPN(make([]byte, 100)); ok {
		t.Error("a frame of zeros has a queue pair")
	}
}
