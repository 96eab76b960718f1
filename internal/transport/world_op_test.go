package transport_test

import (
	"encoding/binary"
	"maps"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// worldOp is a send work request and what must come of it.
type worldOp struct {
	wqe    queue.SendWQE
	sges   []queue.SGE
	inline []byte
	want   queue.CQE // completion, when it is signaled

	wrong  ibv.WCStatus // what it must fail with
	source []span       // own memory that is sent, and overwritten once it has been
	result []span       // own memory that the answer goes to
	data   []byte       // the answer, if it is known before

	at      span   // bytes of the area that it changes
	change  []byte // what they become
	atomic  atomicKind
	word    int    // of the words that atomics of all meet at
	earlier uint64 // own additions to the word before this one

	msg      *worldMessage // which it is at the peer
	msgIndex int
	key      *worldKey // which it uses, or changes
	own      *worldKey // by which it names its own memory
	changes  bool
}

type atomicKind int

const (
	noAtomic atomicKind = iota
	atomicAdd
	atomicSwap
)

// worldArea is memory of the peer that only one queue pair's requests reach.
type worldArea struct {
	at      span
	first   []byte // contents at the beginning
	model   []byte // contents when all that was posted has been executed, in order
	reading []span // by READs since the last fence; see generator.reading
}

func (a *worldArea) init(q *worldQP) {
	if !q.reliable() {
		return
	}
	peer := &q.peer.h.mem
	a.at = peer.take(pairMaxMsg(q.bytesMTU())+64, 8)
	a.first = make([]byte, a.at.n)
	fill(q.h.w.rnd, a.first)
	peer.put([]span{a.at}, a.first)
	a.model = append([]byte(nil), a.first...)
}

// overlaps reports whether a READ that may have to be answered again reads s.
func (a *worldArea) overlaps(s span) bool {
	for _, r := range a.reading {
		if s.off < r.off+r.n && r.off < s.off+s.n {
			return true
		}
	}
	return false
}

// succeeded is what must be true when op, the oldest, has succeeded.
func (q *worldQP) succeeded(op *worldOp) {
	w, m := q.h.w, &q.h.mem
	q.done++
	if op.wrong != ibv.WCSuccess {
		w.failf("%v: %v %d succeeds, but ought to fail with %v", q, op.wqe.Opcode, op.wqe.WRID, op.wrong)
	}
	// What the one side believes is what the other side has seen.
	if op.msg != nil && q.reliable() && q.peer.arrived <= op.msgIndex && !q.peer.closed {
		w.failf("%v: %v %d succeeds before the peer has it", q, op.wqe.Opcode, op.wqe.WRID)
	}
	switch op.atomic {
	case noAtomic:
		if !m.expect(op.result, op.data) {
			w.failf("%v: the result of %v %d is wrong", q, op.wqe.Opcode, op.wqe.WRID)
		}
	default:
		var b []byte
		for _, s := range op.result {
			b = append(b, m.bytes[s.off:s.off+s.n]...)
		}
		m.expect(op.result, b)
		q.atomicDone(op, binary.NativeEndian.Uint64(b))
	}
	m.fill(op.source, 0x55) // as a program may
	q.keyDone(op, true)
}

// fail is what comes of a request that has failed: nobody says what is in the
// memory of its result.
func (op *worldOp) fail(q *worldQP) {
	q.h.mem.loose = append(q.h.mem.loose, op.result...)
	q.keyDone(op, false)
}

// atomicDone looks at the value before an atomic.
func (q *worldQP) atomicDone(op *worldOp, old uint64) {
	w := q.h.w
	if op.atomic == atomicAdd {
		if n := old >> q.lane() & 0xffff; n != op.earlier {
			w.failf("%v: FETCH_ADD %d finds %d of its own additions to the word, want %d", q, op.wqe.WRID, n, op.earlier)
		}
		return
	}
	l := q.peer.h.lock(op.word)
	if old != 0 && !l.posted[old] {
		w.failf("%v: COMP_SWAP %d finds %#x, which nobody has put there", q, op.wqe.WRID, old)
	}
	q.seen[op.word] = old
	if old == op.wqe.CompareAdd {
		if l.next[old] != 0 {
			w.failf("%v: COMP_SWAP %d takes %#x, which was taken before", q, op.wqe.WRID, old)
		}
		l.next[old] = op.wqe.Swap
		q.seen[op.word] = op.wqe.Swap
	}
}

// lane is the bits of a word that count this queue pair's additions.
func (q *worldQP) lane() int { return 16 * q.conn }

// worldLock is the history of a word that COMP_SWAPs meet at. All values that
// they put there differ, so that each is taken once at most.
type worldLock struct {
	posted map[uint64]bool   // values that may come to be there
	next   map[uint64]uint64 // the value that came after one, as far as it is known
}

// lock is the history of word n of this host.
func (h *worldHost) lock(n int) *worldLock {
	for len(h.locks) <= n {
		h.locks = append(h.locks, &worldLock{map[uint64]bool{}, map[uint64]uint64{}})
	}
	return h.locks[n]
}

// checkLocks follows the values of each word from the first to the one that is
// there now. A request without an answer may have been executed all the same.
func (h *worldHost) checkLocks(complete bool) {
	for n, l := range h.locks {
		left, v := maps.Clone(l.next), uint64(0)
		for left[v] != 0 {
			next := left[v]
			delete(left, v)
			v = next
		}
		now := binary.NativeEndian.Uint64(h.mem.bytes[h.mem.locks.off+8*n:])
		if complete && (len(left) != 0 || now != v) || now != 0 && !l.posted[now] || l.next[now] != 0 {
			h.w.failf("host %d: word %d is %#x; its history ends with %#x, and %d values that were taken never came", h.n, n, now, v, len(left))
		}
	}
}

// checkAdds wants each addition to have been made once.
func (h *worldHost) checkAdds() {
	for n := range worldAdds {
		got, all := binary.NativeEndian.Uint64(h.mem.bytes[h.mem.adds.off+8*n:]), uint64(0)
		for _, q := range h.qps {
			if q.recvs == nil {
				continue // nobody asks it for anything
			}
			low, high := q.peer.additions(n)
			have := got >> q.peer.lane() & 0xffff
			if have < low || have > high {
				h.w.failf("host %d: word %d has %d additions of %v; %d have succeeded, %d were posted", h.n, n, have, q.peer, low, high)
			}
			if high > 0 {
				all |= have << q.peer.lane()
			}
		}
		if all != got {
			h.w.failf("host %d: word %d is %#x, of which its peers have added %#x", h.n, n, got, all)
		}
	}
}

// additions are how many to word n have succeeded, and were posted.
func (q *worldQP) additions(n int) (low, high uint64) {
	for i, op := range q.ops {
		if op.atomic != atomicAdd || op.word != n {
			continue
		}
		high++
		if i < q.succeededOps() {
			low++
		}
	}
	return low, high
}

// succeededOps is how many requests of a reliable connection are known to have
// succeeded: all before the first that failed, which is where done stood then.
func (q *worldQP) succeededOps() int {
	if q.failed != ibv.WCSuccess {
		return q.firstFailed
	}
	return q.done
}

// checkArea compares the area at the peer with what the requests must have made
// of it. Those that have not succeeded may have been executed, in part, or not.
func (q *worldQP) checkArea() {
	if !q.reliable() {
		return
	}
	a := &q.area
	sure := append([]byte(nil), a.first...)
	for _, op := range q.ops[:q.succeededOps()] {
		copy(sure[op.at.off:], op.change)
	}
	got := q.peer.h.mem.bytes[a.at.off:][:a.at.n]
	for i, b := range got {
		ok := b == sure[i]
		for _, op := range q.ops[q.succeededOps():] {
			in := i - op.at.off
			ok = ok || op.wrong == 0 && in >= 0 && in < len(op.change) && op.change[in] == b
		}
		if !ok {
			q.h.w.failf("%v: byte %d of its area at the peer is %#x, want %#x", q, i, b, sure[i])
		}
	}
	q.peer.h.mem.loose = append(q.peer.h.mem.loose, a.at)
}
