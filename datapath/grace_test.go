package datapath

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// progress drives a device for as many rounds as may only look.
func progress(d *Device) {
	for range fullPoll + 1 {
		d.Progress()
	}
}

// TestGrace: a worker that was not driven for longer than a timeout lasts asks
// again only after the peer had its chance to answer.
func TestGrace(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers bool
	}{{"the peer answers", true}, {"the peer is silent", false}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
			p := r.pair(verbstest.Options{Timeout: 12}) // 17 ms
			w := r.a.workers[0]
			again := func() uint64 { return counterOf(t, r.a, "completer_retry_err") }
			for range 3 {
				before := again()
				must(t, p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
				time.Sleep(40 * time.Millisecond)
				progress(r.a)
				if again() != before || !w.grace.spent || w.nextTimer() != w.grace.until {
					t.Fatalf("no grace: %d repetitions, %+v", again()-before, w.grace)
				}
				if tt.answers {
					progress(r.b)
					progress(r.a)
					if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil || again() != before {
						t.Fatalf("%v, %d repetitions", err, again()-before)
					}
					for w.grace.spent {
						progress(r.a)
					}
					continue
				}
				time.Sleep(graceTime + time.Millisecond)
				progress(r.a)
				if again() != before+1 {
					t.Fatalf("%d repetitions after the time of grace, want 1", again()-before)
				}
				progress(r.b)
				if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestNoGraceOnTime: a worker that is driven all the time lets a timer run out
// at its time.
func TestNoGraceOnTime(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	p := r.pair(verbstest.Options{Timeout: 12})
	w := r.a.workers[0]
	for range 20 { // in one of them nothing keeps the test from running
		must(t, p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
		w.grace = grace{}
		before, longest := counterOf(t, r.a, "completer_retry_err"), time.Duration(0)
		for last := clock(); counterOf(t, r.a, "completer_retry_err") == before; {
			r.a.Progress()
			now := clock()
			longest, last = max(longest, now.Sub(last)), now
		}
		until := w.grace.until
		progress(r.b)
		if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
			t.Fatal(err)
		}
		if longest < graceAfter {
			if until != 0 {
				t.Errorf("grace although rounds followed within %v", longest)
			}
			return
		}
	}
	t.Skip("needs a machine that runs this test for 17 ms without a pause of 5 ms")
}
