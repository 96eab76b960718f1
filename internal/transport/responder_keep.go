package transport

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// keptRing holds packets that came after a gap, each at its PSN modulo the size
// of the ring. The size bounds how far after the gap a packet may be, so two
// kept packets never share a place. Its memory comes from what the queue pairs of
// a worker share, and goes back there when the gap is closed.
type keptRing struct {
	slots []keptPacket // a power of two
	count int
}

type keptPacket struct {
	used bool
	pkt  wire.Packet
}

// respKeep stores the packet unless the budget is used up, it lies too far
// ahead, or it is there already.
func (q *QP) respKeep(x *respPacket) bool {
	k, budget := &q.resp.kept, q.env.KeepBudget
	if k.count >= budget {
		return false
	}
	if len(k.slots) < budget && k.count == 0 {
		q.respDropKept()
		k.slots = q.env.keeps.get(1 << bits.Len(uint(budget-1)))
	}
	if x.psn.Sub(q.resp.st.ePSN) > len(k.slots) {
		return false
	}
	s := &k.slots[int(x.psn)&(len(k.slots)-1)]
	if s.used {
		return false
	}
	s.used, s.pkt = true, *x.p
	k.count++
	return true
}

// respTakeKept is the kept packet that is expected now, or nil. Its frame
// is reported as released: it is reused only after the batch.
func (q *QP) respTakeKept() *wire.Packet {
	k := &q.resp.kept
	s := &k.slots[int(q.resp.st.ePSN)&(len(k.slots)-1)]
	if !s.used || psnOf(&s.pkt) != q.resp.st.ePSN {
		return nil
	}
	q.respRelease(s)
	q.env.count(OutOfOrderUsed)
	return &s.pkt
}

func (q *QP) respRelease(s *keptPacket) {
	s.used = false
	q.resp.kept.count--
	q.env.Released = append(q.env.Released, s.pkt.Ref)
}

// respDropKept gives the memory of the ring back while nothing is in it.
func (q *QP) respDropKept() {
	k := &q.resp.kept
	if k.count == 0 && k.slots != nil {
		q.env.keeps.put(k.slots)
		k.slots = nil
	}
}

// respReleaseKept lets go of all kept packets.
func (q *QP) respReleaseKept() {
	k := &q.resp.kept
	for i := 0; k.count > 0; i++ {
		if s := &k.slots[i]; s.used {
			q.respRelease(s)
		}
	}
}

// respPurgeKept lets go of kept packets that come before the expected PSN: a
// READ has jumped over them.
func (q *QP) respPurgeKept() {
	k := &q.resp.kept
	if k.count == 0 {
		return
	}
	for i := range k.slots {
		if s := &k.slots[i]; s.used && psnOf(&s.pkt).Less(q.resp.st.ePSN) {
			q.respRelease(s)
		}
	}
}
