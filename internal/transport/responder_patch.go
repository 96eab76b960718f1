package transport

import "github.com/roce-xdp/roce-xdp/internal/mono"

// A peer that keeps what comes after a gap asks for the missing responses of a
// READ alone: its duplicate ends before the READ does. Those responses are sent on
// the side. What is under way for this READ and later ones goes on, since nothing
// of that is missed; a peer that keeps nothing asks for all of it again.

const maxPatches = 16 // a power of two

// readPatches are parts of READs to be sent again, in the order in which they were
// asked for.
type readPatches struct {
	ring       [maxPatches]savedResult
	next, tail uint32 // indices; they run freely
}

func (p *readPatches) empty() bool { return p.next == p.tail }

func (p *readPatches) clear() { p.next = p.tail }

// respAddPatch queues the bytes from offset off up to end of the READ s. It returns
// false when there are too many patches: then all of the rest is sent again.
func (q *QP) respAddPatch(x *respPacket, s *savedResult, off, end uint32) bool {
	p := &q.resp.patches
	if p.tail-p.next >= maxPatches {
		return false
	}
	q.respDue(x.now)
	n := &p.ring[p.tail%maxPatches]
	*n = *s
	n.from, n.pos, n.stop, n.flags = off, off, end, savedValid
	p.tail++
	return true
}

// respSendPatches sends them. One whose memory is gone is dropped: to a duplicate
// there is no other answer.
func (q *QP) respSendPatches(now mono.Time, tx *Batch) (more bool) {
	for p := &q.resp.patches; !p.empty(); {
		if tx.full(1) {
			return true
		}
		s := &p.ring[p.next%maxPatches]
		if !q.respSendRead(now, tx, s, s.first.Add(int(s.pos)/q.mtu)) || s.pos == s.stop {
			p.next++
		}
	}
	return false
}
