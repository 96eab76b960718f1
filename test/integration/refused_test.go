package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// outcome is what an end has to show for a work request that failed: the
// completions in order, and the state of its queue pair.
type outcome struct {
	WCs   []string
	State verbs.QPState
}

// noEvent says that a queue pair reports nothing.
const noEvent = verbs.EventType(0xff)

// TestRefused posts work requests that must fail, each on a connection of its
// own, followed by two that are flushed. The peer has two receives posted, which
// are flushed too where it fails.
func TestRefused(t *testing.T) {
	r := newRig(t, netns.PairOptions{MTU: 9000}, nil)
	var (
		sender = func(s verbs.WCStatus) outcome {
			return outcome{[]string{fmt.Sprint("1 ", s), "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR"}, verbs.QPStateErr}
		}
		untouched = outcome{nil, verbs.QPStateRTS}
		flushed   = outcome{[]string{"11 WR_FLUSH_ERR", "12 WR_FLUSH_ERR"}, verbs.QPStateErr}
		failed    = func(s verbs.WCStatus) outcome {
			return outcome{[]string{fmt.Sprint("11 ", s), "12 WR_FLUSH_ERR"}, verbs.QPStateErr}
		}
		readOnly = verbs.AccessLocalWrite | verbs.AccessRemoteRead
	)
	for _, tt := range []struct {
		name  string
		o     verbstest.Options
		wr    func(*testing.T, *verbstest.Pair) verbs.SendWR
		a, b  outcome
		event verbs.EventType // at the peer
		says  string          // the error of the completion
	}{
		{
			name: "unregistered buffer",
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 8)
				w.SGList[0].LKey ^= 0xff00
				return w
			},
			a: sender(verbs.WCLocalProtection), b: untouched, event: noEvent, says: "wrong lkey",
		},
		{
			name: "source beyond its region",
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 8)
				w.SGList[0].Addr = p.A.MR.Addr() + uint64(p.A.MR.Len()) - 7
				return w
			},
			a: sender(verbs.WCLocalProtection), b: untouched, event: noEvent, says: "outside its memory region",
		},
		{
			name: "READ into a region without LOCAL_WRITE", o: verbstest.Options{Access: verbs.AccessRemoteRead},
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 8)
				w.Opcode = verbs.OpRDMARead
				return w
			},
			a: sender(verbs.WCLocalProtection), b: untouched, event: noEvent, says: "no LOCAL_WRITE",
		},
		{
			name: "wrong rkey",
			wr:   func(_ *testing.T, p *verbstest.Pair) verbs.SendWR { w := write(p, 0, 8); w.RKey ^= 1; return w },
			a:    sender(verbs.WCRemoteAccess), b: flushed, event: verbs.EventQPAccessErr, says: "check rkey",
		},
		{
			name: "region gone", wr: writeToDeregistered,
			a: sender(verbs.WCRemoteAccess), b: flushed, event: verbs.EventQPAccessErr, says: "check rkey",
		},
		{
			name: "region of another protection domain", wr: writeToOtherPD,
			a: sender(verbs.WCRemoteAccess), b: flushed, event: verbs.EventQPAccessErr, says: "check rkey",
		},
		{
			name: "target beyond its region",
			wr:   func(_ *testing.T, p *verbstest.Pair) verbs.SendWR { return write(p, p.B.MR.Len()-7, 8) },
			a:    sender(verbs.WCRemoteAccess), b: flushed, event: verbs.EventQPAccessErr, says: "address range",
		},
		{
			name: "WRITE to a region without REMOTE_WRITE", wr: writeReadOnly,
			a: sender(verbs.WCRemoteAccess), b: flushed, event: verbs.EventQPAccessErr, says: "remote access rights",
		},
		{
			name: "READ on a queue pair without REMOTE_READ", o: verbstest.Options{Access: verbs.AccessLocalWrite},
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 8)
				w.Opcode = verbs.OpRDMARead
				return w
			},
			a: sender(verbs.WCRemoteInvalidRequest), b: flushed, event: verbs.EventQPReqErr, says: "access flags",
		},
		{
			name: "atomic on a queue pair without REMOTE_ATOMIC", o: verbstest.Options{Access: readOnly},
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 8)
				w.Opcode = verbs.OpAtomicFetchAdd
				return w
			},
			a: sender(verbs.WCRemoteInvalidRequest), b: flushed, event: verbs.EventQPReqErr, says: "access flags",
		},
		{
			name: "misaligned atomic",
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 4, 8)
				w.Opcode = verbs.OpAtomicCmpAndSwp
				return w
			},
			a: sender(verbs.WCRemoteInvalidRequest), b: flushed, event: verbs.EventQPReqErr, says: "alignment of atomics",
		},
		{
			name: "receive too small",
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 65)
				w.Opcode = verbs.OpSend
				return w
			},
			a: sender(verbs.WCRemoteInvalidRequest), b: failed(verbs.WCLocalLength), event: verbs.EventQPReqErr, says: "receive buffer size",
		},
		{
			name: "receive too small, many packets",
			wr: func(_ *testing.T, p *verbstest.Pair) verbs.SendWR {
				w := write(p, 0, 50_000)
				w.Opcode = verbs.OpSend
				return w
			},
			a: sender(verbs.WCRemoteInvalidRequest), b: failed(verbs.WCLocalLength), event: verbs.EventQPReqErr, says: "receive buffer size",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := r.pair(t, tt.o)
			postTwoReceives(t, p.B)
			drainEvents(r.b)
			verbstest.Fill(p.B.Buf, 1)
			before := bytes.Clone(p.B.Buf)
			first := tt.wr(t, p)
			first.WRID = 1
			if n, err := p.A.QP.PostSendBatch([]verbs.SendWR{first, {WRID: 2, Opcode: verbs.OpSend}, {WRID: 3, Opcode: verbs.OpSend}}); n != 3 {
				t.Fatalf("posted %d: %v", n, err)
			}
			checkOutcome(t, "A", p.A, tt.a, tt.says)
			checkOutcome(t, "B", p.B, tt.b, "")
			checkEvent(t, r.b, tt.event, p.B.QP)
			if !bytes.Equal(p.B.Buf, before) {
				t.Error("the peer's memory has changed")
			}
		})
	}
}

