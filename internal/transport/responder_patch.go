package transport

import "github.com/roce-xdp/roce-xdp/internal/mono"

// A peer that keeps what comes after a gap asks for the missing responses of a
// READ alone: its duplicate ends before the READ does. Those responses are sent on
// the side. What is under way for this READ and later ones goes on, since nothing
// of that is missed; a peer that keeps nothing asks for all of it again.

const maxPatches = 16

// readPatches are parts of READs to be sent again, in the order in which they were
// asked for. Their memory comes from what the queue pairs of a worker share.
type readPatches struct {
	list []savedResult // nil, or maxPatches
	next uint8         // of list, the first that has not been sent
	n    uint8         // how many are in list
}

func (p *readPatches) empty() bool { return p.next == p.n }

// respClearPatches gives up what has not been sent, and the memory.
func (q *QP) respClearPatches() {
	q.env.patches.put(q.resp.patches.list)
	q.resp.patches = readPatches{}
}

// respAddPatch queues the bytes from offset off up to end of the READ s. It returns
// false when there are too many patches: then all of the rest is sent again.
func (q *QP) respAddPatch(x *respPacket, s *savedResult, off, end uint32) bool {
	p := &q.resp.patches
	if p.n == maxPatches {
		return false
	}
	if p.list == nil {
		p.list = q.env.patches.get(maxPatches)
	}
	q.respDue(x.now)
	t := &p.list[p.n]
	*t = *s
	t.from, t.pos, t.stop, t.flags = off, off, end, savedValid
	p.n++
	return true
}

// respSendPatches sends them. One whose memory is gone is dropped: to a duplicate
// there is no other answer. It reports whether the batch lacks room.
func (q *QP) respSendPatches(now mono.Time, tx *Batch) (more bool) {
	p := &q.resp.patches
	if p.empty() {
		return false
	}
	for !p.empty() {
		if tx.full(1) {
			return true
		}
		if q.respHeld(now) {
			return false
		}
		s := &p.list[p.next]
		if !q.respSendRead(now, tx, s, s.first.Add(int(s.pos)/q.mtu)) || s.pos == s.stop {
			p.next++
		}
	}
	q.respClearPatches()
	return false
}
