package transport_test

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	pairSGE    = 4 // entries of a work request
	pairInline = 64
	pairCQE    = 256
	pairQKey   = 0x1001
	pairAH     = 7 // of the only path
)

// pairHost is one queue pair, or of XRC two, with memory, driver and program.
type pairHost struct {
	w    *pairWorld
	end  simnet.End
	peer *pairHost

	env  *Env
	qp   *QP
	tgt  *QP // of XRC, whose requests come in here; else nil
	path wire.Path
	tx   *Batch
	mem  pairMemory
	keys pairKeys
	prog pairProgram
	flow *pairFlow // of a transport service that may lose messages, else nil

	sq, rq   *queue.Producer
	scq, rcq *queue.Consumer
	nextApp  mono.Time
	asleep   mono.Time // until when the host does nothing; see pairParams.stalls
	inbox    [][]byte  // what has come meanwhile
	ipID     uint16

	frames  map[uint64][][]byte // kept by the queue pair, by reference
	dead    [][][]byte          // released in this batch
	nextRef uint64
	pkt     wire.Packet
	dropped map[wire.DropReason]int
	events  []ibv.EventType
}

func newPairHost(w *pairWorld, end simnet.End) *pairHost {
	h := &pairHost{w: w, end: end, frames: map[uint64][][]byte{}, dropped: map[wire.DropReason]int{}}
	table := memory.NewTable(64, w.rnd.Uint32)
	h.env = NewEnv(table)
	h.env.Window, h.env.KeepBudget = w.window[end], w.keep[end]
	h.mem.init(w, table)
	ring := func(n, elem int) *queue.Ring {
		r, err := queue.New(n, elem)
		if err != nil {
			w.Fatal(err)
		}
		return r
	}
	sq, rq := ring(w.sqDepth, queue.SendElemSize(pairSGE, pairInline)), ring(w.rqDepth, queue.RecvElemSize(pairSGE))
	scq, rcq := ring(pairCQE, queue.CQESize), ring(pairCQE, queue.CQESize)
	h.sq, h.rq = queue.NewProducer(sq), queue.NewProducer(rq)
	h.scq, h.rcq = queue.NewConsumer(scq), queue.NewConsumer(rcq)
	h.tx = NewBatch(w.batch)
	if w.typ == 0 {
		w.typ = ibv.QPTypeRC
	}
	cfg := Config{
		QPN: h.qpn(), Type: w.typ, PD: 1, SendCQ: NewCQ(scq), RecvCQ: NewCQ(rcq), SQ: sq, RQ: rq, Context: uint64(end) + 40,
		Cap: ibv.QPCap{MaxSendWR: w.sqDepth, MaxRecvWR: w.rqDepth, MaxSendSGE: pairSGE, MaxRecvSGE: pairSGE, MaxInline: pairInline},
	}
	if w.shared {
		cfg.SRQ, cfg.RQ = NewSRQ(rq, 1), nil
	}
	if w.typ == ibv.QPTypeXRCSend {
		h.makeTarget(&cfg)
	}
	h.qp = NewQP(h.env, cfg)
	if w.windows {
		h.keys.init(h, table)
	}
	return h
}

// taker is the queue pair that requests come in at.
func (h *pairHost) taker() *QP {
	if h.tgt != nil {
		return h.tgt
	}
	return h.qp
}

func (h *pairHost) qpn() uint32 { return 0x100 + uint32(h.end) }

// attr are the attributes of the connection.
func (h *pairHost) attr() ibv.QPAttr {
	w, other := h.w, h.end.Other()
	return ibv.QPAttr{
		AccessFlags: ibv.AccessRemoteRead | ibv.AccessRemoteWrite | ibv.AccessRemoteAtomic | ibv.AccessFlushGlobal,
		Port:        1, PathMTU: w.mtu, DestQPN: h.peer.qpn(), SQPSN: w.firstPSN[h.end], RQPSN: w.firstPSN[other],
		MaxRDAtomic: w.rdAtomic, MaxDestRDAtomic: w.rdAtomic, MinRNRTimer: uint8(1 + w.rnd.IntN(5)),
		Timeout: w.timeout, RetryCnt: w.retries, RNRRetry: w.rnrRetries, QKey: pairQKey, AV: ibv.AddressVector{DGID: w.gid(other)},
	}
}

