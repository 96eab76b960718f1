package transport

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respRefusal is one row of the table of checks: the requests before, the one
// that is refused, and what follows.
type respRefusal struct {
	name   string
	before func(r *respRig) []respReq
	req    func(r *respRig, p respReq) respReq // from an empty packet with the right PSN
	op     wire.Opcode
	opts   []respOption
	recv   []int // offset and length pairs of a posted receive; nil: none
	nak    wire.Syndrome
	status ibv.WCStatus // of the receive in use; WCSuccess: none was
	event  ibv.EventType
}

func (tt *respRefusal) run(t *testing.T) {
	r := newRespRig(t, tt.opts...)
	if tt.recv != nil {
		r.post(1, tt.recv...)
	}
	p := respStart
	msn := uint32(0)
	if tt.before != nil {
		for _, b := range tt.before(r) {
			r.arrive(b)
			p = p.Next()
		}
	}
	r.answers()
	r.env.Events = r.env.Events[:0]
	msn = r.q.resp.st.msn
	commEst := tt.before == nil
	was := string(r.mem)

	r.arrive(tt.req(r, respPkt(tt.op, p).asks()))
	r.expectState(ibv.QPStateErr)
	r.expect(respNak(tt.nak, p, msn))
	if commEst {
		r.expectEvents(ibv.EventCommEst, tt.event)
	} else {
		r.expectEvents(tt.event)
	}
	switch {
	case tt.status != ibv.WCSuccess:
		r.expectCompletions(respFailed(1, tt.status))
	case tt.recv != nil:
		r.expectCompletions(respFailed(1, ibv.WCWRFlushErr))
	default:
		r.expectCompletions()
	}
	if string(r.mem) != was {
		t.Error("a refused request has changed memory")
	}
	// ERR is the end: nothing is executed or answered any more.
	r.arrive(r.write(p.Next(), 0, []byte{1})...)
	r.expect()
	r.expectCount(DropState, 1)
}

func respFirstOf(op wire.Opcode) func(r *respRig) []respReq {
	return func(r *respRig) []respReq {
		q := respPkt(op, respStart).with(respFill(1, respMTU))
		if op == wire.WriteFirst {
			q = q.reth(r.at(0), r.mr.RKey(), 3*respMTU)
		}
		return []respReq{q}
	}
}

func TestResponderRefusesOpcodesOutOfSequence(t *testing.T) {
	plain := func(r *respRig, p respReq) respReq {
		p = p.with(respFill(2, respMTU))
		info := p.op.Info()
		if info.Headers&wire.HasRETH != 0 {
			p = p.reth(r.at(0), r.mr.RKey(), respMTU)
		}
		if info.Headers&wire.HasAtomicETH != 0 {
			p = p.atomic(r.at(0), r.mr.RKey(), 1, 0)
		}
		if info.Headers&(wire.HasImmDt|wire.HasIETH) != 0 {
			p = p.word(1)
		}
		if !info.Payload {
			p.data = nil
		}
		return p
	}
	bad := map[wire.Opcode][]wire.Opcode{ // by the packet before; RC|0x1F: none
		0x1F: {
			wire.SendMiddle, wire.SendLast, wire.SendLastImm, wire.SendLastInv,
			wire.WriteMiddle, wire.WriteLast, wire.WriteLastImm,
		},
		wire.SendFirst: {
			wire.SendFirst, wire.SendOnly, wire.SendOnlyImm, wire.SendOnlyInv, wire.WriteFirst, wire.WriteMiddle,
			wire.WriteLast, wire.WriteLastImm, wire.WriteOnly, wire.WriteOnlyImm, wire.ReadRequest,
			wire.CompareSwap, wire.FetchAdd, wire.AtomicWrite,
		},
		wire.WriteFirst: {
			wire.WriteFirst, wire.WriteOnly, wire.WriteOnlyImm, wire.SendFirst, wire.SendMiddle, wire.SendLast,
			wire.SendLastImm, wire.SendLastInv, wire.SendOnly, wire.ReadRequest, wire.CompareSwap, wire.FetchAdd,
		},
	}
	for prev, ops := range bad {
		for _, op := range ops {
			tt := respRefusal{
				req: plain, op: op, recv: []int{0, 4096},
				nak: wire.NakInvalidRequest, event: ibv.EventQPReqErr,
			}
			name := "nothing"
			if prev != 0x1F {
				tt.before, name = respFirstOf(prev), prev.String()
			}
			if prev == wire.SendFirst {
				tt.status = ibv.WCRemInvReqErr
			}
			t.Run(op.String()+" after "+name, tt.run)
		}
	}
}

