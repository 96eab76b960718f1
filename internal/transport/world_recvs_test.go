package transport_test

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// worldMessage is what the peer has posted that takes a receive.
type worldMessage struct {
	data   []byte
	flags  ibv.WCFlags
	imm    uint32
	write  bool      // WRITE with immediate: the data goes elsewhere
	target span      // there, on a service without retries
	key    *worldKey // which it invalidates
}

// recvWRID is set in the numbers of receive work requests.
const recvWRID = 1 << 63

// idle fills receive buffers that are not posted: nobody writes there.
const idle = 0xEE

// worldRecvs is a receive queue, of one queue pair or shared, and its buffers.
type worldRecvs struct {
	h      *worldHost
	depth  int
	prod   *queue.Producer
	srq    *SRQ // nil of a queue pair's own
	users  []*worldQP
	posted map[uint64]*worldRecv
	oldest uint64 // of a queue pair's own: the number that completes next
	serial uint64
	free   []*worldRecv
	wrong  int // one of so many cannot take a message
	lost   int // receives that RESET may have taken along
}

// worldRecv is a receive work request.
type worldRecv struct {
	sges    []queue.SGE
	buffer  []span
	spoiled ibv.WCStatus // why it cannot take a message
}

func newWorldRecvs(h *worldHost, depth int) *worldRecvs {
	return &worldRecvs{h: h, depth: depth, posted: map[uint64]*worldRecv{}}
}

// ring makes the queue.
func (s *worldRecvs) ring() *queue.Ring {
	r := s.h.w.ring(s.depth, queue.RecvElemSize(pairSGE))
	s.prod = queue.NewProducer(r)
	return r
}

// waiting is the number of receives that no message has taken.
func (s *worldRecvs) waiting() int {
	if s.srq != nil {
		return s.srq.Posted()
	}
	return len(s.posted)
}

// short reports whether the program should post more.
func (s *worldRecvs) short() bool {
	want := 0
	for _, q := range s.users {
		switch {
		case q.dead():
		case q.reliable():
			want += len(q.inbox) - q.arrived + 1
		default:
			want += 4
		}
	}
	return s.waiting() < min(want, s.depth) && s.prod.FreeNow() > 0
}

// post posts one receive that holds any message, unless it is to be wrong.
func (s *worldRecvs) post() {
	w := s.h.w
	if len(s.free) == 0 {
		r := &worldRecv{}
		r.sges, r.buffer = s.h.mem.scatter(w.maxMessage(s.h.n) + 40)
		s.h.mem.fill(r.buffer, idle)
		s.free = append(s.free, r)
	}
	last := len(s.free) - 1
	r := s.free[last]
	s.free = s.free[:last]
	for i := range r.buffer { // nobody has written here since it was given back
		for _, b := range s.h.mem.bytes[r.buffer[i].off:][:r.buffer[i].n] {
			if b != idle {
				w.failf("host %d: a receive buffer that is not posted was written to", s.h.n)
			}
		}
	}
	wqe := queue.RecvWQE{WRID: recvWRID | s.serial}
	s.serial++
	r.spoiled = ibv.WCSuccess
	slot := s.prod.Slot(0)
	flip := uint32(0)
	if s.wrong != 0 && w.rnd.IntN(s.wrong) == 0 {
		r.spoiled, flip = ibv.WCLocProtErr, 0x100
	}
	if s.wrong != 0 && w.rnd.IntN(s.wrong) == 0 {
		r.spoiled = ibv.WCLocLenErr
	} else {
		for i, e := range r.sges {
			e.LKey ^= flip
			queue.PutRecvSGE(slot, i, e)
			wqe.Length += e.Length
			wqe.NumSGE++
		}
	}
	queue.PutRecv(slot, &wqe)
	s.prod.Publish(1)
	s.posted[wqe.WRID] = r
}

// complete finds the receive that a completion of q is about.
func (s *worldRecvs) complete(q *worldQP, wrid uint64) *worldRecv {
	r := s.posted[wrid]
	if r == nil || q.closed {
		s.h.w.failf("%v: completion of receive %#x, which was not posted or has completed", q, wrid)
	}
	if s.srq == nil {
		if wrid&^recvWRID != s.oldest {
			s.h.w.failf("%v: completion of receive %d in place of %d", q, wrid&^recvWRID, s.oldest)
		}
		s.oldest++
	}
	delete(s.posted, wrid)
	return r
}

// giveBack makes a buffer free again.
func (s *worldRecvs) giveBack(r *worldRecv) {
	s.h.mem.fill(r.buffer, idle)
	s.free = append(s.free, r)
}

// contents are the first n bytes of a buffer.
func (s *worldRecvs) contents(r *worldRecv, n int) (b []byte) {
	for _, at := range r.buffer {
		b = append(b, s.h.mem.bytes[at.off:at.off+at.n]...)
	}
	return b[:n]
}

// resize gives a shared queue another ring.
func (s *worldRecvs) resize(depth int) {
	ring := s.h.w.ring(depth, queue.RecvElemSize(pairSGE))
	if err := ResizeSRQ(s.srq, ring); err != nil {
		if s.waiting() <= depth {
			s.h.w.failf("host %d: %v", s.h.n, err)
		}
		return
	}
	s.depth, s.prod = depth, queue.ResumeProducer(ring)
}

// check compares, when all has ended, what is posted with what has completed.
func (s *worldRecvs) check() {
	n := len(s.posted)
	if s.srq != nil {
		n -= s.srq.Posted()
	}
	if n < 0 || n > s.lost {
		s.h.w.failf("host %d: %d receives have no completion; RESET has taken %d along", s.h.n, n, s.lost)
	}
	for _, r := range s.posted {
		s.h.mem.loose = append(s.h.mem.loose, r.buffer...)
	}
}
