package transport

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqResponse handles a READ response or an ATOMIC_ACKNOWLEDGE with PSN at, which
// also acknowledges every request before it. That one of those still lacks its own
// response shows a loss: that is asked for again, and this one waits here.
func (q *QP) reqResponse(now mono.Time, p *wire.Packet, syn wire.Syndrome, at psn.PSN) Verdict {
	r := &q.req
	r.acked = later(r.acked, at)
	all := q.reqAckNext(now, at.Sub(r.una), byResponse)
	switch {
	case !q.reqLive():
		return Release
	case !all && !q.reqKeeps(at):
		q.reqImpliedNak(now)
		return Release
	case !all:
		v := q.reqKeep(p, at)
		q.reqGap(now, at)
		return v
	}
	q.reqInOrder(now, p, syn)
	for r.kept.count > 0 && q.reqLive() {
		next := q.takeKept(&r.kept, r.una)
		if next == nil {
			break
		}
		syn := wire.SynACK(wire.NoCredits)
		if next.Info.AETH != 0 {
			syn = next.AETH().Syndrome()
		}
		q.reqInOrder(now, next, syn)
	}
	if q.reqLive() && r.una.Less(r.spilled) {
		q.reqGap(now, r.spilled) // of that nothing waits here any more
	}
	return Release
}

// reqKeeps reports whether responses from at on are kept: when a gap opens, only if
// there is room for all that may follow. To keep some and drop the others is worse
// than to go back at once.
func (q *QP) reqKeeps(at psn.PSN) bool {
	r := &q.req
	return r.kept.count > 0 || r.fix.ranges.try() && r.nxt.Sub(at) <= q.env.KeepBudget-q.resp.kept.count
}

// reqKeep stores a response that came after a gap. It must be one that its request
// waits for.
func (q *QP) reqKeep(p *wire.Packet, at psn.PSN) Verdict {
	r := &q.req
	if w := r.find(at); w == nil || !w.kind.answered() || r.kept.has(at) {
		q.env.count(DropStaleResponse)
		return Release
	}
	if !q.keep(&r.kept, r.una, at, p) {
		q.env.count(DropOutOfOrder)
		r.spilled = later(r.spilled, at.Next())
		return Release
	}
	q.env.count(OutOfOrderKept)
	return Keep
}

