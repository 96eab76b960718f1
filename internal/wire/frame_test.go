package wire

import "encoding/binary"

// testFrame is a frame to build: headers, extension headers and payload.
type testFrame struct {
	path PathFields
	bth  BTHFields
	ext  []byte // exactly as long as the opcode's extension headers
	data []byte
	id   uint16
}

var (
	testV4 = PathFields{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 1}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 2}, UDPSrcPort: 0xC123, TOS: 2,
		SrcGID: [16]byte{10: 0xFF, 11: 0xFF, 12: 10, 13: 77, 14: 1, 15: 12}, DstGID: [16]byte{10: 0xFF, 11: 0xFF, 12: 10, 13: 77, 14: 1, 15: 11},
	}
	testV6 = PathFields{
		DstMAC: [6]byte{2, 0, 0, 0, 0, 1}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 2}, UDPSrcPort: 0xC123, TOS: 0x68, TTL: 33, FlowLabel: 0x12345,
		SrcGID: [16]byte{0: 0xFD, 1: 0x77, 15: 12}, DstGID: [16]byte{0: 0xFD, 1: 0x77, 15: 11},
	}
)

// bytes lays the frame out.
func (f *testFrame) bytes() []byte {
	var t Path
	if err := t.Set(&f.path); err != nil {
		panic(err)
	}
	bth := f.bth
	pad := PadLen(len(f.data))
	bth.PadCnt = uint8(pad)
	b := make([]byte, t.Len()+BTHLen+len(f.ext)+len(f.data)+pad+ICRCLen)
	n := t.Put(b, len(b)-t.Len(), f.id)
	BTHAt(b[n:]).Encode(&bth)
	n += BTHLen
	n += copy(b[n:], f.ext)
	copy(b[n:], f.data)
	PutICRC(b, t.L3())
	return b
}

// sendOnly is an RC SEND_ONLY of n bytes.
func sendOnly(path PathFields, n int) testFrame {
	return testFrame{path: path, bth: BTHFields{Opcode: RC | SendOnly, PKey: DefaultPKey, DestQP: 0x11, AckReq: true, PSN: 0x1000}, data: pattern(n)}
}

// pattern is n bytes, no two neighbours alike.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(7*i + 3)
	}
	return b
}

// l3Of is the offset of the IP header.
func l3Of(frame []byte) int {
	l3 := EthernetLen
	for t := binary.BigEndian.Uint16(frame[12:]); t == EtherTypeVLAN || t == EtherTypeQinQ; l3 += VLANLen {
		t = binary.BigEndian.Uint16(frame[l3+2:])
	}
	return l3
}

// bthOf is the offset of the BTH.
func bthOf(frame []byte) int {
	l3 := l3Of(frame)
	if frame[l3]>>4 == 4 {
		return l3 + IPv4Len + UDPLen
	}
	return l3 + IPv6Len + UDPLen
}

// reseal makes the ICRC right after a change.
func reseal(frame []byte) []byte {
	PutICRC(frame, l3Of(frame))
	return frame
}

// cut splits b at the given offsets.
func cut(b []byte, at ...int) [][]byte {
	var segs [][]byte
	from := 0
	for _, to := range append(at, len(b)) {
		segs = append(segs, b[from:to:to])
		from = to
	}
	return segs
}
