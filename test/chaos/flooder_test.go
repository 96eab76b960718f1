package chaos_test

import (
	"context"
	"math/rand/v2"
	"os"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// beFlooder keeps daemons busy with one thing: work requests whose completions it never
// takes, requests, or events that it never reads. Quiet, it burns as much of a CPU.
func beFlooder(ctx context.Context, a *answers) error {
	r := seedOfChild()
	var m mood
	a.by(m.answerers())
	tell("up")
	for ctx.Err() == nil {
		if m.hostile.Load() {
			if err := flood(ctx, r, &m); err != nil {
				return err
			}
			continue
		}
		spin(ctx, &m, false, func() bool { return true })
	}
	return nil
}

// spin calls f, in bursts so that others get the CPU, until the mood changes or f has
// enough.
func spin(ctx context.Context, m *mood, hostile bool, f func() bool) {
	for ctx.Err() == nil && m.hostile.Load() == hostile {
		for begin := time.Now(); time.Since(begin) < pause/2; {
			if !f() {
				return
			}
		}
		time.Sleep(pause)
	}
}

// flood is a life of a flooder, until it gets no more work in.
func flood(ctx context.Context, r *rand.Rand, m *mood) error {
	a, b, err := openBoth()
	if err != nil {
		return err
	}
	defer func() { _, _ = a.Close(), b.Close() }()
	p, err := verbstest.NewRCPair(a, b, verbstest.Options{BufferSize: bufferSize, Timeout: 12, Retry: 2})
	if err != nil {
		return err
	}
	deaf, err := newDeaf(os.Getenv(dirAEnv))
	if err != nil {
		return err
	}
	defer deaf.s.Close()
	m.rounds.Add(1)
	ctx, cancel := context.WithTimeout(ctx, between(r, 50*time.Millisecond, 200*time.Millisecond))
	defer cancel()
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 64)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(), Flags: verbs.SendSignaled}
	what := map[string]func() bool{
		"work": func() bool {
			_ = p.A.QP.PostSend(&wr) // when the queue is full nothing goes in any more
			_ = p.B.Recv(1, 0, 64)
			return true
		},
		"requests": func() bool {
			pd, err := a.AllocPD()
			return err == nil && pd.Dealloc() == nil
		},
		"events": deaf.raise,
	}[os.Getenv(moreEnv)]
	spin(ctx, m, true, what)
	time.Sleep(pause) // where the daemon has had enough of it at once
	return nil
}

// deaf is a session that reads no events.
type deaf struct {
	s   *session.Session
	pd  proto.PD
	cq  proto.CQReply
	srq proto.SRQReply
}

func newDeaf(dir string) (*deaf, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := session.Connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	d := &deaf{s: s}
	if err = s.Open(ctx, netns.Ifname); err == nil {
		err = s.Do(proto.OpAllocPD, &proto.Empty{}, &d.pd)
	}
	if err == nil {
		err = s.Do(proto.OpCreateCQ, &proto.CreateCQ{Entries: 16}, &d.cq)
	}
	if err == nil {
		err = s.Do(proto.OpCreateSRQ, &proto.CreateSRQ{PD: d.pd.PD, Attr: proto.SRQAttr{MaxWR: 16, MaxSGE: 1}}, &d.srq)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return d, nil
}

// raise raises an event: a queue pair that goes to error will take nothing more from
// its shared receive queue. False when the daemon has had enough of it.
func (d *deaf) raise() bool {
	var q proto.QPReply
	err := d.s.Do(proto.OpCreateQP, &proto.CreateQP{
		PD: d.pd.PD, Type: uint8(verbs.RC), SendCQ: d.cq.Handle, RecvCQ: d.cq.Handle, SRQ: d.srq.Handle, Cap: proto.QPCapOf(ibv.QPCap{MaxSendWR: 1, MaxSendSGE: 1}),
	}, &q)
	if err != nil {
		return false
	}
	init := ibv.QPAttr{State: ibv.QPStateInit, Port: 1}
	err = d.modify(q.Handle, &init, ibv.QPAttrState|ibv.QPAttrPKeyIndex|ibv.QPAttrPort|ibv.QPAttrAccessFlags)
	if err == nil {
		err = d.modify(q.Handle, &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
	}
	if err == nil {
		err = d.s.Do(proto.OpDestroyQP, &proto.Handle{Handle: q.Handle}, nil)
	}
	return err == nil
}

func (d *deaf) modify(qp uint64, attr *ibv.QPAttr, mask ibv.AttrMask) error {
	return d.s.Do(proto.OpModifyQP, &proto.ModifyQP{Handle: qp, Attr: proto.QPAttrOf(attr), Mask: uint32(mask)}, nil)
}
