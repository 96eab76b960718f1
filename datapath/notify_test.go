package datapath

import (
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// notified arms e's completion queue, has do cause one completion, takes it by
// polling alone, and reports whether it has raised an event.
func notified(t *testing.T, d *Device, e *verbstest.End, solicitedOnly bool, do func() error) (verbs.WC, bool) {
	t.Helper()
	var c *cq
	for c = range d.cqs { // the only one
	}
	e.CQ.ReqNotify(solicitedOnly)
	if err := do(); err != nil {
		t.Fatal(err)
	}
	var wcs [2]verbs.WC
	for deadline := time.Now().Add(verbstest.Patience); ; {
		if n := e.CQ.Poll(wcs[:]); n == 1 {
			break
		} else if n > 1 || time.Now().After(deadline) {
			t.Fatalf("%d completions, want 1", n)
		}
	}
	c.t.Overflowed() // waits for who has completed to look at the arm word
	return wcs[0], c.Ring().Arm().Load() == queue.ArmNone
}

// TestSolicitedEvents: which completions wake a program that waits for solicited
// ones: those of messages whose sender says so, and failures, whatever the
// operation.
func TestSolicitedEvents(t *testing.T) {
	post := func(op verbs.Opcode, flags verbs.SendFlags, n int) func(*verbstest.Pair) error {
		return func(p *verbstest.Pair) error {
			wr := verbs.SendWR{WRID: 1, Opcode: op, Flags: flags, SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
				RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
			p.Address(&wr)
			return p.A.Post(wr)
		}
	}
	receive := func(do func(*verbstest.Pair) error) func(*verbstest.Pair) error {
		return func(p *verbstest.Pair) error { return errors.Join(p.B.Recv(2, 0, 100), do(p)) }
	}
	toErr := func(e *verbstest.End) error {
		return e.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
	}
	const se = verbs.SendSolicited
	for _, tt := range []struct {
		name   string
		typ    verbs.QPType
		do     func(*verbstest.Pair) error
		atA    bool // where the completion is looked at
		status verbs.WCStatus
		want   bool
	}{
		{name: "SEND", typ: verbs.RC, do: receive(post(verbs.OpSend, 0, 8))},
		{name: "SEND, solicited", typ: verbs.RC, do: receive(post(verbs.OpSend, se, 8)), want: true},
		{name: "SEND_WITH_IMM", typ: verbs.RC, do: receive(post(verbs.OpSendWithImm, 0, 8))},
		{name: "SEND_WITH_IMM, solicited", typ: verbs.RC, do: receive(post(verbs.OpSendWithImm, se, 8)), want: true},
		{name: "WRITE_WITH_IMM", typ: verbs.RC, do: receive(post(verbs.OpRDMAWriteWithImm, 0, 8))},
		{name: "WRITE_WITH_IMM, solicited", typ: verbs.RC, do: receive(post(verbs.OpRDMAWriteWithImm, se, 8)), want: true},
		{name: "many packets, solicited", typ: verbs.RC, do: receive(post(verbs.OpRDMAWriteWithImm, se, 20_000)), want: true},
		{name: "UC SEND", typ: verbs.UC, do: receive(post(verbs.OpSend, 0, 8))},
		{name: "UC WRITE_WITH_IMM, solicited", typ: verbs.UC, do: receive(post(verbs.OpRDMAWriteWithImm, se, 8)), want: true},
		{name: "UD SEND", typ: verbs.UD, do: receive(post(verbs.OpSend, 0, 8))},
		{name: "UD SEND_WITH_IMM, solicited", typ: verbs.UD, do: receive(post(verbs.OpSendWithImm, se, 8)), want: true},
		{name: "receive too small", typ: verbs.RC, do: receive(post(verbs.OpSend, 0, 101)), status: verbs.WCLocalLength, want: true},
		{name: "flushed receive", typ: verbs.RC, status: verbs.WCFlushed, want: true,
			do: func(p *verbstest.Pair) error { return errors.Join(p.B.Recv(2, 0, 1), toErr(p.B)) }},
		{name: "sender's SEND, solicited", typ: verbs.UD, do: post(verbs.OpSend, se, 8), atA: true},
		{name: "sender's WRITE, solicited", typ: verbs.RC, do: post(verbs.OpRDMAWrite, se, 8), atA: true},
		{name: "sender's READ, solicited", typ: verbs.RC, do: post(verbs.OpRDMARead, se, 8), atA: true},
		{name: "sender's FETCH_ADD", typ: verbs.RC, do: post(verbs.OpAtomicFetchAdd, 0, 8), atA: true},
		{name: "sender's FETCH_ADD of too little", typ: verbs.RC, do: post(verbs.OpAtomicFetchAdd, 0, 8),
			atA: true, status: verbs.WCRemoteInvalidRequest, want: true},
		{name: "sender's flushed SEND", typ: verbs.RC, atA: true, status: verbs.WCFlushed, want: true,
			do: func(p *verbstest.Pair) error { return errors.Join(toErr(p.A), post(verbs.OpSend, 0, 8)(p)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			var o verbstest.Options
			if tt.status == verbs.WCRemoteInvalidRequest {
				o.Access = verbs.AccessLocalWrite // atomics are not granted
			}
			p, err := verbstest.NewPair(tt.typ, r.ca, r.cb, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			d, e := r.b, p.B
			if tt.atA {
				d, e = r.a, p.A
			}
			wc, got := notified(t, d, e, true, func() error { return tt.do(p) })
			if wc.Status != tt.status || got != tt.want {
				t.Errorf("%v, event %v; want %v, %v", wc.Status, got, tt.status, tt.want)
			}
			if tt.status != verbs.WCSuccess {
				return
			}
			// Whoever waits for anything is woken by each.
			if _, got := notified(t, d, e, false, func() error { return tt.do(p) }); !got {
				t.Error("no event for who waits for anything")
			}
		})
	}
}

// TestNothingNeedsNoMemory: requests and entries of no bytes are never refused for
// their keys, and touch nothing.
func TestNothingNeedsNoMemory(t *testing.T) {
	const garbage = 0xdeadbeef
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	nothing := verbs.SGE{Addr: garbage, LKey: garbage}
	for _, op := range []struct {
		op      verbs.Opcode
		wc      verbs.WCOpcode
		receive bool
	}{
		{verbs.OpSend, verbs.WCSend, true}, {verbs.OpSendWithImm, verbs.WCSend, true}, {verbs.OpRDMAWrite, verbs.WCRDMAWrite, false},
		{verbs.OpRDMAWriteWithImm, verbs.WCRDMAWrite, true}, {verbs.OpRDMARead, verbs.WCRDMARead, false},
	} {
		for _, sges := range [][]verbs.SGE{nil, {nothing}, {nothing, nothing}} {
			if op.receive {
				if err := p.B.QP.PostRecv(&verbs.RecvWR{WRID: 2, SGList: sges}); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: op.op, SGList: sges, RemoteAddr: garbage, RKey: garbage}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.A.Done(1, op.wc); err != nil {
				t.Fatalf("%v with %d entries: %v", op.op, len(sges), err)
			}
			if !op.receive {
				continue
			}
			if wc, err := p.B.Next(); err != nil || wc.Err() != nil || wc.ByteLen != 0 {
				t.Fatalf("%v with %d entries: %+v, %v", op.op, len(sges), wc, err)
			}
		}
	}
}
