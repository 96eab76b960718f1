package transport_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// generator draws work requests of h.
type generator struct {
	h   *pairHost
	rnd *rand.Rand

	// READs of the target since the last fence. A WRITE over their bytes must
	// wait for them: a responder may gather the data of a READ after it has
	// executed what came later.
	reading []span

	fixed int // length of messages, negative: drawn
}

var pairOpcodes = []ibv.WROpcode{
	ibv.WRSend, ibv.WRSend, ibv.WRSendWithImm, ibv.WRRDMAWrite, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm,
	ibv.WRRDMARead, ibv.WRRDMARead, ibv.WRAtomicCmpAndSwp, ibv.WRAtomicFetchAdd, ibv.WRAtomicWrite, ibv.WRFlush,
}

// size draws a message length, unless that was fixed: often one at which
// something begins or ends.
func (g *generator) size() int {
	if g.fixed >= 0 {
		return g.fixed
	}
	mtu := g.h.w.mtu.Bytes()
	edges := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, mtu - 1, mtu, mtu + 1, 2*mtu - 1, 2 * mtu, 2*mtu + 1, 3*mtu - 3, 3 * mtu, pairMaxMsg(mtu)}
	if i := g.rnd.IntN(len(edges) + 8); i < len(edges) {
		return edges[i]
	}
	return g.rnd.IntN(pairMaxMsg(mtu) + 1)
}

// random appends one work request of a random kind.
func (g *generator) random() {
	if g.h.w.windows && g.rnd.IntN(3) == 0 {
		g.add(pairKeyOpcodes[g.rnd.IntN(len(pairKeyOpcodes))])
		return
	}
	ops := pairOpcodes
	if g.h.tgt != nil {
		ops = pairOpcodes[:len(pairOpcodes)-2] // XRC lacks the last two
	}
	g.add(ops[g.rnd.IntN(len(ops))])
}

// add appends one work request and runs it on the model.
func (g *generator) add(opcode ibv.WROpcode) {
	id := uint64(len(g.h.prog.ops))
	op := pairOp{wqe: queue.SendWQE{WRID: id, Opcode: opcode, RKey: g.h.peer.mem.region.RKey(), Imm: g.rnd.Uint32()}}
	if g.h.tgt != nil {
		op.wqe.SRQN = g.h.peer.srqn()
	}
	if g.rnd.IntN(4) != 0 {
		op.wqe.Flags |= ibv.SendSignaled
	}
	if g.fixed < 0 && g.rnd.IntN(8) == 0 {
		g.fence(&op)
	}
	if g.rnd.IntN(4) == 0 {
		op.wqe.Flags |= ibv.SendSolicited
	}
	op.want.WRID = id
	switch op.wqe.Opcode {
	case ibv.WRBindMW, ibv.WRLocalInv, ibv.WRRegMR:
		g.changeKey(&op)
	case ibv.WRSendWithInv:
		op.want.Opcode = ibv.WCSend
		g.fence(&op) // READs by the key must not be asked for again after it
		g.giveUpKey(&op)
		g.receive(&op, g.outbound(&op), true)
	case ibv.WRSend, ibv.WRSendWithImm:
		op.want.Opcode = ibv.WCSend
		g.receive(&op, g.outbound(&op), true)
	case ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm:
		op.want.Opcode = ibv.WCRDMAWrite
		g.write(&op)
	case ibv.WRRDMARead:
		g.read(&op)
	case ibv.WRAtomicWrite:
		op.want.Opcode = ibv.WCAtomicWrite
		g.atomicWrite(&op)
	case ibv.WRFlush:
		op.want.Opcode = ibv.WCFlush
		g.flush(&op)
	default:
		g.atomic(&op)
	}
	if g.h.w.windows {
		g.throughKeys(&op)
	}
	op.wqe.NumSGE = uint16(len(op.sges))
	g.h.prog.ops = append(g.h.prog.ops, op)
}

func (g *generator) fence(op *pairOp) {
	op.wqe.Flags |= ibv.SendFence
	g.reading = g.reading[:0]
}

// outbound gives a SEND or WRITE its data: from the source, or inline.
func (g *generator) outbound(op *pairOp) []byte {
	n, m := g.size(), &g.h.mem
	if n <= pairInline && g.rnd.IntN(3) == 0 {
		op.wqe.Flags |= ibv.SendInline
		op.inline = make([]byte, n)
		fill(g.rnd, op.inline)
		op.wqe.Length = uint32(n)
		return op.inline
	}
	var at []span
	op.sges, at = m.scatter(g.rnd, n, pairSGE, func(n int) span { return within(g.rnd, m.source, n) })
	op.wqe.Length = uint32(n)
	return m.gather(at)
}

