package transport

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqFuzz drives a requester with bytes: each step is one of posting, polling,
// a response of any kind around the outstanding PSNs, time, a changed window.
// What must hold after any of them is checked after all of them.
type reqFuzz struct {
	*reqRig
	in     []byte
	sent   map[psn.PSN]string // what went out with each PSN
	next   uint64             // work request that completes next
	window *memory.Alias      // of type 1
	rd     int
}

var reqFuzzTypes = []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeRC, ibv.QPTypeUD, ibv.QPTypeRC, ibv.QPTypeGSI, ibv.QPTypeXRCSend}

func newReqFuzz(t testing.TB, in []byte) *reqFuzz {
	c := reqDefaults()
	f := &reqFuzz{in: in, sent: map[psn.PSN]string{}, next: 1}
	c.start, c.rd, c.retry, c.rnr, c.wr, c.mem = psn.Of(0xFFFFF0), 1+f.byte()%5, 7, 7, 16, 4096
	c.window = 1 + int(f.byte()%40)
	c.typ = reqFuzzTypes[int(f.byte())%len(reqFuzzTypes)]
	c.unknown = true
	f.reqRig, f.rd = newReqRig(t, c), int(c.rd)
	must(t, f.env.Mem.Deregister(f.mr))
	var err error
	f.mr, err = f.env.Mem.Register(reqPD, f.va(0), f.local, ibv.AccessLocalWrite|ibv.AccessMWBind)
	must(t, err)
	f.window, err = f.env.Mem.AllocWindow(reqPD, ibv.MWType1)
	must(t, err)
	f.env.KeepBudget = int(f.byte()%4) * 15
	return f
}

func (f *reqFuzz) byte() byte {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return b
}

func (f *reqFuzz) run() {
	for len(f.in) > 0 && (f.qp.reqLive() || f.qp.state == ibv.QPStateSQE) {
		f.step()
		f.collect()
		f.check()
	}
	f.qp.fail(f.now)
	f.collect()
	if kept := f.env.Counters[OutOfOrderKept]; kept != uint64(len(f.env.Released)) {
		f.Errorf("%d responses were kept, %d released", kept, len(f.env.Released))
	}
	if f.next != f.id+1 {
		f.Errorf("%d work requests posted, the next to complete is %d", f.id, f.next)
	}
}

func (f *reqFuzz) step() {
	b := f.byte()
	if f.qp.oneWay() && b%8 > 4 {
		f.stepOneWay(b >> 3)
		return
	}
	switch b % 8 {
	case 0, 1:
		f.postAny(b >> 3)
	case 2, 3:
		f.pollAndRecord()
	case 4:
		f.pass(time.Duration(b>>3) * 5 * time.Millisecond)
	case 5:
		f.env.Window = int(b >> 3)
	default:
		f.respond(b >> 3)
	}
}

// stepOneWay is what there is instead of responses: faults in what was polled
// last, and ways out of SQE.
func (f *reqFuzz) stepOneWay(b byte) {
	n := len(f.tx.Intents)
	switch {
	case f.qp.state == ibv.QPStateSQE:
		f.toRTS()
	case n == 0:
		f.qp.SetPortMTU(reqMTU - int(b))
	case b < 4:
		f.qp.PayloadFault(f.now, &f.tx.Intents[int(f.byte())%n])
		f.tx.Reset(0)
	case b < 6:
		f.qp.AddressFault(f.now, &f.tx.Intents[int(f.byte())%n])
		f.tx.Reset(0)
	default:
		f.pollAndRecord()
	}
}

func (f *reqFuzz) postAny(b byte) {
	if f.sq.FreeNow() == 0 {
		return
	}
	ops := []ibv.WROpcode{ibv.WRSend, ibv.WRRDMAWrite, ibv.WRRDMARead, ibv.WRAtomicFetchAdd, ibv.WRRDMARead, ibv.WRAtomicWrite}
	switch f.qp.service {
	case wire.UC:
		ops = []ibv.WROpcode{ibv.WRSend, ibv.WRSendWithImm, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm}
	case wire.UD:
		ops = []ibv.WROpcode{ibv.WRSend, ibv.WRSend, ibv.WRSend, ibv.WRSend, ibv.WRSendWithImm}
	case wire.XRC:
		ops = []ibv.WROpcode{ibv.WRSend, ibv.WRSendWithInv, ibv.WRRDMAWrite, ibv.WRRDMARead, ibv.WRAtomicFetchAdd}
	default: // RC has them all
	}
	if b&15 == 15 && f.qp.service != wire.UD {
		f.postKey()
		return
	}
	op := ops[int(b)%len(ops)]
	n := 8
	if op != ibv.WRAtomicWrite && op != ibv.WRAtomicFetchAdd {
		n = int(f.byte()) * 13
	}
	if f.qp.service == wire.UD {
		n = n / 13 * 257 / 255 // seldom too long
	}
	w := f.hdr(op, ibv.SendSignaled)
	w.NumSGE, w.Length = 1, uint32(n)
	if b&1 != 0 {
		w.Flags |= ibv.SendFence
	}
	f.post(w, f.sge(0, n))
}

