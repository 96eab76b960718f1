package transport

import (
	"encoding/binary"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respReq is a request packet in the making. Each method returns a changed
// copy; packet lays out its bytes.
type respReq struct {
	op   wire.Opcode
	psn  psn.PSN
	ext  []byte // extension headers
	data []byte
	cuts []int // offsets at which the payload is split into segments
	ip   []byte
	from ibv.GID // source address, the peer's unless set
	ask  bool
	se   bool
	pad  int
}

func respPkt(op wire.Opcode, p psn.PSN) respReq { return respReq{op: op, psn: p, pad: -1} }

func (q respReq) with(data []byte) respReq { q.data = slices.Clone(data); return q }
func (q respReq) cut(at ...int) respReq    { q.cuts = at; return q }
func (q respReq) asks() respReq            { q.ask = true; return q }
func (q respReq) solicited() respReq       { q.se = true; return q }
func (q respReq) padded(n int) respReq     { q.pad = n; return q }

func (q respReq) extend(b []byte) respReq { q.ext = append(slices.Clone(q.ext), b...); return q }

func (q respReq) reth(va uint64, key, n uint32) respReq {
	b := binary.BigEndian.AppendUint64(nil, va)
	b = binary.BigEndian.AppendUint32(b, key)
	return q.extend(binary.BigEndian.AppendUint32(b, n))
}

func (q respReq) atomic(va uint64, key uint32, swapAdd, compare uint64) respReq {
	b := binary.BigEndian.AppendUint64(nil, va)
	b = binary.BigEndian.AppendUint32(b, key)
	b = binary.BigEndian.AppendUint64(b, swapAdd)
	return q.extend(binary.BigEndian.AppendUint64(b, compare))
}

// word appends a 4-byte header: immediate data, a key to invalidate, a FETH.
func (q respReq) word(v uint32) respReq { return q.extend(binary.BigEndian.AppendUint32(nil, v)) }

// deth appends the header of a datagram from QP 0x33.
func (q respReq) deth(key uint32) respReq { return q.word(key).word(0x33) }

// under puts the packet behind an IP header.
func (q respReq) under(ip []byte) respReq { q.ip = ip; return q }

func (q respReq) source(g ibv.GID) respReq { q.from = g; return q }

func (q respReq) packet() *wire.Packet {
	pad := q.pad
	if pad < 0 {
		pad = -len(q.data) & 3
	}
	h := []byte{byte(q.op), 0x40 | byte(pad)<<4, 0xFF, 0xFF, 0, 0, 0, 0x11}
	if q.se {
		h[1] |= 0x80
	}
	w := uint32(q.psn)
	if q.ask {
		w |= 1 << 31
	}
	h = append(binary.BigEndian.AppendUint32(h, w), q.ext...)
	p := &wire.Packet{BTH: h, Info: q.op.Info(), Opcode: q.op, PayloadLen: len(q.data), SrcGID: respPeer, DstGID: respSelf}
	p.IP = slices.Clone(q.ip)
	if !q.from.IsZero() {
		p.SrcGID = q.from
	}
	if len(h) != p.Info.HeaderLen {
		panic("headers of " + q.op.String() + " do not fit the opcode")
	}
	data, done := slices.Clone(q.data), 0
	for _, c := range append(slices.Clone(q.cuts), len(data)) {
		if c = min(c, len(data)); c <= done {
			continue
		}
		p.Payload[p.NPayload] = data[done:c]
		p.NPayload++
		done = c
	}
	return p
}

// respFill is n bytes, none of them 0, of which neighbours differ.
func respFill(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if b[i] = seed + byte(i*7) + byte(i>>8)*13; b[i] == 0 {
			b[i] = 0xFE
		}
	}
	return b
}

// respSplit cuts a message into the payloads of its packets.
func respSplit(data []byte) [][]byte {
	parts := slices.Collect(slices.Chunk(data, respMTU))
	if len(parts) == 0 {
		parts = [][]byte{nil}
	}
	return parts
}

// respUC makes packets of RC those of UC.
func respUC(reqs []respReq) []respReq {
	out := slices.Clone(reqs)
	for i := range out {
		out[i].op |= wire.UC
	}
	return out
}

// respSend is a whole SEND that starts at PSN p and asks for an ACK.
func respSend(p psn.PSN, data []byte) []respReq {
	return respMessage(p, data, wire.SendFirst, wire.SendMiddle, wire.SendLast, wire.SendOnly)
}

func respMessage(p psn.PSN, data []byte, first, middle, last, only wire.Opcode) (out []respReq) {
	parts := respSplit(data)
	for i, d := range parts {
		op := middle
		switch {
		case len(parts) == 1:
			op = only
		case i == 0:
			op = first
		case i == len(parts)-1:
			op = last
		}
		q := respPkt(op, p.Add(i)).with(d)
		q.ask = i == len(parts)-1
		out = append(out, q)
	}
	return out
}

// write is a whole WRITE of data to offset off of the rig's region.
func (r *respRig) write(p psn.PSN, off int, data []byte) []respReq {
	out := respMessage(p, data, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteOnly)
	out[0] = out[0].reth(r.at(off), r.mr.RKey(), uint32(len(data)))
	return out
}

// read asks for n bytes at offset off.
func (r *respRig) read(p psn.PSN, off, n int) respReq {
	return respPkt(wire.ReadRequest, p).reth(r.at(off), r.mr.RKey(), uint32(n)).asks()
}

// responses are the packets that a READ of data is answered with.
func (r *respRig) responses(p psn.PSN, msn uint32, data []byte) (out []respAnswer) {
	parts := respSplit(data)
	for i, d := range parts {
		op := wire.ReadRespMid
		switch {
		case len(parts) == 1:
			op = wire.ReadRespOnly
		case i == 0:
			op = wire.ReadRespFirst
		case i == len(parts)-1:
			op = wire.ReadRespLast
		}
		a := respData(op, p.Add(i), msn, d)
		if op == wire.ReadRespMid {
			a.MSN = 0 // no AETH
		}
		out = append(out, a)
	}
	return out
}