func respWith(n int) func(*respRig, respReq) respReq {
	return func(_ *respRig, p respReq) respReq { return p.with(respFill(2, n)) }
}

// respWriting is a WRITE packet of n bytes whose RETH says size.
func respWriting(n int, size uint32) func(*respRig, respReq) respReq {
	return func(r *respRig, p respReq) respReq {
		return p.reth(r.at(0), r.mr.RKey(), size).with(respFill(2, n))
	}
}

func respReading(change func(r *respRig, va uint64, key, n uint32) (uint64, uint32, uint32)) func(*respRig, respReq) respReq {
	return func(r *respRig, p respReq) respReq {
		va, key, n := change(r, r.at(0), r.mr.RKey(), 8)
		if p.op.Info().Headers&wire.HasAtomicETH != 0 {
			return p.atomic(va, key, 1, 0)
		}
		p = p.reth(va, key, n)
		if p.op.Info().Payload {
			p = p.with(respFill(2, 8))
		}
		return p
	}
}

const (
	respNoRead   = respAllAccess &^ ibv.AccessRemoteRead
	respNoWrite  = respAllAccess &^ ibv.AccessRemoteWrite
	respNoAtomic = respAllAccess &^ ibv.AccessRemoteAtomic
	respNoFlush  = respAllAccess &^ ibv.AccessFlushGlobal
)

func TestResponderRefusesWhatTheQueuePairDoesNotGrant(t *testing.T) {
	same := respReading(func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va, key, n })
	flush := func(r *respRig, p respReq) respReq { return p.word(1).reth(r.at(0), r.mr.RKey(), 8) }
	for _, tt := range []respRefusal{
		{name: "READ", op: wire.ReadRequest, req: same, opts: []respOption{respAccessFlags(respNoRead)}},
		{name: "WRITE", op: wire.WriteOnly, req: same, opts: []respOption{respAccessFlags(respNoWrite)}},
		{name: "ATOMIC WRITE", op: wire.AtomicWrite, req: same, opts: []respOption{respAccessFlags(respNoWrite)}},
		{name: "COMPARE SWAP", op: wire.CompareSwap, req: same, opts: []respOption{respAccessFlags(respNoAtomic)}},
		{name: "FETCH ADD", op: wire.FetchAdd, req: same, opts: []respOption{respAccessFlags(respNoAtomic)}},
		{name: "FLUSH", op: wire.Flush, req: flush, opts: []respOption{respAccessFlags(respNoFlush)}},
	} {
		tt.nak, tt.event = wire.NakInvalidRequest, ibv.EventQPReqErr
		t.Run(tt.name, tt.run)
	}
}