// postKey binds the window with another key, or a key that may be wrong is
// invalidated; it fails only as the oldest.
func (f *reqFuzz) postKey() {
	b := f.byte()
	w := queue.SendWQE{Opcode: ibv.WRBindMW, Flags: ibv.SendSignaled | ibv.SendFlags(b&1), BindAddr: f.va(0), BindLength: uint64(b), BindLKey: f.mr.LKey()}
	w.BindRKey = f.window.Key()&^0xff | uint32(f.byte())
	if b&0xf0 == 0xf0 {
		w.Opcode, w.Imm = ibv.WRLocalInv, w.BindRKey
	}
	f.post(w)
}

// pollAndRecord wants every PSN to be sent the same way each time.
func (f *reqFuzz) pollAndRecord() {
	f.tx.Reset(1 + int(f.byte()%64))
	f.qp.Poll(f.now, f.tx)
	for i := range f.tx.Intents {
		in := &f.tx.Intents[i]
		s := fmt.Sprintf("%s %d %x", in.Info.Name, in.Len, in.Hdr[wire.BTHLen:in.HdrLen])
		if in.Info.Opcode.Operation() == wire.ReadRequest {
			h := wire.RETHAt(in.Hdr[in.Info.RETH:])
			// Each response's place in memory must stay the same.
			for k := 0; k < max(1, (int(h.DMALen())+reqMTU-1)/reqMTU); k++ {
				f.same(in.PSN.Add(k), fmt.Sprintf("READ %d", h.VA()+uint64(k*reqMTU)))
			}
			continue
		}
		f.same(in.PSN, s)
	}
}

func (f *reqFuzz) same(p psn.PSN, s string) {
	if old, ok := f.sent[p]; ok && old != s {
		f.Errorf("PSN %d was %s and is %s", p.Sub(f.start), old, s)
	}
	f.sent[p] = s
}

// respond sends the right answer to some PSN near the outstanding ones, or a
// wrong one.
func (f *reqFuzz) respond(b byte) {
	r := &f.qp.req
	k := r.una.Sub(f.start) + int(f.byte()%12) - 2
	if b&1 == 0 {
		k = r.una.Sub(f.start) // in order
	}
	w := f.owner(f.start.Add(k))
	switch {
	case b>>1&7 == 0:
		f.ackWith(k, wire.Syndrome(f.byte()))
	case b>>1&7 == 1:
		f.nak(k)
	case b>>1&7 == 2:
		f.rnrNak(k, 1+f.byte()%20)
	case w == nil || !w.kind.answered():
		f.ack(k)
	case w.kind == kindAtomic:
		f.atomicAck(k, 1)
	case w.kind == kindAtomicWrite:
		f.resp(wire.ReadRespOnly, k, nil)
	default:
		f.readAnswer(w, k)
	}
}

func (f *reqFuzz) owner(p psn.PSN) *sendWQE {
	r := &f.qp.req
	for i := r.head; i != r.tail; i++ {
		if w := r.at(i); w.offset(p) < w.packets {
			return w
		}
	}
	return nil
}

func (f *reqFuzz) readAnswer(w *sendWQE, k int) {
	off := w.offset(f.start.Add(k))
	from, to := f.qp.span(w, off, off+1)
	end := w.chunkEnd(off)
	base := off / w.chunk * w.chunk
	f.resp(reqRespOp(int(off-base), int(end-base)), k, make([]byte, to-from))
}

