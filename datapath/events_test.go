package datapath

import (
	"context"
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestEveryEvent provokes each event of an object by what programs do, and waits
// for it at the end that it concerns.
func TestEveryEvent(t *testing.T) {
	write := func(p *verbstest.Pair, key uint32) error {
		return p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
			RemoteAddr: p.B.MR.Addr(), RKey: key})
	}
	qpOf := func(e *verbstest.End) verbs.AsyncEvent { return verbs.AsyncEvent{QP: e.QP} }
	for _, tt := range []struct {
		name   string
		opts   verbstest.Options
		shared bool // B has a shared receive queue
		do     func(*rig, *verbstest.Pair) error
		at     int // which end gets the event
		of     func(*verbstest.Pair) verbs.AsyncEvent
		want   verbs.EventType
	}{
		{
			name: "the first packet of a connection in RTR", at: 1, want: verbs.EventCommEst,
			do: func(_ *rig, p *verbstest.Pair) error { return errors.Join(toRTRAgain(p.B), write(p, p.B.MR.RKey())) },
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.B) },
		},
		{
			name: "a wrong key", at: 1, want: verbs.EventQPAccessErr,
			do: func(_ *rig, p *verbstest.Pair) error { return write(p, p.B.MR.RKey()^0x100) },
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.B) },
		},
		{
			name: "an operation that is not granted", at: 1, want: verbs.EventQPReqErr, opts: verbstest.Options{Access: verbs.AccessLocalWrite},
			do: func(_ *rig, p *verbstest.Pair) error { return write(p, p.B.MR.RKey()) },
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.B) },
		},
		{
			name: "a receive that cannot be", at: 1, want: verbs.EventQPFatal,
			do: func(_ *rig, p *verbstest.Pair) error {
				bad := verbs.SGE{Addr: p.B.MR.Addr(), Length: 8, LKey: p.B.MR.LKey() ^ 0x100}
				return errors.Join(p.B.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{bad}}), p.A.Post(p.Datagram(8)))
			},
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.B) },
		},
		{
			name: "a send queue that has drained", at: 0, want: verbs.EventSQDrained,
			do: func(_ *rig, p *verbstest.Pair) error {
				return p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: true}, verbs.AttrState|verbs.AttrEnSQDAsyncNotify)
			},
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.A) },
		},
		{
			name: "a shared queue runs short", at: 1, want: verbs.EventSRQLimitReached, shared: true,
			do: func(_ *rig, p *verbstest.Pair) error {
				return errors.Join(p.B.Recv(1, 0, 8), p.B.SRQ.Modify(&verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit), p.A.Post(p.Datagram(8)))
			},
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return verbs.AsyncEvent{SRQ: p.B.SRQ} },
		},
		{
			name: "a shared queue whose indices are impossible", at: 1, want: verbs.EventSRQErr, shared: true,
			do: func(r *rig, p *verbstest.Pair) error {
				for q := range r.b.qps {
					queue.ResumeProducer(q.srq.Ring()).Publish(1 << 20)
				}
				return p.A.Post(p.Datagram(8))
			},
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return verbs.AsyncEvent{SRQ: p.B.SRQ} },
		},
		{
			name: "a queue pair is done with a shared queue", at: 1, want: verbs.EventQPLastWQEReached, shared: true,
			do: func(_ *rig, p *verbstest.Pair) error {
				return p.B.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
			},
			of: func(p *verbstest.Pair) verbs.AsyncEvent { return qpOf(p.B) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			if tt.shared {
				pd, err := r.cb.AllocPD()
				if err != nil {
					t.Fatal(err)
				}
				if tt.opts.SRQ[1], err = pd.CreateSRQ(nil); err != nil {
					t.Fatal(err)
				}
			}
			p := r.pair(tt.opts)
			if err := tt.do(r, p); err != nil {
				t.Fatal(err)
			}
			want := tt.of(p)
			want.Type = tt.want
			ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
			defer cancel()
			for e := (verbs.AsyncEvent{}); e != want; {
				var err error
				if e, err = []*verbs.Context{r.ca, r.cb}[tt.at].NextEvent(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// toRTRAgain brings a connected end, of which nothing is in progress, back to RTR
// by what its queue pair tells.
func toRTRAgain(e *verbstest.End) error {
	a, err := e.QP.Query()
	to := func(s verbs.QPState, mask verbs.AttrMask) {
		if err == nil {
			a.State = s
			err = e.QP.Modify(&a, verbs.AttrState|mask)
		}
	}
	to(verbs.QPStateReset, 0)
	to(verbs.QPStateInit, verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccessFlags)
	to(verbs.QPStateRTR, verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer)
	return err
}

func TestSpeedChange(t *testing.T) {
	r := newRig(t, rigOptions{})
	link := r.a.link
	for _, step := range []struct {
		speed, tells int
		events       []ibv.EventType
	}{
		{1000, 1000, []ibv.EventType{ibv.EventSpeedChange}},
		{1000, 1000, nil},
		{0, 1000, nil}, // not known while the link is down
		{25000, 25000, []ibv.EventType{ibv.EventSpeedChange}},
	} {
		link.speed = step.speed
		r.a.setLink(link)
		for _, want := range step.events {
			if e := nextEvent(t, r.a); e.Type != want {
				t.Errorf("%d Mb/s: event %v, want %v", step.speed, e.Type, want)
			}
		}
		noEvent(t, r.a)
		if a, err := r.a.QueryPort(); err != nil || a.SpeedMbps != step.tells {
			t.Errorf("%d Mb/s, %v; want %d", a.SpeedMbps, err, step.tells)
		}
	}
}

// An object has one event of each type waiting, however often it happened, and
// none once it is destroyed.
func TestEventsOfObjects(t *testing.T) {
	r := newRig(t, rigOptions{})
	init := initOf(t, r.a)
	var qps []*qp
	for range 3 {
		q, err := r.a.CreateQP(init)
		if err != nil {
			t.Fatal(err)
		}
		qps = append(qps, q.(*qp))
	}
	for range maxEvents { // more than the port may have waiting
		for _, q := range qps {
			for _, e := range []ibv.EventType{ibv.EventCommEst, ibv.EventQPFatal} {
				r.a.events.put(verbs.ProviderEvent{Type: e, QP: q}, &q.events)
			}
		}
	}
	if err := qps[1].Destroy(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		q *qp
		e ibv.EventType
	}{{qps[0], ibv.EventCommEst}, {qps[0], ibv.EventQPFatal}, {qps[2], ibv.EventCommEst}, {qps[2], ibv.EventQPFatal}} {
		if e := nextEvent(t, r.a); e.QP != want.q || e.Type != want.e {
			t.Errorf("event %v of %p, want %v of %p", e.Type, e.QP, want.e, want.q)
		}
	}
	noEvent(t, r.a)
	r.a.events.put(verbs.ProviderEvent{Type: ibv.EventCommEst, QP: qps[0]}, &qps[0].events)
	if e := nextEvent(t, r.a); e.QP != qps[0] {
		t.Error("an event that was read does not come again")
	}
	if n := counterOf(t, r.a, "async_events_lost"); n != 0 {
		t.Errorf("%d events lost", n)
	}
}