func TestResponderRefusesLengths(t *testing.T) {
	send, write := respFirstOf(wire.SendFirst), respFirstOf(wire.WriteFirst)
	recv := []int{0, 4096}
	inv := ibv.WCRemInvReqErr
	for _, tt := range []respRefusal{
		{name: "SEND FIRST below MTU", op: wire.SendFirst, req: respWith(respMTU - 1), recv: recv, status: inv},
		{name: "SEND FIRST above MTU", op: wire.SendFirst, req: respWith(respMTU + 1), recv: recv, status: inv},
		{name: "SEND MIDDLE below MTU", before: send, op: wire.SendMiddle, req: respWith(respMTU - 4), recv: recv, status: inv},
		{name: "SEND MIDDLE empty", before: send, op: wire.SendMiddle, req: respWith(0), recv: recv, status: inv},
		{name: "SEND LAST empty", before: send, op: wire.SendLast, req: respWith(0), recv: recv, status: inv},
		{name: "SEND LAST above MTU", before: send, op: wire.SendLast, req: respWith(respMTU + 1), recv: recv, status: inv},
		{name: "SEND ONLY above MTU", op: wire.SendOnly, req: respWith(respMTU + 1), recv: recv, status: inv},
		{name: "SEND pad", op: wire.SendOnly, recv: recv, status: inv, req: func(_ *respRig, p respReq) respReq {
			return p.with([]byte{1}).padded(2)
		}},
		{name: "SEND beyond the receive", op: wire.SendOnly, req: respWith(17), recv: []int{0, 16}, status: ibv.WCLocLenErr},
		{name: "SEND beyond a receive of nothing", op: wire.SendOnly, req: respWith(1), recv: []int{}, status: ibv.WCLocLenErr},
		{name: "SEND LAST beyond the receive", before: send, op: wire.SendLast, req: respWith(1), recv: []int{0, respMTU}, status: ibv.WCLocLenErr},
		{name: "WRITE FIRST below MTU", op: wire.WriteFirst, req: respWriting(respMTU-4, 1000)},
		{name: "WRITE FIRST is all", op: wire.WriteFirst, req: respWriting(respMTU, respMTU)},
		{name: "WRITE FIRST of less", op: wire.WriteFirst, req: respWriting(respMTU, 3)},
		{name: "WRITE FIRST of nothing", op: wire.WriteFirst, req: respWriting(respMTU, 0)},
		{name: "WRITE MIDDLE below MTU", before: write, op: wire.WriteMiddle, req: respWith(respMTU - 4)},
		{name: "WRITE LAST too early", before: write, op: wire.WriteLast, req: respWith(respMTU)},
		{name: "WRITE LAST empty", before: write, op: wire.WriteLast, req: respWith(0)},
		{name: "WRITE ONLY above MTU", op: wire.WriteOnly, req: respWriting(respMTU+1, respMTU+1)},
		{name: "WRITE ONLY shorter than its RETH", op: wire.WriteOnly, req: respWriting(7, 8)},
		{name: "WRITE ONLY longer than its RETH", op: wire.WriteOnly, req: respWriting(8, 7)},
		{name: "WRITE ONLY without the payload", op: wire.WriteOnly, req: respWriting(0, 8)},
		{name: "WRITE ONLY with payload of none", op: wire.WriteOnly, req: respWriting(8, 0)},
		{name: "WRITE pad", op: wire.WriteOnly, req: func(r *respRig, p respReq) respReq { return respWriting(8, 8)(r, p).padded(1) }},
		{name: "WRITE of more than 2^31", op: wire.WriteFirst, req: respWriting(respMTU, 1<<31+1)},
		{name: "READ of more than 2^31", op: wire.ReadRequest, req: respWriting(0, 1<<31+1)},
		{name: "READ with payload", op: wire.ReadRequest, req: respWriting(4, 4)},
		{name: "ATOMIC WRITE of 4", op: wire.AtomicWrite, req: respWriting(4, 4)},
		{name: "ATOMIC WRITE of 8, RETH 16", op: wire.AtomicWrite, req: respWriting(8, 16)},
		{name: "ATOMIC WRITE of 12, RETH 8", op: wire.AtomicWrite, req: respWriting(12, 8)},
		{name: "FETCH ADD with payload", op: wire.FetchAdd, req: func(r *respRig, p respReq) respReq {
			return p.atomic(r.at(0), r.mr.RKey(), 1, 0).with([]byte{1, 2, 3, 4})
		}},
	} {
		tt.nak, tt.event = wire.NakInvalidRequest, ibv.EventQPReqErr
		t.Run(tt.name, tt.run)
	}
}

// A WRITE whose message ends before its last packet.
func TestResponderRefusesAWriteThatRunsOver(t *testing.T) {
	two := func(r *respRig) []respReq {
		return r.write(respStart, 0, respFill(1, 3*respMTU))[:2]
	}
	for _, tt := range []respRefusal{
		{name: "MIDDLE for LAST", before: two, op: wire.WriteMiddle, req: respWith(respMTU)},
		{name: "LAST too short", before: two, op: wire.WriteLast, req: respWith(respMTU - 4)},
	} {
		tt.nak, tt.event = wire.NakInvalidRequest, ibv.EventQPReqErr
		t.Run(tt.name, tt.run)
	}
}

