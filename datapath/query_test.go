package datapath

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestDeviceLimits: no limit is lower than that of Linux's rxe, but for where there is
// a reason.
func TestDeviceLimits(t *testing.T) {
	r := newRig(t, rigOptions{})
	a, err := r.ca.QueryDevice()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		name      string
		got, want int
	}{
		{"MaxQP", a.MaxQP, 1<<20 - 16}, {"MaxQPWR", a.MaxQPWR, 1 << 20}, {"MaxSGE", a.MaxSGE, 32}, {"MaxInline", a.MaxInline, 512},
		{"MaxCQ", a.MaxCQ, 1 << 20}, {"MaxCQE", a.MaxCQE, 1 << 20}, {"MaxSRQ", a.MaxSRQ, 0x000f0000}, {"MaxSRQWR", a.MaxSRQWR, 1 << 15},
		{"MaxSRQSGE", a.MaxSRQSGE, 27}, {"MaxAH", a.MaxAH, 32767}, {"MaxPD", a.MaxPD, 1 << 20}, {"MaxMR", a.MaxMR, 1 << 20},
		{"MaxQPRDAtom", a.MaxQPRDAtom, 128}, {"MaxQPInitRDAtm", a.MaxQPInitRDAtm, 128},
	} {
		if l.got < l.want {
			t.Errorf("%s is %d, want at least %d", l.name, l.got, l.want)
		}
	}
	if a.Caps&verbs.DeviceSRQResize == 0 || a.SysImageGUID != a.NodeGUID || a.HCACoreClockKHz != 1e6 ||
		a.MaxCQCount != verbs.MaxCQCount || a.MaxCQPeriod != verbs.MaxCQPeriod {
		t.Errorf("%+v", a)
	}
}

// TestCompletionTimes: a completion's time on the wall clock lies between what the
// program reads before and after.
func TestCompletionTimes(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	last := int64(0)
	for range 3 {
		before := time.Now()
		if err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}); err != nil {
			t.Fatal(err)
		}
		wc, err := p.A.Done(1, verbs.WCRDMAWrite)
		if err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		clock, err := r.ca.QueryClock()
		if err != nil {
			t.Fatal(err)
		}
		// The wall clock may be set meanwhile, by a little.
		const slack = 50 * time.Millisecond
		if at := clock.Time(wc.Timestamp); at.Before(before.Add(-slack)) || at.After(after.Add(slack)) {
			t.Errorf("completed at %v, between %v and %v", at, before, after)
		}
		if wc.Timestamp < last || wc.Timestamp > clock.Raw {
			t.Errorf("time %d after %d, clock %d", wc.Timestamp, last, clock.Raw)
		}
		last = wc.Timestamp
	}
}

// TestViolationCounters: what the port counts of datagrams with a wrong Q_Key and
// of packets with a wrong P_Key.
func TestViolationCounters(t *testing.T) {
	var wrongPKey atomic.Bool
	r := newRig(t, rigOptions{hook: func(frame []byte) xsktest.Action {
		const bth = wire.EthernetLen + wire.IPv4Len + wire.UDPLen
		if wrongPKey.Load() {
			frame[bth+2], frame[bth+3] = 0x12, 0x34
			wire.PutICRC(frame, wire.EthernetLen)
		}
		return xsktest.Deliver
	}})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	send := func(qkey uint32) {
		t.Helper()
		wr := p.Datagram(8)
		p.Address(&wr)
		wr.RemoteQKey = qkey
		if err := p.A.Post(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := p.A.Done(wr.WRID, verbs.WCSend); err != nil {
			t.Fatal(err)
		}
	}
	want := func(pkey, qkey uint32) {
		t.Helper()
		deadline := time.Now().Add(verbstest.Patience)
		for {
			a, err := r.cb.QueryPort()
			switch {
			case err != nil:
				t.Fatal(err)
			case a.BadPKeyCntr == pkey && a.QKeyViolCntr == qkey:
				return
			case time.Now().After(deadline):
				t.Fatalf("P_Key violations %d, Q_Key %d; want %d, %d", a.BadPKeyCntr, a.QKeyViolCntr, pkey, qkey)
			}
			r.b.Progress()
		}
	}
	want(0, 0)
	send(p.B.QKey ^ 1)
	want(0, 1)
	wrongPKey.Store(true)
	send(p.B.QKey)
	want(1, 1)
	w := r.b.workers[0]
	if err := w.control(func() { w.env.Counters[transport.DropPKey] += 1 << 20 }); err != nil {
		t.Fatal(err)
	}
	want(1<<16-1, 1)
}

// TestQueryPSNs: a queue pair tells which PSNs come next.
func TestQueryPSNs(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{PSN: 0xFFFFFE})
	if err := p.Write(3*p.MTU.Bytes(), false); err != nil {
		t.Fatal(err)
	}
	a, err := p.A.QP.Query()
	b, err2 := p.B.QP.Query()
	if err != nil || err2 != nil || a.SQPSN != 1 || b.RQPSN != 1 || b.SQPSN != 0xFFFFFE || a.RQPSN != 0xFFFFFE {
		t.Errorf("A sends %#x and expects %#x, B %#x and %#x; %v, %v", a.SQPSN, a.RQPSN, b.SQPSN, b.RQPSN, err, err2)
	}
}

func TestQueriesOfAClosedDevice(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := r.ca.Close(); err != nil {
		t.Fatal(err)
	}
	_, e1 := r.a.QueryClock()
	_, e2 := r.a.QueryPort()
	_, e3 := r.a.QueryDevice()
	for _, err := range []error{e1, e2, e3} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}

func TestLaneSpeed(t *testing.T) {
	for _, tt := range []struct{ mbps, speed, width int }{
		{0, 1, 1}, {1000, 1, 1}, {2500, 1, 1}, {5000, 8, 1}, {10_000, 8, 1}, {20_000, 2, 2}, {25_000, 32, 1}, {40_000, 8, 2}, {100_000, 32, 2},
	} {
		if s, w := laneSpeed(tt.mbps); s != tt.speed || w != tt.width {
			t.Errorf("%d Mb/s: %d, %d; want %d, %d", tt.mbps, s, w, tt.speed, tt.width)
		}
	}
}
