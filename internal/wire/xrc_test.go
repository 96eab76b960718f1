package wire

import (
	"bytes"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

// xrcFrame is a frame of an XRC opcode, with n bytes of payload if that may have
// any. Its headers after the BTH count up from 1, but for the reserved byte of the
// XRCETH.
func xrcFrame(tb testing.TB, op Opcode, n int) []byte {
	tb.Helper()
	info := op.Info()
	if !info.Payload {
		n = 0
	}
	var path Path
	if err := path.Set(&testV4); err != nil {
		tb.Fatal(err)
	}
	ib := make([]byte, info.HeaderLen, info.HeaderLen+n+PadLen(n)+ICRCLen)
	for i := range ib {
		ib[i] = byte(i - BTHLen + 1)
	}
	if info.XRCETH != 0 {
		ib[info.XRCETH] = 0
	}
	BTHAt(ib).Encode(&BTHFields{Opcode: op, PadCnt: uint8(PadLen(n)), MigReq: true, PKey: DefaultPKey, DestQP: 0x11, PSN: 0x123456})
	ib = append(append(ib, bytes.Repeat([]byte{0xA5}, n)...), make([]byte, PadLen(n)+ICRCLen)...)
	frame := make([]byte, path.Len()+len(ib))
	copy(frame[path.Put(frame, len(ib), 7):], ib)
	PutICRC(frame, path.L3())
	return frame
}

// Every XRC packet is taken apart and put together again, and requests say which
// queue they are for before all else.
func TestXRCRoundTrip(t *testing.T) {
	conformance.Rule(t, "2.1-29")
	count := 0
	for op := XRC; op < XRC+0x20; op++ {
		info := op.Info()
		if info == nil {
			continue
		}
		count++
		frame := xrcFrame(t, op, 9)
		var p Packet
		if r := p.Parse(frame); r != Accept {
			t.Errorf("%v: %v", op, r)
			continue
		}
		if p.Opcode != op || p.Hdr().PSN() != 0x123456 {
			t.Errorf("%v: opcode %v, PSN %#x", op, p.Opcode, p.Hdr().PSN())
		}
		switch {
		case info.Response:
			if info.XRCETH != 0 {
				t.Errorf("%v has an XRCETH", op)
			}
		case info.XRCETH != BTHLen || p.XRCETH().SRQN() != 0x020304:
			t.Errorf("%v: XRCETH at %d names %#x, want 0x20304 at %d", op, info.XRCETH, p.XRCETH().SRQN(), BTHLen)
		}
		if got := reencode(&p, frame); !bytes.Equal(got, frame) {
			t.Errorf("%v:\n% x\n% x", op, frame, got)
		}
		if rc := (op & 0x1F).Info(); rc.Pos != info.Pos || rc.Payload != info.Payload || rc.Consumes != info.Consumes || rc.Completes != info.Completes {
			t.Errorf("%v is not as %v", info, rc)
		}
	}
	if count != 23 {
		t.Errorf("%d XRC opcodes, want 23", count)
	}
}