// collect wants completions in the order of posting, each once.
func (f *reqFuzz) collect() {
	n, _ := f.cq.Avail()
	for range n {
		var c queue.CQE
		queue.GetCQE(f.cq.Slot(0), &c)
		f.cq.Release(1)
		if c.WRID != f.next {
			f.Fatalf("work request %d completed, want %d", c.WRID, f.next)
		}
		f.next++
	}
}

func (f *reqFuzz) check() {
	r := &f.qp.req
	if !f.qp.reqLive() {
		return
	}
	fail := func(what string, v ...any) {
		f.Helper()
		f.Fatalf("%s: %s; head %d cur %d tail %d, una %d nxt %d max %d", what, fmt.Sprint(v...),
			r.head, r.cur, r.tail, r.una.Sub(f.start), r.nxt.Sub(f.start), r.max.Sub(f.start))
	}
	if int32(r.cur-r.head) < 0 || int32(r.tail-r.cur) < 0 {
		fail("order of indices")
	}
	if r.nxt.Less(r.una) || r.max.Less(r.nxt) || r.assign.Less(r.max) {
		fail("order of PSNs")
	}
	if r.head != r.tail && (!at(r.oldest(), r.una) || r.oldest().executed) {
		fail("the oldest PSN is not of the oldest request")
	}
	if r.cur == r.tail && r.nxt != r.assign || r.cur != r.tail && !at(r.at(r.cur), r.nxt) {
		fail("the next PSN is not of the current request")
	}
	if n := f.countCredits(); n != r.credits || n > f.rd {
		fail("credits", r.credits, " outstanding ", n)
	}
	if f.qp.oneWay() {
		if r.ackTimer != mono.Never || r.inflight() > 0 && r.due > f.now {
			fail("timer", r.ackTimer, " due ", r.due)
		}
		return
	}
	if armed := r.ackTimer != mono.Never; !armed && r.inflight() > 0 || armed && r.una == r.max {
		fail("timer", armed)
	}
	f.checkRepair()
	if f.qp.NextDeadline() == mono.Never && r.una != r.max {
		fail("nothing will ever happen")
	}
}

// at reports whether p is a PSN of w, or that of the next request if w takes none.
func at(w *sendWQE, p psn.PSN) bool { return w.offset(p) < max(w.packets, 1) }

// checkRepair is what holds between repairs and the rest.
func (f *reqFuzz) checkRepair() {
	r := &f.qp.req
	x := &r.fix
	if x.at.Less(r.una) || x.end.Less(x.at) || r.nxt.Less(x.end) {
		f.Fatalf("repairs from %d to %d, una %d nxt %d", x.at.Sub(f.start), x.end.Sub(f.start), r.una.Sub(f.start), r.nxt.Sub(f.start))
	}
	if r.acked.Less(r.una) || r.max.Less(r.acked) || r.spilled.Less(r.una) || r.max.Less(r.spilled) {
		f.Fatalf("acked %d spilled %d, una %d max %d", r.acked.Sub(f.start), r.spilled.Sub(f.start), r.una.Sub(f.start), r.max.Sub(f.start))
	}
	if l := &r.late; l.state == lateHope && (!r.una.Less(l.end) || r.max.Less(l.end) || r.inflight() > 0 && r.due > f.now && x.again == mono.Never) {
		f.Fatalf("hopes for answers up to %d until %d, una %d max %d", l.end.Sub(f.start), x.again, r.una.Sub(f.start), r.max.Sub(f.start))
	}
	for i := range r.kept.count {
		if p := r.kept.ref(i).psn; !r.una.Less(p) || !p.Less(r.max) || !f.owner(p).kind.answered() {
			f.Fatalf("PSN %d is kept, una %d max %d", p.Sub(f.start), r.una.Sub(f.start), r.max.Sub(f.start))
		}
	}
	if bad := r.kept.broken(); bad != "" || r.kept.count > f.env.KeepBudget {
		f.Fatalf("%d kept, budget %d; %s", r.kept.count, f.env.KeepBudget, bad)
	}
}

// countCredits counts the ends of READ requests, and the atomics, from una up to
// nxt.
func (f *reqFuzz) countCredits() (n int) {
	r := &f.qp.req
	for p := r.una; p != r.nxt; p = p.Next() {
		w := f.owner(p)
		if off := w.offset(p); w.kind.answered() && w.chunkEnd(off) == off+1 {
			n++
		}
	}
	return n
}

func FuzzRequester(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 64 {
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			t.Skip("longer inputs say nothing new")
		}
		newReqFuzz(t, b).run()
	})
}
