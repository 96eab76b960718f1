package transport_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// A program shares the rings of its queues with the engine: it may write there
// whatever it likes, at any time.

// workStep posts something, or lets time pass.
func (f *fuzzRig) workStep() {
	b := f.byte()
	s := &f.sides[b>>7]
	switch b & 7 {
	case 0, 1, 2:
		f.postSend(s, false)
	case 3:
		f.postSend(s, true)
	case 4:
		f.postRecv(s)
	case 5:
		f.postRecv(s)
		f.postSend(s, false)
	case 6:
		f.advance(time.Duration(b>>3&15) * 20 * time.Microsecond)
	default:
		switch b >> 3 & 15 {
		case 15: // an index that nobody can believe
			s.sq.Publish((1+int(f.byte()))<<8 | 1)
			f.drive(s)
		case 14:
			s.rq.Publish((1+int(f.byte()))<<8 | 1)
		}
	}
}

// postSend posts a work request, of bytes that are right but for some, or of any.
func (f *fuzzRig) postSend(s *fuzzSide, anyBytes bool) {
	if s.sq.FreeNow() == 0 {
		return
	}
	slot := s.sq.Slot(0)
	if !anyBytes {
		b := f.byte()
		n := []int{8, 0, 64, 300}[b&3]
		w := queue.SendWQE{
			WRID: uint64(len(s.sends.posted)), Opcode: ibv.WROpcode(b >> 2 & 15), Flags: ibv.SendSignaled, NumSGE: 1, Length: uint32(n),
			RemoteAddr: pairVA + uint64(s.mem.target.off), RKey: s.peer.mem.region.RKey(),
			AH: pairAH, RemoteQPN: s.peer.qpn(), RemoteQKey: pairQKey, SRQN: s.peer.srqn(),
		}
		queue.PutSend(slot, &w)
		queue.PutSendSGE(slot, 0, s.mem.sge(span{s.mem.source.off, n}))
	}
	f.scribble(slot, anyBytes)
	s.sends.posted = append(s.sends.posted, binary.LittleEndian.Uint64(slot))
	s.sq.Publish(1)
	f.drive(s)
}

func (f *fuzzRig) postRecv(s *fuzzSide) {
	if s.rq.FreeNow() == 0 {
		return
	}
	slot := s.rq.Slot(0)
	w := queue.RecvWQE{WRID: uint64(len(s.recvs.posted)), NumSGE: 1, Length: 400}
	queue.PutRecv(slot, &w)
	queue.PutRecvSGE(slot, 0, s.mem.sge(span{s.mem.target.off, 400}))
	f.scribble(slot, false)
	s.recvs.posted = append(s.recvs.posted, binary.LittleEndian.Uint64(slot))
	s.rq.Publish(1)
}

// scribble changes some bytes of an element, or all.
func (f *fuzzRig) scribble(slot []byte, all bool) {
	if all {
		for i := range slot {
			slot[i] = f.byte()
		}
		return
	}
	for n := f.byte() & 3; n > 0; n-- {
		slot[int(f.byte())%len(slot)] = f.byte()
	}
}

// FuzzWorkRequests takes bytes as elements of the send and receive queues of two
// connected queue pairs, and as indices of their rings. Nothing panics or hangs,
// and completions are of what was posted, in its order.
func FuzzWorkRequests(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for i := range 16 {
		in := []byte{byte(i)}
		for range 120 {
			in = append(in, byte(rnd.Uint32()))
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 2048 {
			return
		}
		r := newFuzzRig(t, fuzzTypes[int(in[0])%len(fuzzTypes)], in[1:])
		for len(r.in) > 0 {
			r.workStep()
		}
		r.advance(time.Second)
		for i := range r.sides {
			if n, ok := r.sides[i].sq.Pending(); ok && n > r.sides[i].sq.Ring().Entries() {
				t.Errorf("%d elements are pending in a ring of %d", n, r.sides[i].sq.Ring().Entries())
			}
		}
		r.finish()
	})
}