// receive makes a receive work request of the peer the one that op completes.
func (g *generator) receive(op *pairOp, data []byte, placed bool) {
	peer := g.h.peer
	r := peer.addRecv()
	r.used = true
	r.want = queue.CQE{WRID: r.wqe.WRID, Opcode: ibv.WCRecv, ByteLen: uint32(len(data))}
	switch op.wqe.Opcode {
	case ibv.WRSend:
	case ibv.WRSendWithInv:
		r.want.Flags, r.want.Imm = ibv.WCFlagWithInv, op.wqe.Imm
	default:
		r.want.Flags, r.want.Imm = ibv.WCFlagWithImm, op.wqe.Imm
	}
	if !placed {
		r.want.Opcode = ibv.WCRecvRDMAWithImm
		return
	}
	r.data = data
	peer.mem.store(r.buffer, data)
}

func (g *generator) write(op *pairOp) {
	data := g.outbound(op)
	to := within(g.rnd, g.h.peer.mem.target, len(data))
	for _, r := range g.reading {
		if to.off < r.off+r.n && r.off < to.off+to.n {
			g.fence(op)
			break
		}
	}
	op.wqe.RemoteAddr = pairVA + uint64(to.off)
	g.h.peer.mem.store([]span{to}, data)
	if op.wqe.Opcode == ibv.WRRDMAWriteWithImm {
		g.receive(op, data, false)
	}
}

func (g *generator) read(op *pairOp) {
	n, m, peer := g.size(), &g.h.mem, &g.h.peer.mem
	from := within(g.rnd, peer.source, n)
	if g.rnd.IntN(2) == 0 {
		from = within(g.rnd, peer.target, n)
		g.reading = append(g.reading, from)
	}
	op.wqe.RemoteAddr, op.wqe.Length = pairVA+uint64(from.off), uint32(n)
	op.sges, op.result = m.scatter(g.rnd, n, pairSGE, func(n int) span { return m.take(n, 1) })
	op.data = peer.gather([]span{from})
	m.store(op.result, op.data)
	op.want.Opcode, op.want.ByteLen = ibv.WCRDMARead, uint32(n)
}

// word is one of the peer's words.
func (g *generator) word() span { return span{g.h.peer.mem.words.off + 8*g.rnd.IntN(pairWords), 8} }

func (g *generator) atomic(op *pairOp) {
	m, peer, at := &g.h.mem, &g.h.peer.mem, g.word()
	op.wqe.RemoteAddr, op.wqe.Length = pairVA+uint64(at.off), 8
	op.sges, op.result = m.scatter(g.rnd, 8, 2, func(n int) span { return m.take(n, 1) })
	op.want.Opcode, op.want.ByteLen = ibv.WCFetchAdd, 8
	old := binary.NativeEndian.Uint64(peer.model[at.off:])
	val := old
	if op.wqe.CompareAdd, op.wqe.Swap = g.rnd.Uint64(), g.rnd.Uint64(); op.wqe.Opcode == ibv.WRAtomicFetchAdd {
		val += op.wqe.CompareAdd
	} else {
		op.want.Opcode = ibv.WCCompSwap
		if g.rnd.IntN(2) == 0 {
			op.wqe.CompareAdd = old
			val = op.wqe.Swap
		}
	}
	op.data = binary.NativeEndian.AppendUint64(nil, old)
	m.store(op.result, op.data)
	binary.NativeEndian.PutUint64(peer.model[at.off:], val)
}

func (g *generator) atomicWrite(op *pairOp) {
	m, at := &g.h.mem, g.word()
	op.wqe.RemoteAddr, op.wqe.Length = pairVA+uint64(at.off), 8
	var from []span
	op.sges, from = m.scatter(g.rnd, 8, 2, func(n int) span { return within(g.rnd, m.source, n) })
	g.h.peer.mem.store([]span{at}, m.gather(from))
}

func (g *generator) flush(op *pairOp) {
	at := within(g.rnd, g.h.peer.mem.target, 100)
	op.wqe.RemoteAddr, op.wqe.Length = pairVA+uint64(at.off), 100
	op.wqe.FlushType, op.wqe.FlushLevel = 1, uint16(g.rnd.IntN(2))
}
