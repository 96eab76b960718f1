package transport_test

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// span is a run of bytes of a host's memory.
type span struct{ off, n int }

// pairMemory is a host's memory, in areas:
//
//	source  never changes; what is sent, written and read comes from here
//	target  the peer's WRITEs go here, and its READs come from here too
//	words   the peer's atomics
//	rest    handed out piece by piece: results of READs and atomics, receive
//	        buffers, with bytes between them that nobody may touch
//
// model is what all of it must be in the end.
type pairMemory struct {
	bytes, model []byte
	region       *memory.Region
	source       span
	target       span
	words        span
	next         int
}

const (
	pairWords = 8
	pairVA    = 0xffff_ffff_7000_0000 // region's address, far from any of this process
)

func (m *pairMemory) init(w *pairWorld, table *memory.Table) {
	mtu := w.mtu.Bytes()
	m.source = span{0, 4 * mtu}
	m.target = span{4 * mtu, 5 * mtu}
	m.words = span{9 * mtu, 8 * pairWords}
	m.next = m.words.off + m.words.n
	// Each work request of either side needs at most two pieces of the rest.
	size := m.next + 2*(w.ops[0]+w.ops[1]+8)*(pairMaxMsg(mtu)+64)
	m.bytes = alignedTo8(size)
	fill(w.rnd, m.bytes)
	m.model = append([]byte(nil), m.bytes...)
	r, err := table.Register(1, pairVA, m.bytes, ibv.AccessLocalWrite|ibv.AccessRemoteRead|ibv.AccessRemoteWrite|
		ibv.AccessRemoteAtomic|ibv.AccessFlushGlobal)
	if err != nil {
		w.Fatal(err)
	}
	m.region = r
}

func pairMaxMsg(mtu int) int { return 3*mtu + 1 }

func alignedTo8(n int) []byte {
	b := make([]byte, n+8)
	return b[-memory.AddressOf(b)&7:][:n:n]
}

func fill(rnd *rand.Rand, b []byte) {
	for len(b) > 0 {
		b = b[copy(b, binary.LittleEndian.AppendUint64(nil, rnd.Uint64())):]
	}
}

// take hands out n bytes of the rest, aligned to align.
func (m *pairMemory) take(n, align int) span {
	m.next = (m.next + align - 1) / align * align
	s := span{m.next, n}
	m.next += n + 3
	return s
}

// within is a random run of n bytes of s.
func within(rnd *rand.Rand, s span, n int) span { return span{s.off + rnd.IntN(s.n-n+1), n} }

func (m *pairMemory) sge(s span) queue.SGE {
	return queue.SGE{Addr: pairVA + uint64(s.off), Length: uint32(s.n), LKey: m.region.LKey()}
}

// scatter cuts n bytes into up to limit entries, some of them empty; place finds
// the memory of each.
func (m *pairMemory) scatter(rnd *rand.Rand, n, limit int, place func(n int) span) (sges []queue.SGE, at []span) {
	k := 1 + rnd.IntN(limit)
	for i := range k {
		part := n
		if i < k-1 {
			part = rnd.IntN(n + 1)
		}
		n -= part
		if part == 0 {
			// Nobody looks at the key of nothing.
			sges = append(sges, queue.SGE{Addr: rnd.Uint64(), LKey: rnd.Uint32()})
			continue
		}
		s := place(part)
		sges, at = append(sges, m.sge(s)), append(at, s)
	}
	return sges, at
}

// gather is the model's contents of spans.
func (m *pairMemory) gather(at []span) []byte {
	b := []byte{}
	for _, s := range at {
		b = append(b, m.model[s.off:s.off+s.n]...)
	}
	return b
}

// store puts data into spans of the model.
func (m *pairMemory) store(at []span, data []byte) {
	for _, s := range at {
		data = data[copy(m.model[s.off:s.off+s.n], data):]
	}
}

// writeProgram draws the work requests of h and runs them on the model at once,
// in order: what a reliable connection must amount to.
func (h *pairHost) writeProgram(n int) {
	g := &generator{h: h, rnd: h.w.rnd, fixed: -1}
	for range n {
		g.random()
	}
	h.signalLast()
	// A few receives more than messages: they stay posted.
	for range h.w.rnd.IntN(3) {
		h.peer.addRecv()
	}
}

// fixedOp is a work request of a directed test.
type fixedOp struct {
	opcode ibv.WROpcode
	n      int // bytes of a SEND, WRITE or READ
}

// writeFixed appends work requests and runs them on the model.
func (h *pairHost) writeFixed(ops ...fixedOp) {
	g := &generator{h: h, rnd: h.w.rnd}
	for _, op := range ops {
		g.fixed = op.n
		g.add(op.opcode)
	}
	h.signalLast()
}

// signalLast makes the end of the program show by a completion.
func (h *pairHost) signalLast() {
	if n := len(h.prog.ops); n > 0 {
		h.prog.ops[n-1].wqe.Flags |= ibv.SendSignaled
	}
}

// addRecv appends a receive work request that holds any message.
func (h *pairHost) addRecv() *pairRecv {
	n := pairMaxMsg(h.w.mtu.Bytes())
	r := pairRecv{wqe: queue.RecvWQE{WRID: 1000 + uint64(len(h.prog.recvs)), Length: uint32(n)}}
	r.want.WRID = r.wqe.WRID
	r.sges, r.buffer = h.mem.scatter(h.w.rnd, n, pairSGE, func(n int) span { return h.mem.take(n, 1) })
	r.wqe.NumSGE = uint16(len(r.sges))
	h.prog.recvs = append(h.prog.recvs, r)
	return &h.prog.recvs[len(h.prog.recvs)-1]
}
