package transport

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// keptList has the packets that came after a gap, in the order of their PSNs, each once
// and none farther after the gap than the budget has places, rounded up to a power of
// two. It takes memory for what it has, not for where that lies: a peer can leave a
// packet behind a gap in each of thousands of queue pairs.
type keptList struct {
	refs  []keptRef // a circle; a power of two, or none while nothing is kept
	first int       // where in it the oldest is
	count int
}

// keptRef is a kept packet.
type keptRef struct {
	psn psn.PSN
	pkt *wire.Packet
}

// minKeptRefs is the shortest circle that there is.
const minKeptRefs = 8

// keptPool has what no list of the queue pairs of a worker uses at the moment. It grows
// to what these have kept together at most, which the driver bounds: for each a packet
// and, as circles are at least a quarter full, a few references of every length.
type keptPool struct {
	refs    slicePool[keptRef]
	packets []*wire.Packet
}

// copyOf is a copy of pkt.
func (l *keptPool) copyOf(pkt *wire.Packet) *wire.Packet {
	last := len(l.packets) - 1
	if last < 0 {
		l.packets, last = append(l.packets, new(wire.Packet)), 0
	}
	c := l.packets[last]
	l.packets = l.packets[:last]
	*c = *pkt
	return c
}

// resize moves what k has to a circle of n references, or gives up its circle if n is 0.
func (l *keptPool) resize(k *keptList, n int) {
	to := l.refs.get(n)
	for i := range k.count {
		to[i] = *k.ref(i)
	}
	l.refs.put(k.refs)
	k.refs, k.first = to, 0
}

// shrink gives back what k need not have.
func (l *keptPool) shrink(k *keptList) {
	switch {
	case k.count == 0:
		l.resize(k, 0)
	case len(k.refs) > minKeptRefs && 4*k.count <= len(k.refs):
		l.resize(k, max(minKeptRefs, 1<<bits.Len(uint(2*k.count-1))))
	}
}

// ref is the i-th packet of k, from the oldest on, or the place where that would be.
func (k *keptList) ref(i int) *keptRef { return &k.refs[(k.first+i)&(len(k.refs)-1)] }

// before is how many packets of k come before PSN p.
func (k *keptList) before(p psn.PSN) int {
	if k.count == 0 || k.ref(k.count-1).psn.Less(p) {
		return k.count
	}
	lo, hi := 0, k.count-1 // it is in [lo, hi]
	for lo < hi {
		if mid := lo + (hi-lo)/2; k.ref(mid).psn.Less(p) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// has reports whether the packet with PSN p is kept.
func (k *keptList) has(p psn.PSN) bool {
	i := k.before(p)
	return i < k.count && k.ref(i).psn == p
}

// wanting is how many of the n PSNs from p on come before the next that is kept.
func (k *keptList) wanting(p psn.PSN, n int) int {
	if i := k.before(p); i < k.count {
		return min(n, k.ref(i).psn.Sub(p))
	}
	return n
}

// insert makes r the i-th packet. There is a place, to which the shorter of both ends
// moves.
func (k *keptList) insert(i int, r keptRef) {
	k.count++
	if i < k.count/2 {
		k.first = (k.first - 1) & (len(k.refs) - 1)
		for j := range i {
			*k.ref(j) = *k.ref(j + 1)
		}
	} else {
		for j := k.count - 1; j > i; j-- {
			*k.ref(j) = *k.ref(j - 1)
		}
	}
	*k.ref(i) = r
}

// remove takes the i-th packet out.
func (k *keptList) remove(i int) {
	k.count--
	if i < (k.count+1)/2 {
		for j := i; j > 0; j-- {
			*k.ref(j) = *k.ref(j - 1)
		}
		k.first = (k.first + 1) & (len(k.refs) - 1)
	} else {
		for j := i; j < k.count; j++ {
			*k.ref(j) = *k.ref(j + 1)
		}
	}
}

// keep stores the packet pkt with PSN p in k, where the gap begins at base. It
// refuses one that the budget, of requests and responses together, has no place for,
// that lies too far ahead or that is there already.
func (q *QP) keep(k *keptList, base, p psn.PSN, pkt *wire.Packet) bool {
	budget := q.env.KeepBudget
	if q.resp.kept.count+q.req.kept.count >= budget || p.Sub(base) > 1<<bits.Len(uint(budget-1)) {
		return false
	}
	i := k.before(p)
	if i < k.count && k.ref(i).psn == p {
		return false
	}
	if k.count == len(k.refs) {
		q.env.keeps.resize(k, max(minKeptRefs, 2*k.count))
	}
	k.insert(i, keptRef{psn: p, pkt: q.env.keeps.copyOf(pkt)})
	return true
}

// takeKept is the packet with PSN p of k, or nil. Its frame is reported as released: it
// is reused only after the batch. The packet is good until the next is kept.
func (q *QP) takeKept(k *keptList, p psn.PSN) *wire.Packet {
	i := k.before(p)
	if i == k.count || k.ref(i).psn != p {
		return nil
	}
	q.env.count(OutOfOrderUsed)
	pkt := k.ref(i).pkt
	q.releaseKept(pkt)
	k.remove(i)
	q.env.keeps.shrink(k)
	return pkt
}

// releaseKept lets go of a packet that is taken out of its list.
func (q *QP) releaseKept(pkt *wire.Packet) {
	q.env.Released = append(q.env.Released, pkt.Ref)
	q.env.keeps.packets = append(q.env.keeps.packets, pkt)
}

// leaveKept lets go of the packets of k of which stays, asked in their order, says no.
func (q *QP) leaveKept(k *keptList, stays func(psn.PSN) bool) {
	n := 0
	for i := range k.count {
		r := *k.ref(i)
		if !stays(r.psn) {
			q.releaseKept(r.pkt)
			continue
		}
		*k.ref(n) = r
		n++
	}
	k.count = n
	q.env.keeps.shrink(k)
}

// releaseAllKept lets go of what k has.
func (q *QP) releaseAllKept(k *keptList) {
	for i := range k.count {
		q.releaseKept(k.ref(i).pkt)
	}
	k.count = 0
	q.env.keeps.shrink(k)
}
