package wire

import "testing"

// Nothing on the datapath allocates.
func TestNoAllocation(t *testing.T) {
	f := sendOnly(testV6, 4096)
	frame := f.bytes()
	segs := cut(frame, 3840, 4100)
	flush := flushFrame()
	flushed := flush.bytes()
	bad := append([]byte(nil), frame...)
	bad[len(bad)-1]++
	var path Path
	if err := path.Set(&testV4); err != nil {
		t.Fatal(err)
	}
	var p Packet
	out := make([]byte, 256)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Parse", func() { p.Parse(frame) }},
		{"Parse of segments", func() { p.Parse(segs...) }},
		{"Parse of a stack of segments", func() {
			two := [2][]byte{segs[0], segs[1]}
			p.Parse(two[0], two[1])
		}},
		{"Parse of a FLUSH", func() { p.Parse(flushed) }},
		{"Parse of a bad frame", func() { p.Parse(bad) }},
		{"Parse into a local packet", func() {
			var q Packet
			if q.Parse(frame) == Accept {
				sink += q.Hdr().DestQP()
			}
		}},
		{"ParseReadOnly", func() { p.ParseReadOnly(segs...) }},
		{"ICRC", func() { sink = ICRC(segs[0], EthernetLen, 4100, segs[1], segs[2]) }},
		{"ICRCReadOnly", func() { sink = ICRCReadOnly(segs[0][EthernetLen:], 4100, segs[1], segs[2]) }},
		{"encode", func() {
			n := path.Put(out, 128, 1)
			BTHAt(out[n:]).Encode(&BTHFields{Opcode: RC | WriteOnly, DestQP: 1})
			RETHAt(out[n+BTHLen:]).Encode(&RETHFields{VA: 1, DMALen: 2})
			PutICRC(out[:n+128], path.L3())
		}},
	} {
		if n := testing.AllocsPerRun(100, c.run); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
