package transport

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/internal/psn"
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

// keep stores the packet pkt with PSN p in k, where the gap begins at base. It
// refuses one that the budget, of requests and responses together, has no place for,
// that lies too far ahead or that is there already.
func (q *QP) keep(k *keptRing, base, p psn.PSN, pkt *wire.Packet) bool {
	budget := q.env.KeepBudget
	if q.resp.kept.count+q.req.kept.count >= budget {
		return false
	}
	if len(k.slots) < budget && k.count == 0 {
		q.dropKept(k)
		k.slots = q.env.keeps.get(1 << bits.Len(uint(budget-1)))
	}
	if p.Sub(base) > len(k.slots) {
		return false
	}
	s := &k.slots[int(p)&(len(k.slots)-1)]
	if s.used {
		return false
	}
	s.used, s.pkt = true, *pkt
	k.count++
	return true
}

// dropKept gives the memory of k back while nothing is in it.
func (q *QP) dropKept(k *keptRing) {
	if k.count == 0 && k.slots != nil {
		q.env.keeps.put(k.slots)
		k.slots = nil
	}
}

// at is the kept packet with PSN p, nil when there is none.
func (k *keptRing) at(p psn.PSN) *keptPacket {
	if k.count == 0 {
		return nil
	}
	if s := &k.slots[int(p)&(len(k.slots)-1)]; s.used && psnOf(&s.pkt) == p {
		return s
	}
	return nil
}

// takeKept is the packet with PSN p of k, or nil. Its frame is reported as
// released: it is reused only after the batch.
func (q *QP) takeKept(k *keptRing, p psn.PSN) *wire.Packet {
	s := k.at(p)
	if s == nil {
		return nil
	}
	q.releaseKept(k, s)
	q.env.count(OutOfOrderUsed)
	return &s.pkt
}

func (q *QP) releaseKept(k *keptRing, s *keptPacket) {
	s.used = false
	k.count--
	q.env.Released = append(q.env.Released, s.pkt.Ref)
}

// releaseAllKept lets go of what k has.
func (q *QP) releaseAllKept(k *keptRing) {
	for i := 0; k.count > 0; i++ {
		if s := &k.slots[i]; s.used {
			q.releaseKept(k, s)
		}
	}
}