func TestResponderRefusesKeys(t *testing.T) {
	type change = func(r *respRig, va uint64, key, n uint32) (uint64, uint32, uint32)
	changes := map[string]change{
		"unknown key":   func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va, key + 1<<8, n },
		"stale key":     func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va, key ^ 1, n },
		"key 0":         func(_ *respRig, va uint64, _, n uint32) (uint64, uint32, uint32) { return va, 0, n },
		"before":        func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va - 8, key, n },
		"past the end":  func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va + respSize, key, n },
		"over the end":  func(_ *respRig, va uint64, key, n uint32) (uint64, uint32, uint32) { return va + respSize - 7, key, n },
		"address wraps": func(_ *respRig, _ uint64, key, n uint32) (uint64, uint32, uint32) { return math.MaxUint64 - 3, key, n },
		"another PD": func(r *respRig, _ uint64, _, n uint32) (uint64, uint32, uint32) {
			return 0x8000, r.register(respPD+1, 0x8000, make([]byte, 64), respAllAccess).RKey(), n
		},
		"no right": func(r *respRig, _ uint64, _, n uint32) (uint64, uint32, uint32) {
			return 0x8000, r.register(respPD, 0x8000, make([]byte, 64), ibv.AccessLocalWrite).RKey(), n
		},
	}
	for name, c := range changes {
		for _, op := range []wire.Opcode{wire.ReadRequest, wire.WriteOnly, wire.CompareSwap, wire.FetchAdd, wire.AtomicWrite} {
			tt := respRefusal{op: op, req: respReading(c), nak: wire.NakRemoteAccess, event: ibv.EventQPAccessErr}
			t.Run(op.String()+" "+name, tt.run)
		}
	}
	for _, tt := range []respRefusal{
		{name: "WRITE FIRST whose end is outside", op: wire.WriteFirst, req: respWriting(respMTU, respSize+1)},
		{name: "READ of one byte too many", op: wire.ReadRequest, req: respWriting(0, respSize+1)},
		{name: "WRITE ONLY IMM", op: wire.WriteOnlyImm, recv: []int{0, 8}, status: ibv.WCRemAccessErr, req: func(r *respRig, p respReq) respReq {
			return p.reth(r.at(0), r.mr.RKey()+1, 8).word(1).with(respFill(1, 8))
		}},
	} {
		tt.nak, tt.event = wire.NakRemoteAccess, ibv.EventQPAccessErr
		t.Run(tt.name, tt.run)
	}
}

// When several things are wrong the first check decides.
func TestResponderChecksInOrder(t *testing.T) {
	badRight := []respOption{respAccessFlags(0)}
	for _, tt := range []respRefusal{
		{
			name: "length before key", op: wire.WriteFirst, nak: wire.NakInvalidRequest, event: ibv.EventQPReqErr,
			req: func(r *respRig, p respReq) respReq { return p.reth(0, 1, 1000).with(respFill(1, 5)) },
		},
		{
			name: "key before payload against RETH", op: wire.WriteOnly, nak: wire.NakRemoteAccess, event: ibv.EventQPAccessErr,
			req: func(r *respRig, p respReq) respReq { return p.reth(0, 1, 1000).with(respFill(1, 5)) },
		},
		{
			name: "key before alignment", op: wire.FetchAdd, nak: wire.NakRemoteAccess, event: ibv.EventQPAccessErr,
			req: func(r *respRig, p respReq) respReq { return p.atomic(3, 1, 0, 0) },
		},
		{
			name: "right before receive", op: wire.WriteOnlyImm, nak: wire.NakInvalidRequest, event: ibv.EventQPReqErr, opts: badRight,
			req: func(r *respRig, p respReq) respReq { return p.reth(r.at(0), r.mr.RKey(), 1).word(1).with([]byte{1}) },
		},
	} {
		t.Run(tt.name, tt.run)
	}
	t.Run("receive before length", func(t *testing.T) {
		r := newRespRig(t)
		r.arrive(respPkt(wire.SendFirst, 1000).with([]byte{1}))
		r.expect(respNak(respRNR, 1000, 0))
		r.expectState(ibv.QPStateRTR)
	})
}

