package transport_test

import (
	"bytes"
	"math/rand/v2"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// pairFlow is what one host knows of the messages that its peer sends over a
// transport service that may lose them: whatever arrives must be one of them,
// whole.
type pairFlow struct {
	h         *pairHost
	grh       int // bytes before the payload in a receive buffer
	messages  []flowMessage
	next      int // in order: messages before have arrived or are lost
	delivered int
	packets   uint64 // that this host's own messages take
	scribbled int    // of this host's own messages: memory overwritten
}

// flowMessage is a message of the peer.
type flowMessage struct {
	op     ibv.WROpcode
	imm    uint32
	data   []byte
	source []span // at the peer, overwritten when it has been sent
	target span   // here, of a WRITE
}

func (m *flowMessage) write() bool {
	return m.op == ibv.WRRDMAWrite || m.op == ibv.WRRDMAWriteWithImm
}

func (m *flowMessage) hasImm() bool {
	return m.op == ibv.WRSendWithImm || m.op == ibv.WRRDMAWriteWithImm
}

// writeFlow draws the messages of h, and receives for them at its peer.
func (h *pairHost) writeFlow(n int) {
	w, to := h.w, h.peer
	ops := []ibv.WROpcode{ibv.WRSend, ibv.WRSend, ibv.WRSendWithImm}
	if w.typ == ibv.QPTypeUC {
		ops = append(ops, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm)
	} else {
		to.flow.grh = 40
	}
	for i := range n {
		m := flowMessage{op: ops[w.rnd.IntN(len(ops))], imm: uint32(i)}
		op := pairOp{wqe: queue.SendWQE{
			WRID: uint64(i), Opcode: m.op, Imm: m.imm, RKey: to.mem.region.RKey(), AH: pairAH, RemoteQPN: to.qpn(), RemoteQKey: pairQKey,
		}}
		op.want = queue.CQE{WRID: uint64(i), Opcode: ibv.WCSend}
		if w.rnd.IntN(4) != 0 || i == n-1 {
			op.wqe.Flags |= ibv.SendSignaled
		}
		h.flowData(&op, &m, h.flowSize())
		if m.write() {
			op.want.Opcode = ibv.WCRDMAWrite
			m.target = to.mem.take(len(m.data), 1)
			op.wqe.RemoteAddr = pairVA + uint64(m.target.off)
		}
		if m.op != ibv.WRRDMAWrite {
			to.addRecv()
		}
		op.wqe.NumSGE = uint16(len(op.sges))
		h.prog.ops = append(h.prog.ops, op)
		to.flow.messages = append(to.flow.messages, m)
		h.flow.packets += uint64(max(1, (len(m.data)+w.mtu.Bytes()-1)/w.mtu.Bytes()))
	}
}

// flowSize draws a length: of a datagram one packet, and so that a receive
// buffer has room for it.
func (h *pairHost) flowSize() int {
	g := &generator{h: h, rnd: h.w.rnd, fixed: -1}
	if n := g.size(); h.w.typ == ibv.QPTypeUC {
		return n
	} else if mtu := h.w.mtu.Bytes(); n > mtu {
		return mtu - n%3
	} else {
		return n
	}
}

// flowData gives the message n bytes that no other has, in memory of its own or
// inline.
func (h *pairHost) flowData(op *pairOp, m *flowMessage, n int) {
	m.data = make([]byte, n)
	fill(h.w.rnd, m.data)
	op.wqe.Length = uint32(n)
	if n <= pairInline && h.w.rnd.IntN(3) == 0 {
		op.wqe.Flags |= ibv.SendInline
		op.inline = m.data
		return
	}
	op.sges, m.source = h.mem.scatter(h.w.rnd, n, pairSGE, func(n int) span { return h.mem.take(n, 1) })
	rest := m.data
	for _, s := range m.source {
		rest = rest[copy(h.mem.bytes[s.off:s.off+s.n], rest):]
	}
}

// sent overwrites the memory of what has completed, as a program may.
func (f *pairFlow) sent() {
	peer := f.h.peer.flow
	for ; f.scribbled < f.h.prog.done; f.scribbled++ {
		for _, s := range peer.messages[f.scribbled].source {
			clear(f.h.mem.bytes[s.off : s.off+s.n])
		}
	}
}

// received finds the message that has completed r. In order it is one after the
// last.
func (f *pairFlow) received(c *queue.CQE, r *pairRecv) {
	w := f.h.w
	if c.Status != ibv.WCSuccess {
		w.failf("%v: receive %d: %v", f.h.end, c.WRID, c.Status)
	}
	from := 0
	if w.inOrder() {
		from = f.next
	}
	for i := from; i < len(f.messages); i++ {
		if f.is(&f.messages[i], c, r) {
			f.next = i + 1
			f.delivered++
			f.checkGRH(r)
			return
		}
	}
	w.failf("%v: completion %+v is of none of the messages from %d on", f.h.end, *c, from)
}

// is reports whether c and what is in memory are the message m.
func (f *pairFlow) is(m *flowMessage, c *queue.CQE, r *pairRecv) bool {
	want := queue.CQE{WRID: r.wqe.WRID, Opcode: ibv.WCRecv, ByteLen: uint32(f.grh + len(m.data))}
	at := r.buffer
	if m.write() {
		want.Opcode = ibv.WCRecvRDMAWithImm
		at = []span{m.target}
	}
	if m.hasImm() {
		want.Flags, want.Imm = ibv.WCFlagWithImm, m.imm
	}
	if f.grh > 0 {
		want.Flags |= ibv.WCFlagGRH
		want.SrcQP = f.h.peer.qpn()
	}
	return *c == want && m.op != ibv.WRRDMAWrite && bytes.Equal(f.bytes(at)[f.grh:f.grh+len(m.data)], m.data)
}

// bytes are the contents of spans.
func (f *pairFlow) bytes(at []span) (b []byte) {
	for _, s := range at {
		b = append(b, f.h.mem.bytes[s.off:s.off+s.n]...)
	}
	return b
}

// checkGRH wants the peer's address where a program looks for it. Other fields
// of the header may change on the way.
func (f *pairFlow) checkGRH(r *pairRecv) {
	if f.grh == 0 {
		return
	}
	b, gid := f.bytes(r.buffer), f.h.w.gid(f.h.end.Other())
	got, want := b[8:24], gid[:]
	if !f.h.w.v6 {
		got, want = b[40-wire.IPv4Len+12:][:4], gid[12:]
		if !bytes.Equal(b[:20], make([]byte, 20)) {
			f.h.w.failf("%v: % x before the IPv4 header", f.h.end, b[:20])
		}
	}
	if !bytes.Equal(got, want) {
		f.h.w.failf("%v: source address % x, want % x", f.h.end, got, want)
	}
}

// checkMemory wants that nothing but receive buffers and targets has changed, and
// in a target nothing but to what was sent there.
func (f *pairFlow) checkMemory() {
	m := &f.h.mem
	for _, msg := range f.messages {
		for i := range msg.target.n {
			if at := msg.target.off + i; m.bytes[at] == msg.data[i] {
				m.model[at] = msg.data[i]
			}
		}
	}
	skip := func(at []span) {
		for _, s := range at {
			copy(m.model[s.off:s.off+s.n], m.bytes[s.off:s.off+s.n])
		}
	}
	for _, r := range f.h.prog.recvs {
		skip(r.buffer)
	}
	for _, msg := range f.h.peer.flow.messages {
		skip(msg.source)
	}
	if at := firstDiff(m.bytes, m.model); at >= 0 {
		f.h.w.failf("%v: byte %#x of the memory is %#x, want %#x", f.h.end, at, m.bytes[at], m.model[at])
	}
}

// drawFlow is drawParams for a transport service without retries.
func drawFlow(seed uint64, typ ibv.QPType) pairParams {
	p := drawParams(seed)
	p.typ = typ
	rnd := rand.New(rand.NewPCG(seed, 3))
	p.ops = [2]int{10 + rnd.IntN(21), rnd.IntN(31)}
	return p
}
