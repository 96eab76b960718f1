package wire

import (
	"fmt"
	"testing"
)

// sink keeps results alive.
var sink uint32

func benchSizes(b *testing.B, sizes []int, run func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) { run(b, n) })
	}
}

func BenchmarkICRC(b *testing.B) {
	benchSizes(b, []int{0, 64, 1024, 4096}, func(b *testing.B, n int) {
		f := sendOnly(testV4, n)
		frame := f.bytes()
		b.SetBytes(int64(n))
		for b.Loop() {
			sink = ICRC(frame, EthernetLen, len(frame)-EthernetLen-ICRCLen)
		}
	})
}

func BenchmarkICRCReadOnly(b *testing.B) {
	benchSizes(b, []int{64, 4096}, func(b *testing.B, n int) {
		f := sendOnly(testV4, n)
		ip := f.bytes()[EthernetLen:]
		b.SetBytes(int64(n))
		for b.Loop() {
			sink = ICRCReadOnly(ip, len(ip)-ICRCLen)
		}
	})
}

func BenchmarkICRCTwoSegments(b *testing.B) {
	f := sendOnly(testV4, 4096)
	frame := f.bytes()
	segs := cut(frame, 3840)
	b.SetBytes(4096)
	for b.Loop() {
		sink = ICRC(segs[0], EthernetLen, len(frame)-EthernetLen-ICRCLen, segs[1:]...)
	}
}

func BenchmarkParseHeaders(b *testing.B) {
	for name, path := range map[string]PathFields{"IPv4": testV4, "IPv6": testV6} {
		b.Run(name, func(b *testing.B) {
			f := sendOnly(path, 64)
			frame := f.bytes()
			var p Packet
			for b.Loop() {
				if p.ParseHeaders(frame) != Accept {
					b.Fatal("dropped")
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	benchSizes(b, []int{0, 64, 1024, 4096}, func(b *testing.B, n int) {
		f := sendOnly(testV4, n)
		frame := f.bytes()
		segs := [][]byte{frame}
		if len(frame) > 3840 {
			segs = cut(frame, 3840)
		}
		var p Packet
		b.SetBytes(int64(n))
		for b.Loop() {
			if p.Parse(segs...) != Accept {
				b.Fatal("dropped")
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var path Path
	if err := path.Set(&testV4); err != nil {
		b.Fatal(err)
	}
	bth := BTHFields{Opcode: RC | WriteOnly, PKey: DefaultPKey, DestQP: 0x11, AckReq: true}
	reth := RETHFields{VA: 0x7F0000001000, RKey: 0x1234, DMALen: 64}
	frame := make([]byte, path.Len()+BTHLen+RETHLen+64+ICRCLen)
	b.Run("headers", func(b *testing.B) {
		for b.Loop() {
			n := path.Put(frame, len(frame)-path.Len(), 0)
			BTHAt(frame[n:]).Encode(&bth)
			RETHAt(frame[n+BTHLen:]).Encode(&reth)
		}
	})
	b.Run("headers and ICRC", func(b *testing.B) {
		for b.Loop() {
			n := path.Put(frame, len(frame)-path.Len(), 0)
			BTHAt(frame[n:]).Encode(&bth)
			RETHAt(frame[n+BTHLen:]).Encode(&reth)
			PutICRC(frame, path.L3())
		}
	})
}