func TestResponderRefusesBadReceives(t *testing.T) {
	sge := func(r *respRig, va uint64, n, key uint32) queue.SGE { return queue.SGE{Addr: va, Length: n, LKey: key} }
	tests := []struct {
		name   string
		post   func(r *respRig)
		status ibv.WCStatus
	}{
		{"wrong key", func(r *respRig) { r.postSGE(1, sge(r, r.at(0), 8, r.mr.LKey()+1)) }, ibv.WCLocProtErr},
		{"outside", func(r *respRig) { r.postSGE(1, sge(r, r.at(respSize), 8, r.mr.LKey())) }, ibv.WCLocProtErr},
		{"second entry", func(r *respRig) {
			r.postSGE(1, sge(r, r.at(0), 8, r.mr.LKey()), sge(r, r.at(0), 8, 0))
		}, ibv.WCLocProtErr},
		{"read-only region", func(r *respRig) {
			r.postSGE(1, sge(r, 0x8000, 8, r.register(respPD, 0x8000, make([]byte, 64), ibv.AccessRemoteRead).LKey()))
		}, ibv.WCLocProtErr},
		{"another PD", func(r *respRig) {
			r.postSGE(1, sge(r, 0x8000, 8, r.register(1, 0x8000, make([]byte, 64), respAllAccess).LKey()))
		}, ibv.WCLocProtErr},
		{"too many entries", func(r *respRig) {
			queue.PutRecv(r.rq.Slot(0), &queue.RecvWQE{WRID: 1, NumSGE: ibv.MaxSGE + 1})
			r.rq.Publish(1)
		}, ibv.WCLocQPOpErr},
		{"most entries of all", func(r *respRig) {
			queue.PutRecv(r.rq.Slot(0), &queue.RecvWQE{WRID: 1, NumSGE: math.MaxUint16})
			r.rq.Publish(1)
		}, ibv.WCLocQPOpErr},
		{"length does not add up", func(r *respRig) {
			slot := r.rq.Slot(0)
			queue.PutRecv(slot, &queue.RecvWQE{WRID: 1, NumSGE: 1, Length: 9})
			queue.PutRecvSGE(slot, 0, sge(r, r.at(0), 8, r.mr.LKey()))
			r.rq.Publish(1)
		}, ibv.WCLocQPOpErr},
		{"length wraps", func(r *respRig) {
			slot := r.rq.Slot(0)
			queue.PutRecv(slot, &queue.RecvWQE{WRID: 1, NumSGE: 2, Length: 0})
			queue.PutRecvSGE(slot, 0, sge(r, r.at(0), 1<<31, r.mr.LKey()))
			queue.PutRecvSGE(slot, 1, sge(r, r.at(0), 1<<31, r.mr.LKey()))
			r.rq.Publish(1)
		}, ibv.WCLocQPOpErr},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			tt.post(r)
			r.arrive(respSend(1000, []byte{1})...)
			r.expect(respNak(wire.NakRemoteOp, 1000, 0))
			r.expectCompletions(respFailed(1, tt.status))
			r.expectEvents(ibv.EventCommEst, ibv.EventQPFatal)
			r.expectState(ibv.QPStateErr)
			if r.mem[0] != 0 {
				t.Error("a byte was placed")
			}
		})
	}
}

// Entries of no bytes name no memory, and a WRITE with immediate uses none.
func TestResponderReceiveKeysThatDoNotMatter(t *testing.T) {
	r := newRespRig(t)
	r.postSGE(1, queue.SGE{Addr: 1, LKey: 0xBAD}, queue.SGE{Addr: r.at(0), Length: 4, LKey: r.mr.LKey()}, queue.SGE{LKey: 1})
	r.arrive(respSend(1000, []byte("abcd"))...)
	r.postSGE(2, queue.SGE{Addr: 1, Length: 8, LKey: 0xBAD})
	r.arrive(respPkt(wire.WriteOnlyImm, 1001).reth(r.at(8), r.mr.RKey(), 4).word(7).with([]byte("efgh")))
	r.expectMemory(0, []byte("abcd\x00\x00\x00\x00efgh"))
	got := r.completions()
	if len(got) != 2 || got[0].Status != 0 || got[1].Status != 0 {
		t.Errorf("completions %s", cmp.Diff(nil, got))
	}
}