// connect brings the queue pair to RTS as a program would.
func (h *pairHost) connect() {
	w := h.w
	err := h.path.Set(&wire.PathFields{SrcGID: w.gid(h.end), DstGID: w.gid(h.end.Other()), UDPSrcPort: 0xc123})
	if err != nil {
		w.Fatal(err)
	}
	attr := h.attr()
	if h.tgt != nil {
		h.connectXRC(attr)
		return
	}
	h.qp.SetPortMTU(w.mtu.Bytes())
	h.toRTS(h.qp, attr, h.attrMasks())
}

func (h *pairHost) toRTS(q *QP, attr ibv.QPAttr, masks [3]ibv.AttrMask) {
	for i, mask := range masks {
		attr.State = ibv.QPStateInit + ibv.QPState(i)
		h.modifyQP(q, &attr, mask|ibv.QPAttrState)
	}
}

// attrMasks are what the transitions to INIT, RTR and RTS need.
func (h *pairHost) attrMasks() [3]ibv.AttrMask {
	const (
		connected = ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
		toPeer    = ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
	)
	switch h.w.typ {
	case ibv.QPTypeUC:
		return [3]ibv.AttrMask{connected, toPeer, ibv.QPAttrSQPSN}
	case ibv.QPTypeUD:
		return [3]ibv.AttrMask{ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrQKey, 0, ibv.QPAttrSQPSN}
	case ibv.QPTypeGSI:
		return [3]ibv.AttrMask{ibv.QPAttrPKeyIndex | ibv.QPAttrQKey, 0, ibv.QPAttrSQPSN}
	default:
		return [3]ibv.AttrMask{connected, toPeer | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer,
			ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrSQPSN | ibv.QPAttrMaxQPRDAtomic}
	}
}

func (h *pairHost) modify(attr *ibv.QPAttr, mask ibv.AttrMask) {
	h.w.Helper()
	h.modifyQP(h.qp, attr, mask)
}

func (h *pairHost) modifyQP(q *QP, attr *ibv.QPAttr, mask ibv.AttrMask) {
	h.w.Helper()
	if err := q.Modify(h.w.now, attr, mask, h.w.gid(h.end), h.w.gid(h.end.Other())); err != nil {
		h.w.failf("%v: %v", h.end, err)
	}
}

// note tells who records the simulation what happens at h.
func (h *pairHost) note(format string, args ...any) {
	if h.w.rec != nil {
		h.w.rec.note(h.w.now, int(h.end), fmt.Sprintf(format, args...))
	}
}

// next is when the host must be looked at, apart from arrivals.
func (h *pairHost) next() mono.Time {
	if len(h.inbox) > 0 {
		return h.asleep
	}
	if due := mono.Min(h.nextApp, h.due()); due != mono.Never {
		return later(due, h.asleep)
	}
	return mono.Never
}

// due is when the engine must be driven.
func (h *pairHost) due() mono.Time {
	if h.tgt == nil {
		return h.qp.NextDeadline()
	}
	return mono.Min(h.qp.NextDeadline(), h.tgt.NextDeadline())
}

// app is the program: it posts some of what it still has, when there is room.
func (h *pairHost) app() {
	w := h.w
	pause := w.recvPause
	switch {
	case w.lateRecvs:
		h.postSends(len(h.prog.ops))
		if w.now > pairBegin {
			h.postRecvs(1)
		}
	case w.eager:
		h.postRecvs(len(h.prog.recvs))
		h.postSends(len(h.prog.ops))
	default:
		h.postSends(1 + w.rnd.IntN(4))
		h.postRecvs(1 + w.rnd.IntN(4))
		pause = 1 + time.Duration(w.rnd.Int64N(int64(pause)))
	}
	h.nextApp = mono.Never
	if h.prog.left() && !h.finished() {
		h.nextApp = w.now.Add(pause)
	}
	h.service()
}

// service is the driver's transmit half: it polls until nothing is left to send
// and puts the packets on the link.
func (h *pairHost) service() {
	h.poll(h.qp)
	if h.tgt != nil {
		h.poll(h.tgt)
	}
	h.releaseFrames()
	h.collect()
}

func (h *pairHost) poll(q *QP) {
	w := h.w
	for more := true; more; {
		h.tx.Reset(1 + w.rnd.IntN(w.batch))
		more = q.Poll(w.now, h.tx)
		for i := range h.tx.Intents {
			h.send(&h.tx.Intents[i])
		}
		if more && len(h.tx.Intents) == 0 {
			w.failf("%v: more to send, but nothing sent into an empty batch", h.end)
		}
	}
}

