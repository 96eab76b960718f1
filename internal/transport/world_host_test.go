package transport_test

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// worldHost is one worker: its queue pairs, memory, completion queues and driver.
type worldHost struct {
	w *world
	n int
	hostParams

	env   *Env
	mem   worldMemory
	cqs   [2]*worldCQ
	srq   *worldRecvs // shared by queue pairs of all types but XRC
	xrcd  *XRCD
	xsrq  *worldRecvs // of the XRC domain
	qps   []*worldQP
	locks []*worldLock
	paths []wire.Path // by the other host
	tx    *Batch
	ipID  uint16

	nextApp mono.Time
	frames  map[uint64][][]byte // kept by queue pairs, by reference
	keepers map[uint64]*worldQP // which those are
	dead    [][][]byte          // released in this batch
	nextRef uint64
	pkt     wire.Packet
	sent    uint64 // frames
	arrived uint64
	refused uint64 // of which were damaged on the way
}

// worldCQ is a completion queue as its program has it.
type worldCQ struct {
	cq   *CQ
	cons *queue.Consumer
}

const worldCQE = 256

func newWorldHost(w *world, n int) *worldHost {
	h := &worldHost{w: w, n: n, hostParams: w.worldParams.hosts[n], frames: map[uint64][][]byte{}, keepers: map[uint64]*worldQP{}, tx: NewBatch(w.batch)}
	table := memory.NewTable(64, w.rnd.Uint32)
	h.env = NewEnv(table)
	h.env.Window, h.env.KeepBudget, h.env.Budget = h.window, h.keep, h.budget
	h.mem.init(w, table, w.memorySize(n))
	for i := range h.cqs {
		ring := w.ring(worldCQE, queue.CQESize)
		h.cqs[i] = &worldCQ{NewCQ(ring), queue.NewConsumer(ring)}
	}
	h.srq = newWorldRecvs(h, h.srqDepth)
	h.srq.srq = NewSRQ(h.srq.ring(), 1)
	h.xsrq = newWorldRecvs(h, h.srqDepth)
	h.xsrq.srq = NewXRCSRQ(h.xsrq.ring(), 1, h.anyCQ().cq, h.srqn())
	h.xrcd = NewXRCD()
	h.xrcd.Add(h.xsrq.srq)
	h.paths = make([]wire.Path, len(w.worldParams.hosts))
	for i := range h.paths {
		const ect0 = 2 // takes marks
		w.must(h.paths[i].Set(&wire.PathFields{SrcGID: w.gid(n), DstGID: w.gid(i), TOS: ect0, UDPSrcPort: 0xc000 + uint16(n)}))
	}
	return h
}

func (w *world) ring(n, elem int) *queue.Ring {
	r, err := queue.New(n, elem)
	w.must(err)
	return r
}

func (h *worldHost) srqn() uint32    { return 0xF0_0000 + uint32(h.n) }
func (h *worldHost) anyCQ() *worldCQ { return h.cqs[h.w.rnd.IntN(len(h.cqs))] }

// due is when the engine must be driven.
func (h *worldHost) due() mono.Time {
	t := mono.Never
	for _, q := range h.qps {
		t = mono.Min(t, q.qp.NextDeadline())
	}
	return t
}

// service is the driver's transmit half: it polls all queue pairs, in an order
// that changes, until none has anything to send.
func (h *worldHost) service() {
	h.releaseFrames()
	for again := true; again; {
		again = false
		landed := h.env.Landed()
		first := h.w.rnd.IntN(max(len(h.qps), 1))
		for i := range h.qps {
			if h.poll(h.qps[(first+i)%len(h.qps)]) {
				again = true
			}
		}
		again = again || h.env.Landed() != landed // the budget has room for those that it stopped
	}
	h.releaseFrames()
	h.events()
	h.collect()
	if h.ready() {
		h.wake()
	}
}

// poll reports whether it has sent anything.
func (h *worldHost) poll(q *worldQP) (sent bool) {
	w := h.w
	for more := true; more; {
		h.tx.Reset(1 + w.rnd.IntN(w.batch))
		more = q.qp.Poll(w.now, h.tx)
		for i := range h.tx.Intents {
			h.send(q, &h.tx.Intents[i])
		}
		sent = sent || len(h.tx.Intents) > 0
		if more && len(h.tx.Intents) == 0 {
			w.failf("%v: more to send, but nothing sent into an empty batch", q)
		}
	}
	return sent
}

func (h *worldHost) send(q *worldQP, in *Intent) {
	w, to := h.w, q.peer.h.n
	if in.QP != q.qp || q.typ.Datagram() && int(in.AH) != to+1 || !q.typ.Datagram() && in.AH != 0 {
		w.failf("%v: packet of %#x by AH %d", q, in.QP.QPN(), in.AH)
	}
	path := &h.paths[to]
	frame := make([]byte, path.Len()+in.HdrLen+in.Len+wire.PadLen(in.Len)+wire.ICRCLen)
	ib := frame[path.Put(frame, len(frame)-path.Len(), h.ipID):]
	h.ipID++
	copy(ib, in.Hdr[:in.HdrLen])
	if !h.tx.Gather(in, ib[in.HdrLen:in.HdrLen+in.Len]) {
		w.failf("%v: payload of %v is gone", q, in.Info.Name)
	}
	covered := len(frame) - path.L3() - wire.ICRCLen
	binary.LittleEndian.PutUint32(frame[len(frame)-wire.ICRCLen:], wire.ICRC(frame, path.L3(), covered))
	if w.rec != nil {
		w.rec.frame(w.now, h.n, true, frame)
	}
	h.sent++
	w.net.Send(w.now, h.n, to, frame)
}

