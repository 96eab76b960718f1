package transport_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// TestOneCompletionEach: whatever programs post, right or wrong, whatever the link
// does and whichever states the queue pairs go through, each send request that is
// signaled or fails has exactly one completion, an unsignaled success none, each
// receive exactly one, all in the order in which they were posted.
func TestOneCompletionEach(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD} {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { runOnce(onceTB{t, rt}, typ) })
		})
	}
}

// onceTB lets a simulation fail a property.
type onceTB struct {
	testing.TB
	rt *rapid.T
}

func (t onceTB) Helper()                   { t.rt.Helper() }
func (t onceTB) Logf(f string, a ...any)   { t.rt.Logf(f, a...) }
func (t onceTB) Fatalf(f string, a ...any) { t.rt.Fatalf(f, a...) }
func (t onceTB) Fatal(a ...any)            { t.rt.Fatal(a...) }

// once is a simulation whose programs are not right, so that no model says what
// comes of them.
type once struct {
	*pairWorld
	rt    *rapid.T
	sides [2]*onceSide
}

type onceSide struct {
	*pairHost
	sends, recvs onceQueue
}

// onceQueue has what was posted to a queue, by work request number from 0 on.
type onceQueue struct {
	signaled []bool // false: a success has no completion
	done     uint64 // requests before this have completed, or will not
	failing  bool   // the queue flushes: no completion may be missing
}

// complete takes notice of a completion.
func (q *onceQueue) complete(o *once, name string, c *queue.CQE) {
	for q.done < c.WRID && q.done < uint64(len(q.signaled)) && !q.signaled[q.done] && !q.failing {
		q.done++
	}
	if c.WRID != q.done || q.done >= uint64(len(q.signaled)) {
		o.failf("%s: completion %d, %v; that of %d of %d is missing", name, c.WRID, c.Status, q.done, len(q.signaled))
	}
	switch {
	case c.Status != ibv.WCSuccess:
		q.failing = true
	case q.failing:
		o.failf("%s: %d succeeds after a failure", name, c.WRID)
	case !q.signaled[q.done]:
		o.failf("%s: %d is unsignaled and succeeds with a completion", name, c.WRID)
	}
	q.done++
}

func runOnce(t onceTB, typ ibv.QPType) {
	p := drawParams(rapid.Uint64Range(1, 1<<20).Draw(t.rt, "conditions"))
	p.typ, p.ops, p.sqDepth, p.rqDepth = typ, [2]int{4, 4}, 8, 8
	p.retries, p.rnrRetries = 2, 1
	o := &once{pairWorld: newPairWorld(t, p), rt: t.rt}
	for i, h := range o.hosts {
		o.sides[i] = &onceSide{pairHost: h}
	}
	for range rapid.IntRange(1, 60).Draw(t.rt, "steps") {
		o.step(o.sides[rapid.IntRange(0, 1).Draw(t.rt, "side")])
	}
	o.advance(time.Second)
	for _, s := range o.sides {
		s.to(o, ibv.QPStateErr)
	}
	for _, s := range o.sides { // what is posted now is flushed too
		o.post(s)
		o.postRecv(s)
	}
	for _, s := range o.sides {
		o.poll(s)
		for name, q := range map[string]*onceQueue{"send": &s.sends, "receive": &s.recvs} {
			if q.done != uint64(len(q.signaled)) {
				o.failf("%v: %d of %d %s requests have completed", s.end, q.done, len(q.signaled), name)
			}
		}
	}
}

func (o *once) step(s *onceSide) {
	switch rapid.IntRange(0, 9).Draw(o.rt, "step") {
	case 0, 1, 2:
		o.post(s)
	case 3, 4:
		o.postRecv(s)
	case 5:
		s.to(o, ibv.QPStateSQD)
	case 6:
		s.to(o, ibv.QPStateRTS)
	case 7:
		if rapid.IntRange(0, 9).Draw(o.rt, "give up") == 0 {
			s.to(o, ibv.QPStateErr)
		}
	default:
		o.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 1000, 100_000}).Draw(o.rt, "time")) * time.Microsecond)
	}
}

// to asks for a state, which the queue pair may not be able to enter now.
func (s *onceSide) to(o *once, next ibv.QPState) {
	was := s.qp.State()
	err := s.qp.Modify(o.now, &ibv.QPAttr{State: next}, ibv.QPAttrState, o.gid(s.end), o.gid(s.end.Other()))
	s.collectOnce(o)
	if err == nil && was == ibv.QPStateSQE && next == ibv.QPStateRTS {
		s.sends.failing = false
	}
	o.poll(s)
}

// sge is memory of the program, mostly: n bytes at most.
func (o *once) sge(h *pairHost, n int) queue.SGE {
	e := h.mem.sge(span{h.mem.source.off, n})
	if rapid.IntRange(0, 19).Draw(o.rt, "bad key") == 0 {
		e.LKey ^= 0x100
	}
	return e
}

