package transport_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// fuzzRig is two connected queue pairs that bytes drive. Nobody knows what comes
// of them, but rules hold: of completions, of rings, of frames that are kept.
type fuzzRig struct {
	*pairWorld
	in    []byte
	sides [2]fuzzSide
}

// fuzzSide is what was posted at one host, and what has completed.
type fuzzSide struct {
	*pairHost
	sends, recvs fuzzQueue
}

// fuzzQueue has the numbers of the work requests posted to a queue: completions
// come in their order, some of them perhaps never.
type fuzzQueue struct {
	posted []uint64
	next   int
}

func (q *fuzzQueue) complete(f *fuzzRig, what string, wrid uint64) {
	for i := q.next; i < len(q.posted); i++ {
		if q.posted[i] == wrid {
			q.next = i + 1
			return
		}
	}
	f.failf("%s: completion of %#x, which is none of the %d posted after the last", what, wrid, len(q.posted)-q.next)
}

func newFuzzRig(t *testing.T, typ ibv.QPType, in []byte) *fuzzRig {
	p := calmParams()
	p.typ, p.keep, p.sqDepth, p.rqDepth, p.ops = typ, [2]int{4, 4}, 8, 8, [2]int{4, 4}
	p.retries, p.rnrRetries = 2, 2
	f := &fuzzRig{pairWorld: newPairWorld(t, p), in: in}
	for i, h := range f.hosts {
		f.sides[i].pairHost = h
	}
	return f
}

func (f *fuzzRig) byte() byte {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return b
}

// drive polls both queue pairs of a host, sends what they want to, and takes
// completions. It reports whether anything was sent.
func (f *fuzzRig) drive(s *fuzzSide) (sent bool) {
	qps := []*QP{s.qp}
	if s.tgt != nil {
		qps = append(qps, s.tgt)
	}
	for _, q := range qps {
		for more, rounds := true, 0; more; rounds++ {
			if rounds > pairSameTime {
				f.failf("%v: polling does not end", s.end)
			}
			s.tx.Reset(f.batch)
			more = q.Poll(f.now, s.tx)
			for i := range s.tx.Intents {
				sent = true
				if !f.send(s, &s.tx.Intents[i]) {
					break
				}
			}
		}
	}
	s.releaseFrames()
	for _, side := range []struct {
		name string
		cq   *queue.Consumer
		q    *fuzzQueue
	}{{"send", s.scq, &s.sends}, {"receive", s.rcq, &s.recvs}} {
		n, ok := side.cq.Avail()
		if !ok {
			f.failf("%v: the %s completion queue is corrupt", s.end, side.name)
		}
		for range n {
			var c queue.CQE
			queue.GetCQE(side.cq.Slot(0), &c)
			side.cq.Release(1)
			side.q.complete(f, s.end.String()+" "+side.name, c.WRID)
		}
	}
	return sent
}

// send puts a packet on the link, or reports a fault as a driver does; then the
// rest of the batch is not sent.
func (f *fuzzRig) send(s *fuzzSide, in *Intent) bool {
	if f.typ.Datagram() && in.AH != pairAH {
		in.QP.AddressFault(f.now, in)
		return false
	}
	frame := make([]byte, s.path.Len()+in.HdrLen+in.Len+wire.PadLen(in.Len)+wire.ICRCLen)
	ib := frame[s.path.Put(frame, len(frame)-s.path.Len(), 0):]
	copy(ib, in.Hdr[:in.HdrLen])
	if !s.tx.Gather(in, ib[in.HdrLen:in.HdrLen+in.Len]) {
		in.QP.PayloadFault(f.now, in)
		return false
	}
	f.seal(s, frame)
	f.link.Send(f.now, s.end, frame)
	return true
}

// seal puts the ICRC at the end of a frame from s.
func (f *fuzzRig) seal(s *fuzzSide, frame []byte) {
	covered := len(frame) - s.path.L3() - wire.ICRCLen
	binary.LittleEndian.PutUint32(frame[len(frame)-wire.ICRCLen:], wire.ICRC(frame, s.path.L3(), covered))
}

// arrive gives a frame to the queue pair that it names, if there is one, and
// reports whether there was.
func (f *fuzzRig) arrive(s *fuzzSide, frame []byte) bool {
	s.nextRef++
	s.pkt = wire.Packet{Ref: s.nextRef}
	if s.pkt.Parse(frame) != wire.Accept {
		return false
	}
	q := s.qp
	switch qpn := s.pkt.Hdr().DestQP(); {
	case qpn == q.QPN():
	case s.tgt != nil && qpn == s.tgt.QPN():
		q = s.tgt
	default:
		return false
	}
	if q.HandlePacket(f.now, &s.pkt) == Keep {
		s.frames[s.nextRef] = [][]byte{frame}
	}
	s.releaseFrames()
	return true
}

// advance lets frames arrive and timers run for d.
func (f *fuzzRig) advance(d time.Duration) {
	end := f.now.Add(d)
	for steps := 0; ; steps++ {
		if steps > pairMaxSteps/10 {
			f.failf("no end in sight\n%v\n%v", f.hosts[0], f.hosts[1])
		}
		for i := range f.sides {
			f.drive(&f.sides[i])
		}
		for f.link.Next() <= f.now {
			to, frame, ok := f.link.Receive(f.now)
			if !ok {
				break
			}
			f.arrive(&f.sides[to], frame)
			f.drive(&f.sides[to])
		}
		next := mono.Min(f.link.Next(), mono.Min(f.hosts[0].due(), f.hosts[1].due()))
		if next > end {
			f.now = end
			return
		}
		f.now = max(f.now, next)
	}
}

// finish ends both queue pairs: then no frame is kept, and what was posted has
// completed in order, unless its success was not to be told.
func (f *fuzzRig) finish() {
	for i := range f.sides {
		s := &f.sides[i]
		for _, q := range []*QP{s.qp, s.tgt} {
			if q != nil && q.State() != ibv.QPStateReset {
				f.must(q.Modify(f.now, &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState, ibv.GID{}, ibv.GID{}))
			}
		}
		f.drive(s)
		if len(s.frames) != 0 {
			f.failf("%v: %d frames are kept for nobody", s.end, len(s.frames))
		}
	}
}

func (f *fuzzRig) must(err error) {
	if err != nil {
		f.Helper()
		f.failf("%v", err)
	}
}

var fuzzTypes = []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD, ibv.QPTypeXRCSend}

// peer is the other end.
func (f *fuzzRig) peer(s *fuzzSide) *fuzzSide { return &f.sides[s.end.Other()] }

// loseAll is a dead link.
func loseAll(simnet.End, uint64, []byte) simnet.Fate { return simnet.Lose }
