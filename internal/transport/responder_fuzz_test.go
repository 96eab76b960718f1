package transport

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respFuzz drives a responder with bytes: each step is a packet around the
// expected PSN, a receive work request, a Poll, or memory that goes away. What
// must hold after any of them is checked after all of them.
type respFuzz struct {
	*respRig
	in     []byte
	ops    []wire.Opcode
	posted uint64 // receive work requests
	done   uint64 // of which have completed
	kept   int    // frames
	freed  int
}

// Only the middle of the memory is registered; nothing else may change.
const (
	respFuzzOff = 4096
	respFuzzLen = 4096
)

var respFuzzOps = []wire.Opcode{
	wire.SendFirst, wire.SendMiddle, wire.SendLast, wire.SendLastImm, wire.SendOnly, wire.SendOnlyImm,
	wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteLastImm, wire.WriteOnly, wire.WriteOnlyImm,
	wire.ReadRequest, wire.CompareSwap, wire.FetchAdd, wire.SendLastInv, wire.SendOnlyInv, wire.Flush, wire.AtomicWrite,
}

// respFuzzTypes are the transport services, and the opcodes that each has.
var respFuzzTypes = []struct {
	typ    ibv.QPType
	ops    []wire.Opcode
	shared bool // the receive queue is
}{
	{ibv.QPTypeRC, respFuzzOps, false}, {ibv.QPTypeUC, respFuzzOps[:12], false}, {ibv.QPTypeRC, respFuzzOps, true},
	{ibv.QPTypeUD, respFuzzOps[4:6], false}, {ibv.QPTypeGSI, respFuzzOps[4:6], false},
	{ibv.QPTypeUC, respFuzzOps[:12], true}, {ibv.QPTypeUD, respFuzzOps[4:6], true},
	{ibv.QPTypeXRCRecv, respFuzzOps[:17], true},
}

func newRespFuzz(t *testing.T, in []byte) *respFuzz {
	f := &respFuzz{in: in}
	b := f.byte()
	on := respFuzzTypes[int(b)/5%len(respFuzzTypes)]
	f.ops = on.ops
	opts := []respOption{respAt(psn.Mask - 5), respDest(b % 5), respCQEntries(4096), respOn(on.typ)}
	switch {
	case on.typ == ibv.QPTypeXRCRecv:
		opts = append(opts, respXRC)
	case on.shared:
		opts = append(opts, respShared)
	}
	f.respRig = newRespRig(t, opts...)
	f.env.KeepBudget = int(f.byte() % 10)
	f.remap()
	return f
}

func (f *respFuzz) remap() {
	f.t.Helper()
	if err := f.env.Mem.Deregister(f.mr); err != nil {
		f.t.Fatal(err)
	}
	f.mr = f.register(respPD, f.at(respFuzzOff), f.mem[respFuzzOff:respFuzzOff+respFuzzLen], respAllAccess)
}

func (f *respFuzz) byte() byte {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return b
}

// pick is one of the values, mostly the first.
func (f *respFuzz) pick(v ...uint64) uint64 {
	b := int(f.byte())
	if b < 160 {
		return v[0]
	}
	return v[b%len(v)]
}

func (f *respFuzz) run() {
	for len(f.in) > 0 && f.q.State() != ibv.QPStateErr {
		f.step()
		f.check()
	}
	f.fail()
	f.answers()
	f.check()
	left := uint64(0)
	if s := f.q.cfg.SRQ; s != nil {
		left = uint64(s.Posted()) // which are for others
	} else if f.q.cfg.XRCD != nil {
		left = uint64(f.xrcSRQ().Posted())
	}
	if f.done+left != f.posted {
		f.t.Errorf("%d of %d receives have completed, %d are left", f.done, f.posted, left)
	}
	if f.kept != f.freed {
		f.t.Errorf("%d frames kept, %d released", f.kept, f.freed)
	}
}

func (f *respFuzz) step() {
	switch b := f.byte(); b % 16 {
	case 0, 1, 2:
		f.postAny()
	case 3, 4:
		f.tx.Reset(int(f.byte() % 4))
		f.q.Poll(f.now, f.tx)
		if b >= 250 && len(f.tx.Intents) > 0 {
			f.q.PayloadFault(f.now, &f.tx.Intents[0])
		}
	case 5:
		if b >= 240 {
			f.remap()
		}
	default:
		if f.arriveOne(f.packet()) == Keep {
			f.kept++
		}
	}
}

func (f *respFuzz) postAny() {
	if f.rq.FreeNow() == 0 {
		return
	}
	f.posted++
	var sges []queue.SGE
	for range f.byte() % 4 {
		sges = append(sges, queue.SGE{
			Addr:   f.at(respFuzzOff) + f.pick(0, uint64(f.byte()), respFuzzLen),
			Length: uint32(f.pick(1024, 0, 1, 255)),
			LKey:   uint32(f.pick(uint64(f.mr.LKey()), uint64(f.mr.LKey()), 1)),
		})
	}
	f.postSGE(f.posted, sges...)
}

