package wire

import (
	"bytes"
	"testing"
)

// fuzzSeeds adds one frame of each kind of packet.
func fuzzSeeds(f *testing.F, add func(frame []byte)) {
	f.Helper()
	for _, name := range []string{"hca-cnp", "uc-send", "hca-cm-req", "hca-rc-send", "hca-rc-ack-1"} {
		add(hexFrame(f, name))
	}
	for _, name := range []string{"rc-flush.pcap", "rc-atomic.pcap", "rc-mixed-v6.pcap", "ud-send-v6.pcap", "rc-send-inv.pcap"} {
		for _, frame := range capture(f, name)[:2] {
			add(frame)
		}
	}
	for _, op := range []Opcode{SendOnly, SendLastInv, WriteOnlyImm, ReadRequest, FetchAdd, ReadRespOnly} {
		add(xrcFrame(f, XRC|op, 5))
	}
}

// FuzzPacketParse gives Parse any bytes in any two pieces: it must not panic,
// not change them, and not point outside them.
func FuzzPacketParse(f *testing.F) {
	fuzzSeeds(f, func(frame []byte) { f.Add(frame, uint16(70)) })
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		before := bytes.Clone(b)
		segs := cut(b, min(int(at), len(b)))
		var p, q Packet
		r := p.Parse(segs...)
		if r >= NumDropReasons {
			t.Fatalf("reason %d", r)
		}
		if ro := q.ParseReadOnly(segs...); ro != r {
			t.Fatalf("Parse: %v, ParseReadOnly: %v", r, ro)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("the frame has changed")
		}
		if p.ParseHeaders(segs...) != Accept {
			return
		}
		payload := bytes.Join(p.Segments(), nil)
		start := p.l3 + len(p.IP) + UDPLen + len(p.BTH)
		if len(p.BTH) != p.Info.HeaderLen || !bytes.Equal(payload, b[start:start+p.PayloadLen]) {
			t.Fatalf("%d header bytes, payload % x of % x", len(p.BTH), payload, b)
		}
	})
}

// FuzzDecodeEncode makes bytes a frame with right lengths and ICRC, as far as
// they can be, and takes it through fields and back twice: the first round
// clears reserved bits, the second changes nothing.
func FuzzDecodeEncode(f *testing.F) {
	fuzzSeeds(f, func(frame []byte) { f.Add(frame[bthOf(frame):len(frame)-ICRCLen], frame[l3Of(frame)]>>4 == 6) })
	f.Fuzz(func(t *testing.T, ib []byte, v6 bool) {
		fields := testV4
		if v6 {
			fields = testV6
		}
		var path Path
		if err := path.Set(&fields); err != nil {
			t.Fatal(err)
		}
		ib = ib[:min(len(ib), 8192)]
		frame := make([]byte, path.Len()+len(ib)+ICRCLen)
		copy(frame[path.Put(frame, len(ib)+ICRCLen, 7):], ib)
		if len(ib) < BTHLen {
			return
		}
		PutICRC(frame, path.L3())
		var p Packet
		if p.Parse(frame) != Accept {
			return
		}
		once := reencode(&p, frame)
		var q Packet
		if r := q.Parse(once); r != Accept {
			t.Fatalf("encoded frame: %v\n% x", r, once)
		}
		if q.Hdr().Fields() != p.Hdr().Fields() || !bytes.Equal(bytes.Join(q.Segments(), nil), bytes.Join(p.Segments(), nil)) {
			t.Fatalf("fields or payload changed:\n% x\n% x", frame, once)
		}
		if twice := reencode(&q, once); !bytes.Equal(twice, once) {
			t.Fatalf("second round:\n% x\n% x", once, twice)
		}
	})
}

// FuzzICRC splits a packet anywhere after its BTH: the pieces have the ICRC of
// the whole, and that of the definition.
func FuzzICRC(f *testing.F) {
	fuzzSeeds(f, func(frame []byte) { f.Add(frame[l3Of(frame):len(frame)-ICRCLen], uint16(0), uint16(9)) })
	f.Fuzz(func(t *testing.T, ip []byte, first, second uint16) {
		if len(ip) == 0 {
			return
		}
		hdr := IPv6Len + UDPLen + BTHLen
		ip = bytes.Clone(ip)
		if ip[0]>>4 == 4 {
			hdr = IPv4Len + UDPLen + BTHLen
		} else {
			ip[0] = 0x60 | ip[0]&0x0F
		}
		if len(ip) < hdr {
			return
		}
		const l3 = EthernetLen
		b := append(make([]byte, l3), ip...)
		one := l3 + hdr + int(first)%(len(ip)-hdr+1)
		two := one + int(second)%(len(b)-one+1)
		segs := cut(b, one, two)
		want := slowICRC(ip)
		for _, got := range []uint32{
			ICRC(b, l3, len(ip)), ICRC(segs[0], l3, len(ip), segs[1:]...),
			ICRCReadOnly(ip, len(ip)), ICRCReadOnly(segs[0][l3:], len(ip), segs[1:]...),
		} {
			if got != want {
				t.Fatalf("%#x, want %#x for % x cut at %d and %d", got, want, ip, one, two)
			}
		}
	})
}