func (h *pairHost) send(in *Intent) {
	w := h.w
	if w.typ.Datagram() != (in.AH == pairAH) {
		w.failf("%v: packet by AH %d", h.end, in.AH)
	}
	frame := make([]byte, h.path.Len()+in.HdrLen+in.Len+wire.PadLen(in.Len)+wire.ICRCLen)
	ib := frame[h.path.Put(frame, len(frame)-h.path.Len(), h.ipID):]
	h.ipID++
	copy(ib, in.Hdr[:in.HdrLen])
	if !h.tx.Gather(in, ib[in.HdrLen:in.HdrLen+in.Len]) {
		h.note("%v PSN %#x: payload is gone", in.Info.Name, uint32(in.PSN))
		in.QP.PayloadFault(w.now, in)
		return
	}
	covered := len(frame) - h.path.L3() - wire.ICRCLen
	binary.LittleEndian.PutUint32(frame[len(frame)-wire.ICRCLen:], wire.ICRC(frame, h.path.L3(), covered))
	if w.rec != nil {
		w.rec.frame(w.now, int(h.end), true, frame)
	}
	w.link.Send(w.now, h.end, frame)
}

// describePacket is one line of the trace.
func describePacket(ib []byte, n int) string {
	bth := wire.BTHAt(ib)
	s := fmt.Sprintf("%v PSN %#x, %d B", bth.Opcode(), uint32(bth.PSN()), n)
	if info := bth.Opcode().Info(); info != nil && info.AETH != 0 {
		f := wire.AETHAt(ib[info.AETH:]).Fields()
		s += fmt.Sprintf(", syndrome %#02x MSN %d", uint8(f.Syndrome), f.MSN)
	}
	if bth.AckReq() {
		s += ", ack wanted"
	}
	return s
}

// receive is the driver's receive half for one frame.
func (h *pairHost) receive(frame []byte) {
	w := h.w
	headers := h.path.Len()
	if len(frame) > headers+wire.BTHLen {
		if info := wire.Opcode(frame[headers]).Info(); info != nil {
			headers += info.HeaderLen
		}
	}
	if w.rec != nil {
		w.rec.frame(w.now, int(h.end), false, frame)
	}
	segs := w.cut(frame, headers)
	h.nextRef++
	h.pkt = wire.Packet{Ref: h.nextRef}
	if r := h.pkt.Parse(segs...); r != wire.Accept {
		h.note("dropped: %v", r)
		h.dropped[r]++
		return
	}
	q := h.qp
	if !h.pkt.Info.Response {
		q = h.taker()
	}
	if qpn := h.pkt.Hdr().DestQP(); qpn != q.QPN() {
		w.failf("%v: packet for QP %#x", h.end, qpn)
	}
	if q.HandlePacket(w.now, &h.pkt) == Keep {
		h.frames[h.nextRef] = segs
		return
	}
	h.dead = append(h.dead, segs)
}

// releaseFrames takes back the frames of a batch and makes them unreadable.
func (h *pairHost) releaseFrames() {
	for _, ref := range h.env.Released {
		segs, ok := h.frames[ref]
		if !ok {
			h.w.failf("%v: frame %d was released, but is not kept", h.end, ref)
		}
		delete(h.frames, ref)
		h.dead = append(h.dead, segs)
	}
	h.env.Released = h.env.Released[:0]
	budget := h.env.KeepBudget
	if h.tgt != nil {
		budget *= 2 // each queue pair has it
	}
	if len(h.frames) > budget {
		h.w.failf("%v: %d frames kept, budget %d", h.end, len(h.frames), budget)
	}
	for _, segs := range h.dead {
		for _, s := range segs {
			for i := range s {
				s[i] = 0xdd
			}
		}
	}
	h.dead = h.dead[:0]
	for _, e := range h.env.Events {
		h.note("event %v", e.Type)
		h.events = append(h.events, e.Type)
	}
	h.env.Events, h.env.Woken = h.env.Events[:0], h.env.Woken[:0]
}

// String is where the host stands, for the message of a test that fails.
func (h *pairHost) String() string {
	due := "never"
	if d := h.due(); d != mono.Never {
		due = "in " + d.Sub(h.w.now).String()
	}
	return fmt.Sprintf("%v: %v, due %s, %v, %d frames kept, %v", h.end, h.qp.State(), due, &h.prog, len(h.frames), h.counters())
}

func (h *pairHost) counters() string {
	s := ""
	for c, n := range h.env.Counters {
		if n != 0 {
			s += fmt.Sprintf("%v=%d ", Counter(c), n)
		}
	}
	return s
}
