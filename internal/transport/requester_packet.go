package transport

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqHeaders writes the extension headers of the packet of w at offset off, of a
// READ request for responses up to end, and its solicited event bit.
func (q *QP) reqHeaders(in *Intent, w *sendWQE, off, end uint32) {
	info, h := in.Info, in.Hdr[:]
	if info.XRCETH != 0 {
		wire.XRCETHAt(h[info.XRCETH:]).SetSRQN(w.dest)
	}
	if info.RETH != 0 {
		q.reqRETH(wire.RETHAt(h[info.RETH:]), w, off, end)
	}
	if info.AtomicETH != 0 {
		putAtomicETH(wire.AtomicETHAt(h[info.AtomicETH:]), w)
	}
	if info.ImmDt != 0 {
		binary.BigEndian.PutUint32(wire.ImmDtAt(h[info.ImmDt:])[:], w.imm)
	}
	if info.DETH != 0 {
		q.reqDETH(in, w)
	}
	if info.IETH != 0 {
		wire.IETHAt(h[info.IETH:]).SetRKey(w.imm)
	}
	if info.FETH != 0 {
		wire.FETHAt(h[info.FETH:]).Encode(&wire.FETHFields{
			Placement: wire.Placement(w.flushType), Selectivity: wire.Selectivity(w.flushSel),
		})
	}
	// Only what completes a receive work request can raise an event there.
	if info.Completes && w.is(ibv.SendSolicited) {
		wire.BTHAt(h).SetSE(true)
	}
}

// reqRETH names the remote memory: of the whole message, or for a READ of the
// response packets from off up to end.
func (q *QP) reqRETH(h *wire.RETH, w *sendWQE, off, end uint32) {
	f := wire.RETHFields{VA: w.raddr, RKey: w.rkey, DMALen: w.length}
	if w.kind == kindRead {
		from, to := q.span(w, off, end)
		f.VA += from
		f.DMALen = uint32(to - from)
	}
	h.Encode(&f)
}

// span is the range of bytes of the message that the packets from offset off up
// to end carry.
func (q *QP) span(w *sendWQE, off, end uint32) (from, to uint64) {
	mtu := uint64(q.mtu)
	return uint64(off) * mtu, min(uint64(end)*mtu, uint64(w.length))
}

func putAtomicETH(h *wire.AtomicETH, w *sendWQE) {
	f := wire.AtomicETHFields{VA: w.raddr, RKey: w.rkey}
	if w.op == ibv.WRAtomicCmpAndSwp {
		f.SwapAdd, f.Compare = w.swap, w.compare
	} else {
		f.SwapAdd = w.compare
	}
	h.Encode(&f)
}

// reqGather appends the payload of the packet of the i-th work request at offset
// off. Keys are checked again for every packet: a region may have been
// deregistered since.
func (q *QP) reqGather(tx *Batch, in *Intent, i, off uint32) bool {
	w := q.req.at(i)
	from, to := q.span(w, off, off+1)
	if w.is(ibv.SendInline) {
		tx.data(in, q.req.inlineAt(i)[from:to])
		return true
	}
	// Entries are few: finding the first byte costs less than remembering it.
	base := uint64(0)
	for _, s := range q.req.sgesAt(i)[:w.numSGE] {
		lo, hi := max(from, base), min(to, base+uint64(s.Length))
		if lo < hi {
			va := s.Addr + lo - base
			region, ok := q.env.Mem.Access(s.LKey, q.cfg.PD, 0, va, hi-lo)
			if !ok {
				return false
			}
			tx.region(in, region, va, int(hi-lo))
		}
		if base += uint64(s.Length); base >= to {
			break
		}
	}
	return true
}