func (f *respFuzz) packet() respReq {
	st := &f.q.resp.st
	op := f.ops[int(f.byte())%len(f.ops)]
	// Mostly what may come next, so that messages get somewhere.
	if f.byte() < 200 {
		switch st.op {
		case opSend:
			op = []wire.Opcode{wire.SendMiddle, wire.SendLast, wire.SendLastImm}[f.byte()%3]
		case opWrite:
			op = []wire.Opcode{wire.WriteMiddle, wire.WriteLast}[f.byte()%2]
		case opNone:
		}
	}
	op |= f.q.service
	info := op.Info()
	q := respPkt(op, st.ePSN.Add(int(f.pick(0, 1, 2, 3, 9))-int(f.pick(0, 0, 1, 2, 8))))
	size := f.pick(8, 0, 600, respMTU, respFuzzLen+1, 1<<32-1)
	n := 0
	switch {
	case !info.Payload:
	case info.Pos&wire.Last == 0:
		n = respMTU
	case info.Write && info.Pos == wire.Last:
		n = int(min(st.remaining, respMTU))
	case info.Headers&wire.HasRETH != 0:
		n = int(min(size, respMTU))
	default:
		n = int(f.byte())
	}
	n = int(f.pick(uint64(n), 0, 1, respMTU, respMTU+1))
	va := f.at(respFuzzOff) + f.pick(0, 8, uint64(f.byte()), respFuzzLen-4, 1<<63)
	key := uint32(f.pick(uint64(f.mr.RKey()), uint64(f.mr.RKey()), 0, 1<<8))
	if info.Headers&wire.HasXRCETH != 0 {
		q = q.word(uint32(f.pick(xrcNum, xrcNum, 5)))
	}
	if info.Headers&wire.HasDETH != 0 {
		q = q.deth(uint32(f.pick(uint64(f.q.qkey()), 0))).under([][]byte{udIPv4, udIPv6}[f.byte()%2])
	}
	if info.Headers&wire.HasFETH != 0 {
		q = q.word(uint32(f.pick(1, 0x11, 0, 0xFF)))
	}
	if info.Headers&wire.HasRETH != 0 {
		q = q.reth(va, key, uint32(size))
	}
	if info.Headers&wire.HasAtomicETH != 0 {
		q = q.atomic(va, key, uint64(f.byte()), uint64(f.byte()))
	}
	if info.Headers&(wire.HasImmDt|wire.HasIETH) != 0 {
		q = q.word(key)
	}
	q.ask = f.byte() < 128
	return q.with(respFill(1, n)).cut(int(f.byte()), int(f.byte()))
}

func (f *respFuzz) check() {
	f.t.Helper()
	r := &f.q.resp
	pending, first := uint32(0), r.st.savedNext
	for n := range uint32(len(r.saved)) {
		i := r.st.savedNext - uint32(len(r.saved)) + n
		s := r.slot(i)
		if s.has(savedPending) && first == r.st.savedNext {
			first = i
		}
		if s.has(savedCredit) {
			pending++
		}
	}
	if r.st.pending != pending || r.st.serve != first {
		f.t.Errorf("%d credits in use, serving %d; the ring says %d and %d", r.st.pending, r.st.serve, pending, first)
	}
	if bad := r.kept.broken(); bad != "" {
		f.t.Error(bad)
	}
	f.freed += len(f.env.Released)
	f.env.Released = f.env.Released[:0]
	if f.kept != f.freed+r.kept.count {
		f.t.Errorf("%d kept in all, %d released, %d in use", f.kept, f.freed, r.kept.count)
	}
	w := &r.wqe
	if w.held && r.st.op == opNone && (w.cur != 0 || w.off != 0) {
		f.t.Errorf("no message in progress, but byte %d of entry %d is next", w.off, w.cur)
	}
	if f.q.oneWay() && (len(f.tx.Intents) != 0 || f.kept != 0) {
		f.t.Errorf("%d answers, %d frames kept", len(f.tx.Intents), f.kept)
	}
	for _, c := range f.completions() {
		f.done++
		if c.WRID != f.done {
			f.t.Errorf("receive %d completes, want %d", c.WRID, f.done)
		}
	}
	for i, b := range f.mem {
		if b != 0 && (i < respFuzzOff || i >= respFuzzOff+respFuzzLen) {
			f.t.Fatalf("byte at %d, outside the region, has changed", i)
		}
	}
}

func FuzzResponder(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("SEND, WRITE, READ and atomics in no order at all, with gaps"))
	for seed := range uint64(8) {
		f.Add(respNoise(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<12 {
			return
		}
		newRespFuzz(t, in).run()
	})
}

func respNoise(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, 100+rnd.IntN(900))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestResponderSurvivesNoise(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newRespFuzz(t, respNoise(seed)).run() })
	}
}
