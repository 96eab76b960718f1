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
	must(t, p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
	w.grace = grace{}
	due := w.deadline()
	// The rounds are this test's, in a time of its own: nothing can come between them.
	before, now := counterOf(t, r.a, "completer_retry_err"), clock()
	for counterOf(t, r.a, "completer_retry_err") == before {
		if now = now.Add(graceAfter - time.Microsecond); now.Sub(due) >= graceAfter {
			t.Fatalf("no repetition %v after the time, %+v", now.Sub(due), w.grace)
		}
		must(t, w.acquire())
		w.receive(now)
		w.transmit(now)
		w.release(controller)
	}
	if w.grace.until != 0 {
		t.Errorf("grace although rounds followed within %v", graceAfter)
	}
	progress(r.b)
	if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
}
