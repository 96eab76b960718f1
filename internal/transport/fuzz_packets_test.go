package transport_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// fuzzStates are the states that packets arrive in.
var fuzzStates = []ibv.QPState{
	ibv.QPStateRTS, ibv.QPStateReset, ibv.QPStateInit, ibv.QPStateRTR, ibv.QPStateSQD, ibv.QPStateSQE, ibv.QPStateErr,
}

// enter brings the queue pairs of s, which are in RTS, to a state, and reports
// whether their type has it.
func (f *fuzzRig) enter(s *fuzzSide, state ibv.QPState) bool {
	modify := func(q *QP, to ibv.QPState) {
		f.must(q.Modify(f.now, &ibv.QPAttr{State: to}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
	}
	for _, q := range []*QP{s.qp, s.tgt} {
		if q == nil {
			continue
		}
		switch state {
		case ibv.QPStateReset, ibv.QPStateErr, ibv.QPStateSQD:
			if state == ibv.QPStateSQD && q == s.tgt {
				continue
			}
			modify(q, state)
		case ibv.QPStateInit, ibv.QPStateRTR:
			modify(q, ibv.QPStateReset)
			f.start(s, q, int(state-ibv.QPStateReset))
		default:
		}
	}
	if state == ibv.QPStateSQE {
		if f.typ != ibv.QPTypeUC && f.typ != ibv.QPTypeUD {
			return false
		}
		s.postRaw(&queue.SendWQE{WRID: 99, Opcode: 12, Flags: ibv.SendSignaled})
		f.drive(s)
	}
	return s.qp.State() == state
}

// start makes the first transitions of a connection.
func (f *fuzzRig) start(s *fuzzSide, q *QP, transitions int) {
	attr := s.attr()
	masks := s.attrMasks()
	if f.typ == ibv.QPTypeXRCSend {
		masks = startMasks(ibv.QPTypeXRCSend)
		if q == s.tgt {
			masks = startMasks(ibv.QPTypeXRCRecv)
		} else {
			attr.DestQPN = s.peer.tgt.QPN()
		}
	}
	for i, mask := range masks[:transitions] {
		attr.State = ibv.QPStateInit + ibv.QPState(i)
		s.modifyQP(q, &attr, mask|ibv.QPAttrState)
	}
}

// postRaw posts a work request as it is.
func (s *fuzzSide) postRaw(w *queue.SendWQE, sges ...queue.SGE) {
	slot := s.sq.Slot(0)
	w.NumSGE = uint16(len(sges))
	queue.PutSend(slot, w)
	for i, e := range sges {
		queue.PutSendSGE(slot, i, e)
	}
	s.sends.posted = append(s.sends.posted, w.WRID)
	s.sq.Publish(1)
}

// preload has s ask for something, so that there is something to answer, and
// offer receives. What it sends is lost.
func (f *fuzzRig) preload(s *fuzzSide) {
	for i, op := range []ibv.WROpcode{ibv.WRSend, ibv.WRRDMARead, ibv.WRAtomicFetchAdd, ibv.WRSend} {
		if f.typ == ibv.QPTypeUC || f.typ == ibv.QPTypeUD {
			op = ibv.WRSend
		}
		n := 200
		if op == ibv.WRAtomicFetchAdd {
			n = 8
		}
		s.postRaw(&queue.SendWQE{
			WRID: uint64(i), Opcode: op, Flags: ibv.SendSignaled, Length: uint32(n), RemoteAddr: pairVA + uint64(s.peer.mem.words.off),
			RKey: s.peer.mem.region.RKey(), AH: pairAH, RemoteQPN: s.peer.qpn(), RemoteQKey: pairQKey, SRQN: s.peer.srqn(),
		}, s.mem.sge(span{s.mem.target.off, n}))
	}
	for i := range 4 {
		w := queue.RecvWQE{WRID: uint64(i), NumSGE: 1, Length: 600}
		slot := s.rq.Slot(0)
		queue.PutRecv(slot, &w)
		queue.PutRecvSGE(slot, 0, s.mem.sge(span{s.mem.target.off, 600}))
		s.recvs.posted = append(s.recvs.posted, w.WRID)
		s.rq.Publish(1)
	}
	f.link.Script = loseAll
	f.drive(s)
}

// packetStep makes a packet from the peer: an opcode, a PSN near those that are
// expected, and headers that are right in parts.
func (f *fuzzRig) packetStep(s *fuzzSide) {
	q, from := s.qp, f.peer(s)
	b := f.byte()
	if s.tgt != nil && b&1 == 1 {
		q = s.tgt
	}
	op := wire.Opcode(f.byte())
	if b&2 != 0 { // of the right service, most of the time
		op = op&0x1f | map[ibv.QPType]wire.Opcode{ibv.QPTypeRC: wire.RC, ibv.QPTypeUC: wire.UC, ibv.QPTypeUD: wire.UD, ibv.QPTypeXRCSend: wire.XRC}[f.typ]
	}
	info := op.Info()
	if info == nil {
		return
	}
	n := [4]int{0, int(f.byte()), 256, 8}[b>>2&3]
	pad := wire.PadLen(n)
	frame := make([]byte, from.path.Len()+info.HeaderLen+n+pad+wire.ICRCLen)
	ib := frame[from.path.Put(frame, len(frame)-from.path.Len(), 0):]
	for i := wire.BTHLen; i < info.HeaderLen; i++ {
		ib[i] = f.byte()
	}
	if b&0x10 != 0 {
		f.rightHeaders(s, info, ib, n)
	}
	a := q.Query()
	base := psn.Of(a.RQPSN)
	if info.Response {
		base = psn.Of(a.SQPSN)
	}
	bth := wire.BTHAt(ib)
	bth.SetOpcode(op)
	bth.SetPadCnt(uint8(pad))
	bth.SetPKey(wire.DefaultPKey)
	bth.SetDestQP(q.QPN())
	bth.SetPSN(base.Add(int(int8(f.byte())) >> (b >> 6 << 1)))
	bth.SetAckReq(b&0x20 != 0)
	f.seal(from, frame)
	f.arrive(s, frame)
}

// rightHeaders makes keys and addresses right.
func (f *fuzzRig) rightHeaders(s *fuzzSide, info *wire.OpInfo, ib []byte, n int) {
	va, key := pairVA+uint64(s.mem.words.off), s.mem.region.RKey()
	if info.RETH != 0 {
		h := wire.RETHAt(ib[info.RETH:])
		h.Encode(&wire.RETHFields{VA: va, RKey: key, DMALen: uint32(n)})
	}
	if info.AtomicETH != 0 {
		wire.AtomicETHAt(ib[info.AtomicETH:]).Encode(&wire.AtomicETHFields{VA: va, RKey: key, SwapAdd: 1})
	}
	if info.DETH != 0 {
		wire.DETHAt(ib[info.DETH:]).Encode(&wire.DETHFields{QKey: pairQKey, SrcQP: s.peer.qpn()})
	}
	if info.XRCETH != 0 {
		wire.XRCETHAt(ib[info.XRCETH:]).SetSRQN(s.srqn())
	}
}

// runPackets has packets arrive at a queue pair in a state. In some states they
// have no effect at all.
func runPackets(t *testing.T, typ ibv.QPType, state ibv.QPState, in []byte) {
	f := newFuzzRig(t, typ, in)
	s := &f.sides[0]
	if state == ibv.QPStateRTS || state == ibv.QPStateSQD {
		f.preload(s)
	}
	f.link.Script = loseAll
	if !f.enter(s, state) {
		return
	}
	deaf := state == ibv.QPStateReset || state == ibv.QPStateInit || state == ibv.QPStateErr
	before, sent := bytes.Clone(s.mem.bytes), f.link.Stats(s.end).Sent
	s.env.Counters = Counters{}
	for len(f.in) > 0 {
		f.packetStep(s)
		if f.byte()&3 == 0 {
			f.drive(s)
		}
	}
	f.drive(s)
	c := &s.env.Counters
	if deaf {
		if c[DropState]+c[DropOpcode] != c[RcvdPkts] || !bytes.Equal(before, s.mem.bytes) || f.link.Stats(s.end).Sent != sent || s.qp.State() != state {
			t.Errorf("%v in %v: a packet has an effect: %v", typ, state, s.counters())
		}
	}
	switch got := s.qp.State(); got {
	case state, ibv.QPStateErr:
	default:
		t.Errorf("%v goes from %v to %v", typ, state, got)
	}
	f.advance(time.Millisecond)
	f.finish()
}

// FuzzPackets takes bytes as packets that arrive at a queue pair of each type in
// each state.
func FuzzPackets(f *testing.F) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for i := range len(fuzzTypes) * len(fuzzStates) {
		in := []byte{byte(i)}
		for range 200 {
			in = append(in, byte(rnd.Uint32()))
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 2048 {
			return
		}
		typ, state := fuzzTypes[int(in[0])%len(fuzzTypes)], fuzzStates[int(in[0])/len(fuzzTypes)%len(fuzzStates)]
		runPackets(t, typ, state, in[1:])
	})
}

// Every type comes into every state that it has, and hears packets there or not.
func TestFuzzPacketsReachEveryState(t *testing.T) {
	for _, typ := range fuzzTypes {
		for _, state := range fuzzStates {
			t.Run(fmt.Sprint(typ, " in ", state), func(t *testing.T) {
				f := newFuzzRig(t, typ, nil)
				f.link.Script = loseAll
				has := state != ibv.QPStateSQE || typ == ibv.QPTypeUC || typ == ibv.QPTypeUD
				if got := f.enter(&f.sides[0], state); got != has {
					t.Errorf("entered: %v, in %v", got, f.sides[0].qp.State())
				}
			})
		}
	}
}
