package transport

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respDoRead accepts a READ. Poll sends its responses; it takes as many PSNs as
// they have packets.
func (q *QP) respDoRead(x *respPacket) respState {
	st, h := &q.resp.st, x.p.RETH()
	q.resp.pace.fresh(x.now, st.serve == st.savedNext)
	s := q.respSave(x, savedCredit)
	s.va, s.rkey, s.size = h.VA(), h.RKey(), h.DMALen()
	s.orig = uint64(q.resp.pd)
	s.stop = s.size
	s.count = readPSNs(s.size, q.mtu)
	st.ePSN = x.psn.Add(int(s.count))
	st.msn = (st.msn + 1) & psn.Mask
	q.respPurgeKept()
	return respDone
}

// readPSNs is the number of responses of a READ of n bytes.
func readPSNs(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)/uint64(mtu)))
}

// respDoAtomic executes what has a single response: an atomic, ATOMIC WRITE or
// FLUSH. Key and range were checked; memory that has no atomics refuses now.
func (q *QP) respDoAtomic(x *respPacket) respState {
	st := &q.resp.st
	var orig uint64
	ok := true
	credit := savedCredit
	switch p := x.p; p.Opcode.Operation() {
	case wire.CompareSwap:
		a := p.AtomicETH()
		orig, ok = x.region.CompareSwap(a.VA(), a.Compare(), a.SwapAdd())
	case wire.FetchAdd:
		a := p.AtomicETH()
		orig, ok = x.region.FetchAdd(a.VA(), a.SwapAdd())
	case wire.AtomicWrite:
		var b [8]byte
		n := 0
		for _, s := range p.Segments() {
			n += copy(b[n:], s)
		}
		ok = x.region.StoreWord(p.RETH().VA(), binary.NativeEndian.Uint64(b[:]))
	default:
		// FLUSH. Memory of this machine is coherent: what earlier requests have placed is
		// visible to all already. Persistence no region grants.
		credit = 0
	}
	if !ok {
		return respErrOperational
	}
	q.env.Counters[RcvdBytes] += uint64(x.p.PayloadLen)
	s := q.respSave(x, credit)
	s.orig = orig
	st.ackPSN, st.ePSN = x.psn, x.psn.Next()
	st.msn = (st.msn + 1) & psn.Mask
	return respDone
}