func (o *once) post(s *onceSide) {
	if s.sq.FreeNow() == 0 {
		return
	}
	flags := ibv.SendFlags(rapid.SampledFrom([]int{0, int(ibv.SendSignaled), int(ibv.SendSignaled | ibv.SendFence)}).Draw(o.rt, "flags"))
	w := queue.SendWQE{
		WRID:   uint64(len(s.sends.signaled)),
		Flags:  flags,
		Opcode: ibv.WROpcode(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 0, 2, 2, 3, 4, 14, 15}).Draw(o.rt, "opcode")),
		RKey:   s.peer.mem.region.RKey(), RemoteAddr: pairVA + uint64(s.peer.mem.target.off),
		AH: pairAH, RemoteQPN: s.peer.qpn(), RemoteQKey: pairQKey,
	}
	if rapid.IntRange(0, 19).Draw(o.rt, "bad rkey") == 0 {
		w.RKey ^= 0x100
	}
	if rapid.IntRange(0, 19).Draw(o.rt, "bad opcode") == 0 {
		w.Opcode = 99
	} else if w.Opcode > ibv.WRSendWithImm && o.typ != ibv.QPTypeRC || w.Opcode < ibv.WRSend && o.typ == ibv.QPTypeUD {
		w.Opcode = ibv.WRSend // what the service lacks is as bad
	}
	n := rapid.SampledFrom([]int{0, 1, 8, 8, 8, 300, 2 * o.mtu.Bytes()}).Draw(o.rt, "length")
	slot := s.sq.Slot(0)
	switch {
	case w.Opcode == ibv.WRFlush:
		w.FlushType = uint16(rapid.IntRange(0, 1).Draw(o.rt, "placement"))
	case n != 0:
		w.Length, w.NumSGE = uint32(n), 1
		queue.PutSendSGE(slot, 0, o.sge(s.pairHost, n))
	}
	queue.PutSend(slot, &w)
	s.sq.Publish(1)
	s.sends.signaled = append(s.sends.signaled, flags&ibv.SendSignaled != 0)
	o.poll(s)
}

func (o *once) postRecv(s *onceSide) {
	if s.rq.FreeNow() == 0 {
		return
	}
	n := rapid.SampledFrom([]int{0, 48, pairMaxMsg(o.mtu.Bytes())}).Draw(o.rt, "receive")
	slot := s.rq.Slot(0)
	w := queue.RecvWQE{WRID: uint64(len(s.recvs.signaled)), Length: uint32(n)}
	if n != 0 {
		w.NumSGE = 1
		queue.PutRecvSGE(slot, 0, o.sge(s.pairHost, n))
	}
	queue.PutRecv(slot, &w)
	s.rq.Publish(1)
	s.recvs.signaled = append(s.recvs.signaled, true)
	o.poll(s)
}

// poll sends what s has and takes its completions.
func (o *once) poll(s *onceSide) {
	for more, rounds := true, 0; more; rounds++ {
		if rounds > pairSameTime {
			o.failf("%v: polling does not end", s.end)
		}
		s.tx.Reset(o.batch)
		more = s.qp.Poll(o.now, s.tx)
		for i := range s.tx.Intents {
			s.send(&s.tx.Intents[i])
		}
	}
	s.releaseFrames()
	s.collectOnce(o)
}

func (s *onceSide) collectOnce(o *once) {
	for _, side := range []struct {
		name string
		cq   *queue.Consumer
		q    *onceQueue
	}{{"send", s.scq, &s.sends}, {"receive", s.rcq, &s.recvs}} {
		n, _ := side.cq.Avail()
		for range n {
			var c queue.CQE
			queue.GetCQE(side.cq.Slot(0), &c)
			side.cq.Release(1)
			side.q.complete(o, s.end.String()+" "+side.name, &c)
		}
	}
}

// advance lets the link and the timers run for d.
func (o *once) advance(d time.Duration) {
	end := o.now.Add(d)
	for steps := 0; ; steps++ {
		if steps > pairMaxSteps {
			o.failf("no end in sight\n%v\n%v", o.hosts[0], o.hosts[1])
		}
		for o.link.Next() <= o.now {
			to, frame, ok := o.link.Receive(o.now)
			if !ok {
				break
			}
			o.sides[to].receive(frame)
			o.poll(o.sides[to])
		}
		next := o.link.Next()
		for _, s := range o.sides {
			if s.qp.NextDeadline() <= o.now {
				o.poll(s)
			}
			next = mono.Min(next, s.qp.NextDeadline())
		}
		if next > end {
			o.now = end
			return
		}
		o.now = max(o.now, next)
	}
}
