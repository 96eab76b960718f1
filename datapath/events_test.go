package datapath

import (
	"context"
	"errors"
	"slices"
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
				r.a.root.events.put(verbs.ProviderEvent{Type: e, QP: q})
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
	r.a.root.events.put(verbs.ProviderEvent{Type: ibv.EventCommEst, QP: qps[0]})
	if e := nextEvent(t, r.a); e.QP != qps[0] {
		t.Error("an event that was read does not come again")
	}
	if n := counterOf(t, r.a, "async_events_lost"); n != 0 {
		t.Errorf("%d events lost", n)
	}
}

// Every reader gets all events of its types from its beginning on, and takes none from
// another.
func TestSubscriptions(t *testing.T) {
	r := newRig(t, rigOptions{})
	q, err := r.a.CreateQP(initOf(t, r.a))
	if err != nil {
		t.Fatal(err)
	}
	r.a.reportPort(ibv.EventPortErr) // before there is a reader
	all, ports := subscribe(t, r.a), subscribe(t, r.a, ibv.EventPortActive, ibv.EventGIDChange)
	r.a.root.events.put(verbs.ProviderEvent{Type: ibv.EventCommEst, QP: q})
	r.a.reportPort(ibv.EventPortActive)
	r.a.reportPort(ibv.EventSpeedChange)
	r.a.reportPort(ibv.EventGIDChange)
	for _, tt := range []struct {
		name string
		from eventSource
		want []ibv.EventType
	}{
		{"some types", ports, []ibv.EventType{ibv.EventPortActive, ibv.EventGIDChange}},
		{"all types", all, []ibv.EventType{ibv.EventCommEst, ibv.EventPortActive, ibv.EventSpeedChange, ibv.EventGIDChange}},
		{"the device's", r.a, []ibv.EventType{ibv.EventPortErr, ibv.EventCommEst, ibv.EventPortActive, ibv.EventSpeedChange, ibv.EventGIDChange}},
	} {
		t.Run(tt.name, func(t *testing.T) { expectEvents(t, tt.from, tt.want...) })
	}
	r.a.root.events.put(verbs.ProviderEvent{Type: ibv.EventCommEst, QP: q})
	if err := q.Destroy(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []eventSource{all, r.a} {
		expectEvents(t, from) // none of what is destroyed
	}
}

type eventSource interface {
	NextEvent(context.Context) (verbs.ProviderEvent, error)
}

func subscribe(t *testing.T, d *Device, types ...ibv.EventType) verbs.ProviderEvents {
	t.Helper()
	s, err := d.Subscribe(types...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// expectEvents: these wait, and no others.
func expectEvents(t *testing.T, from eventSource, want ...ibv.EventType) {
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel() // what waits comes all the same
	var got []ibv.EventType
	for {
		e, err := from.NextEvent(over)
		if err != nil {
			break
		}
		got = append(got, e.Type)
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// A reader that is closed, or whose device is, has no more events; what one has lost counts
// on.
func TestSubscriptionEnds(t *testing.T) {
	r := newRig(t, rigOptions{})
	lazy, waits := subscribe(t, r.a, ibv.EventPortActive), subscribe(t, r.a, ibv.EventGIDChange)
	for range maxEvents + 3 {
		r.a.reportPort(ibv.EventPortActive)
		nextEvent(t, r.a)
	}
	lazy.Close()
	lazy.Close()
	if n := counterOf(t, r.a, "async_events_lost"); n != 3 {
		t.Errorf("%d events lost, want 3", n)
	}
	ended := make(chan error)
	wait := func(s verbs.ProviderEvents) {
		_, err := s.NextEvent(t.Context())
		ended <- err
	}
	other := subscribe(t, r.a, ibv.EventGIDChange)
	go wait(waits)
	waits.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	go wait(other)
	if err := r.a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("device closed: %v", err)
	}
	if _, err := r.a.Subscribe(); !errors.Is(err, ErrClosed) {
		t.Errorf("subscribe to a closed device: %v", err)
	}
}