// find is the work request of PSN p, which was sent and is not before una; nil when
// there is none.
func (r *requester) find(p psn.PSN) *sendWQE {
	lo, hi := r.head, r.tail // the work request is in [lo, hi)
	ahead := p.Sub(r.una)
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if r.at(mid).first.Sub(r.una) <= ahead {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo == hi {
		return nil
	}
	return r.at(lo)
}

// reqInOrder handles the response of the oldest outstanding PSN, and completes what
// is known to have been executed after it.
func (q *QP) reqInOrder(now mono.Time, p *wire.Packet, syn wire.Syndrome) {
	r := &q.req
	w := r.oldest()
	if w.status != ibv.WCSuccess {
		return
	}
	status := ibv.WCBadRespErr
	if syn.Kind() == wire.KindACK {
		status = q.reqAccept(p, w)
	}
	if status != ibv.WCSuccess {
		if status != ibv.WCLocProtErr {
			q.env.count(DropResponse)
		}
		q.reqFail(now, status)
		return
	}
	q.env.Counters[RcvdBytes] += uint64(p.PayloadLen)
	q.reqAnswered(now, w)
	r.partAnswered()
	if q.reqLive() && r.una.Less(r.acked) {
		q.reqAckNext(now, r.acked.Sub(r.una), byResponse)
	}
}

// reqAccept checks a response of the oldest outstanding PSN and stores what it
// carries.
func (q *QP) reqAccept(p *wire.Packet, w *sendWQE) ibv.WCStatus {
	atomicAck := p.Info.AtomicAckETH != 0
	switch w.kind {
	case kindRead:
		if !atomicAck {
			return q.reqReadResponse(p, w)
		}
	case kindAtomic:
		if atomicAck {
			return q.reqAtomicResult(w, p.AtomicAckETH().Orig())
		}
	case kindAtomicWrite, kindFlush:
		if !atomicAck && p.Info.Pos == wire.Only {
			if p.PayloadLen != 0 {
				return ibv.WCLocLenErr
			}
			return ibv.WCSuccess
		}
	default: // the others are completed by an ACKNOWLEDGE
	}
	return ibv.WCBadRespErr
}

// reqReadResponse checks position and length of a READ response and scatters
// its payload.
func (q *QP) reqReadResponse(p *wire.Packet, w *sendWQE) ibv.WCStatus {
	r := &q.req
	off := w.offset(r.una)
	again := r.una.Less(r.redo)
	// Where a part of a READ was asked for again its responses begin with FIRST or
	// ONLY and end with LAST or ONLY, but Linux's rxe begins with MIDDLE or LAST:
	// both are right then.
	begins, ends := p.Info.Pos&wire.First != 0, p.Info.Pos&wire.Last != 0
	if begins != (off%w.chunk == 0) && !again {
		return ibv.WCBadRespErr
	}
	from, to := q.span(w, off, off+1)
	last := off+1 == w.chunkEnd(off)
	if uint64(p.PayloadLen) != to-from || last && !ends || ends && !last && !again {
		return ibv.WCLocLenErr
	}
	if !q.reqScatterPacket(p, w, from, off+1 == w.packets) {
		return ibv.WCLocProtErr
	}
	return ibv.WCSuccess
}

// reqScatterPacket writes the payload of p at byte at of the message.
func (q *QP) reqScatterPacket(p *wire.Packet, w *sendWQE, at uint64, last bool) bool {
	segs := p.Segments()
	for i, s := range segs {
		if !q.reqScatter(w, at, s, last && i == len(segs)-1) {
			return false
		}
		at += uint64(len(s))
	}
	return true
}

// reqScatter writes src at byte at of the local memory of w, the oldest. With
// final set its end is the end of the message and becomes visible last.
func (q *QP) reqScatter(w *sendWQE, at uint64, src []byte, final bool) bool {
	base := uint64(0)
	for _, s := range q.req.sgesAt(q.req.head)[:w.numSGE] {
		if len(src) == 0 {
			break
		}
		n := uint64(s.Length)
		if skip := at - base; skip < n {
			k := min(n-skip, uint64(len(src)))
			if !q.reqPut(s.LKey, s.Addr+skip, src[:k], final && k == uint64(len(src))) {
				return false
			}
			src = src[k:]
			at += k
		}
		base += n
	}
	return len(src) == 0
}

func (q *QP) reqPut(lkey uint32, va uint64, src []byte, final bool) bool {
	region, ok := q.env.Mem.Access(lkey, q.cfg.PD, ibv.AccessLocalWrite, va, uint64(len(src)))
	switch {
	case !ok:
		return false
	case final:
		return region.WriteFinal(va, src)
	}
	return region.Write(va, src)
}

// reqAtomicResult stores the value that an atomic found, as a word of this host
// (IBTA vol. 1, 9.4.5).
func (q *QP) reqAtomicResult(w *sendWQE, orig uint64) ibv.WCStatus {
	word := &q.req.word
	binary.NativeEndian.PutUint64(word[:], orig)
	if !q.reqScatter(w, 0, word[:], true) {
		return ibv.WCLocProtErr
	}
	return ibv.WCSuccess
}

// reqAnswered moves on after the response of the oldest outstanding PSN was
// accepted.
func (q *QP) reqAnswered(now mono.Time, w *sendWQE) {
	r := &q.req
	off := w.offset(r.una)
	sent := r.una.Less(r.nxt)
	r.advance(1)
	if sent && off+1 == w.chunkEnd(off) {
		r.credits--
	}
	if q.reqRetireIfDone(now, w) {
		q.reqProgress(now, byResponse)
	}
}

// later is the one of p and q that comes second.
func later(p, q psn.PSN) psn.PSN {
	if p.Less(q) {
		return q
	}
	return p
}