// receive is the driver's receive half for one frame.
func (h *worldHost) receive(frame []byte) {
	w := h.w
	if w.rec != nil {
		w.rec.frame(w.now, h.n, false, frame)
	}
	h.arrived++
	headers := h.paths[0].Len()
	if len(frame) > headers+wire.BTHLen {
		if info := wire.Opcode(frame[headers]).Info(); info != nil {
			headers += info.HeaderLen
		}
	}
	segs := [][]byte{frame}
	if w.rnd.IntN(2) == 0 {
		at := min(headers, len(frame)) + w.rnd.IntN(len(frame)-min(headers, len(frame))+1)
		segs = [][]byte{clip(frame[:at]), clip(frame[at:])}
	}
	h.nextRef++
	h.pkt = wire.Packet{Ref: h.nextRef}
	if r := h.pkt.Parse(segs...); r != wire.Accept {
		h.note("refused: %v", r)
		h.refused++
		return
	}
	q := h.find(h.pkt.Hdr().DestQP())
	if q == nil {
		w.failf("host %d: packet for QP %#x", h.n, h.pkt.Hdr().DestQP())
	}
	if q.qp.HandlePacket(w.now, &h.pkt) == Keep {
		h.frames[h.nextRef], h.keepers[h.nextRef] = segs, q
		return
	}
	h.dead = append(h.dead, segs)
}

func (h *worldHost) find(qpn uint32) *worldQP {
	for _, q := range h.qps {
		if q.qp.QPN() == qpn {
			return q
		}
	}
	return nil
}

// releaseFrames takes back the frames of a batch and makes them unreadable.
func (h *worldHost) releaseFrames() {
	for _, ref := range h.env.Released {
		segs, ok := h.frames[ref]
		if !ok {
			h.w.failf("host %d: frame %d was released, but is not kept", h.n, ref)
		}
		delete(h.frames, ref)
		delete(h.keepers, ref)
		h.dead = append(h.dead, segs)
	}
	h.env.Released = h.env.Released[:0]
	if len(h.frames) > h.keep*len(h.qps) {
		h.w.failf("host %d: %d frames kept by %d queue pairs, %d each", h.n, len(h.frames), len(h.qps), h.keep)
	}
	for _, segs := range h.dead {
		for _, s := range segs {
			for i := range s {
				s[i] = 0xdd
			}
		}
	}
	h.dead = h.dead[:0]
}

// events are the asynchronous ones.
func (h *worldHost) events() {
	for _, e := range h.env.Events {
		h.note("event %v", e.Type)
		switch e.Type {
		case ibv.EventCommEst, ibv.EventQPLastWQEReached:
		case ibv.EventSQDrained:
			h.find(e.QP.QPN()).drained()
		case ibv.EventQPReqErr, ibv.EventQPAccessErr, ibv.EventQPFatal:
			if q := h.find(e.QP.QPN()); q.qp.State() != ibv.QPStateErr {
				h.w.failf("%v: event %v", q, e.Type)
			}
		default:
			h.w.failf("host %d: event %v", h.n, e.Type)
		}
	}
	h.env.Events, h.env.Woken = h.env.Events[:0], h.env.Woken[:0]
}

// collect takes what has completed, receives first: they say why requests were
// flushed.
func (h *worldHost) collect() {
	var sends []queue.CQE
	for _, cq := range h.cqs {
		n, ok := cq.cons.Avail()
		if !ok || cq.cq.Overflowed() {
			h.w.failf("host %d: a completion queue is broken", h.n)
		}
		for range n {
			var c queue.CQE
			queue.GetCQE(cq.cons.Slot(0), &c)
			cq.cons.Release(1)
			if c.WRID&recvWRID == 0 {
				sends = append(sends, c)
				continue
			}
			h.completion(&c)
		}
	}
	for i := range sends {
		h.completion(&sends[i])
	}
}

func (h *worldHost) completion(c *queue.CQE) {
	h.note("QP %#x completes %#x: %v %v, %d B", c.QPN, c.WRID, c.Opcode, c.Status, c.ByteLen)
	q := h.find(c.QPN)
	if q == nil || c.QPContext != q.context() || c.Timestamp > int64(h.w.now) {
		h.w.failf("host %d: completion %+v", h.n, *c)
	}
	c.QPN, c.QPContext, c.Timestamp = 0, 0, 0
	if c.WRID&recvWRID != 0 {
		q.recvDone(c)
	} else {
		q.sendDone(c)
	}
}