// write is a WRITE of n bytes to offset off of B's region; changing its opcode
// makes it another operation.
func write(p *verbstest.Pair, off, n int) verbs.SendWR {
	return verbs.SendWR{
		Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
		RemoteAddr: p.B.MR.Addr() + uint64(off), RKey: p.B.MR.RKey(),
	}
}

// writeTo is a WRITE to the start of another region of B.
func writeTo(t *testing.T, p *verbstest.Pair, mr *verbs.MR, err error) verbs.SendWR {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, mr.Deregister()) })
	w := write(p, 0, 8)
	w.RKey = mr.RKey()
	return w
}

func writeReadOnly(t *testing.T, p *verbstest.Pair) verbs.SendWR {
	mr, err := p.B.PD.RegisterMemory(p.B.Buf, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	return writeTo(t, p, mr, err)
}

func writeToDeregistered(t *testing.T, p *verbstest.Pair) verbs.SendWR {
	mr, err := p.B.PD.RegisterMemory(p.B.Buf, verbstest.All)
	must(t, err)
	return writeTo(t, p, mr, mr.Deregister())
}

func writeToOtherPD(t *testing.T, p *verbstest.Pair) verbs.SendWR {
	pd, err := p.B.Dev.AllocPD()
	must(t, err)
	mr, err := pd.RegisterMemory(p.B.Buf, verbstest.All)
	return writeTo(t, p, mr, err)
}

// postTwoReceives posts two receives of 64 bytes, as work requests 11 and 12.
func postTwoReceives(t *testing.T, e *verbstest.End) {
	t.Helper()
	must(t, e.Recv(11, 0, 64))
	must(t, e.Recv(12, 64, 64))
}

// checkOutcome takes as many completions as are expected and compares them, the
// state, and what the error of the first says. There must be no more.
func checkOutcome(t *testing.T, name string, e *verbstest.End, want outcome, says string) {
	t.Helper()
	var got outcome
	for range want.WCs {
		wc, err := e.Next()
		if err != nil {
			t.Fatalf("%s after %d completions: %v", name, len(got.WCs), err)
		}
		if len(got.WCs) == 0 && says != "" {
			checkText(t, fmt.Sprint(wc.Err()), []string{says, wc.Status.String()})
		}
		got.WCs = append(got.WCs, fmt.Sprint(wc.WRID, " ", wc.Status))
	}
	attr, err := e.QP.Query()
	must(t, err)
	got.State = attr.State
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, want (-), got (+):\n%s", name, diff)
	}
	var wcs [4]verbs.WC
	if n := e.CQ.Poll(wcs[:]); n != 0 {
		t.Errorf("%s: %d more completions: %+v", name, n, wcs[:n])
	}
}

// drainEvents takes the events that are there.
func drainEvents(dev *verbs.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		if _, err := dev.NextEvent(ctx); err != nil {
			return
		}
	}
}

// checkEvent looks for an event of a queue pair among those that follow.
func checkEvent(t *testing.T, dev *verbs.Context, want verbs.EventType, qp *verbs.QP) {
	t.Helper()
	if want == noEvent {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		e, err := dev.NextEvent(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no event %v within 10 s", want)
			return
		}
		must(t, err)
		if e.Type == want {
			if e.QP != qp {
				t.Errorf("event %v of queue pair %v, want %#x", want, e.QP, qp.Num())
			}
			return
		}
	}
}
