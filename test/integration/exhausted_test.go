package integration_test

import (
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestExhausted has peers that do not answer, or are never ready, until the
// queue pair gives up: at the end of its retries and not before, with everything
// behind the failed request flushed in order.
func TestExhausted(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	for _, tt := range []struct {
		name  string
		o     verbstest.Options
		spoil func(*testing.T, *verbstest.Pair)
		want  verbs.WCStatus
		says  string
		peer  verbs.QPState
	}{
		{
			name: "peer's queue pair destroyed", o: verbstest.Options{Timeout: 10, Retry: 2},
			spoil: func(t *testing.T, p *verbstest.Pair) { must(t, p.B.QP.Destroy()) },
			want:  verbs.WCRetryExceeded, says: "no acknowledgement from the peer",
		},
		{
			name: "peer's queue pair in ERR", o: verbstest.Options{Timeout: 10, Retry: 2},
			spoil: func(t *testing.T, p *verbstest.Pair) {
				must(t, p.B.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
			},
			want: verbs.WCRetryExceeded, says: "in RTR or RTS", peer: verbs.QPStateErr,
		},
		{
			name: "no receive posted", o: verbstest.Options{RNRRetry: 2, MinRNRTimer: 1},
			spoil: func(*testing.T, *verbstest.Pair) {},
			want:  verbs.WCRNRRetryExceeded, says: "had no receive posted", peer: verbs.QPStateRTS,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := r.pair(t, tt.o)
			tt.spoil(t, p)
			rnr, retries := count(t, r.a, "rcvd_rnr_err"), count(t, r.a, "completer_retry_err")
			for id := range uint64(3) {
				must(t, p.A.Post(verbs.SendWR{WRID: id + 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 2000)}}))
			}
			want := outcome{[]string{"1 " + tt.want.String(), "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR"}, verbs.QPStateErr}
			checkOutcome(t, "A", p.A, want, tt.says)
			if tt.peer != verbs.QPStateReset {
				checkOutcome(t, "B", p.B, outcome{nil, tt.peer}, "")
			}
			// The first try is none of the retries, which are two.
			switch rnr, retries = count(t, r.a, "rcvd_rnr_err")-rnr, count(t, r.a, "completer_retry_err")-retries; {
			case tt.want == verbs.WCRNRRetryExceeded && rnr != 3:
				t.Errorf("it gave up after %d RNR NAKs, want 3", rnr)
			case tt.want == verbs.WCRetryExceeded && retries != 2:
				t.Errorf("it tried again %d times, want 2", retries)
			}
		})
	}
}

// TestLinkGone takes the link away for good.
func TestLinkGone(t *testing.T) {
	r := newRig(t, netns.PairOptions{StaticNeighbors: true}, nil)
	p := r.pair(t, verbstest.Options{Timeout: 10, Retry: 2})
	must(t, r.hosts.B.SetUp(false))
	must(t, p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 100)}}))
	checkOutcome(t, "A", p.A, outcome{[]string{"1 RETRY_EXC_ERR"}, verbs.QPStateErr}, "the link")
}

// TestFullQueues posts until the queues are full, then lets them empty.
func TestFullQueues(t *testing.T) {
	const depth = 16
	r := newRig(t, netns.PairOptions{}, nil)
	p := r.pair(t, verbstest.Options{Depth: depth, MinRNRTimer: 1})
	send := verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}
	for round := range 3 {
		for i := range depth {
			if err := p.A.Post(send); err != nil {
				t.Fatalf("round %d, send %d of %d: %v", round, i+1, depth, err)
			}
		}
		checkFull(t, p.A.Post(send), "MaxSendWR")
		for i := range depth {
			// The peer takes receives as they come: all of them can be posted.
			if err := p.B.Recv(uint64(i), 0, 8); err != nil {
				t.Fatalf("round %d, receive %d of %d: %v", round, i+1, depth, err)
			}
		}
		for range depth {
			expect(t, p.A, verbs.WCSuccess)
			expect(t, p.B, verbs.WCSuccess)
		}
	}
	for range depth {
		must(t, p.B.Recv(0, 0, 8))
	}
	checkFull(t, p.B.Recv(0, 0, 8), "MaxRecvWR")
}

func checkFull(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatalf("posting to a full queue: %v, want %v", err, verbs.ErrQueueFull)
	}
	checkText(t, err.Error(), []string{says})
}

// TestFlush moves queue pairs to ERR with work outstanding: both queues are
// flushed in the order in which they were posted, and so is what follows.
func TestFlush(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	p := r.pair(t, verbstest.Options{MinRNRTimer: 31})
	for id := range uint64(3) {
		must(t, p.A.Recv(id+11, 0, 8))
		must(t, p.A.Post(verbs.SendWR{WRID: id + 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
	}
	must(t, p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
	checkOutcome(t, "outstanding", p.A, outcome{[]string{
		"1 WR_FLUSH_ERR", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR", "11 WR_FLUSH_ERR", "12 WR_FLUSH_ERR", "13 WR_FLUSH_ERR",
	}, verbs.QPStateErr}, "the first failed completion says why")
	must(t, p.A.Post(verbs.SendWR{WRID: 4, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
	must(t, p.A.Recv(14, 0, 8))
	checkOutcome(t, "posted in ERR", p.A, outcome{[]string{"4 WR_FLUSH_ERR", "14 WR_FLUSH_ERR"}, verbs.QPStateErr}, "")
}

// TestWrongState uses queue pairs in states that do not allow it.
func TestWrongState(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	p := r.pair(t, verbstest.Options{})
	fresh := func(t *testing.T) *verbs.QP {
		qp, err := p.A.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: p.A.CQ, RecvCQ: p.A.CQ})
		must(t, err)
		t.Cleanup(func() { must(t, qp.Destroy()) })
		return qp
	}
	send := &verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}
	recv := &verbs.RecvWR{SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}
	for _, tt := range []struct {
		name string
		do   func(*verbs.QP) error
		want error // nil: any
		says []string
	}{
		{"send in RESET", func(q *verbs.QP) error { return q.PostSend(send) }, verbs.ErrState, []string{"RESET", "needs RTS"}},
		{"receive in RESET", func(q *verbs.QP) error { return q.PostRecv(recv) }, verbs.ErrState, []string{"RESET", "from INIT on"}},
		{
			"RESET to RTS", func(q *verbs.QP) error { return q.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState) },
			nil, []string{"RESET", "RTS"},
		},
		{
			"RESET to INIT without a port", func(q *verbs.QP) error {
				return q.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrAccessFlags)
			},
			nil, []string{"PORT"},
		},
		{
			"current state that is not", func(q *verbs.QP) error {
				return q.Modify(&verbs.QPAttr{State: verbs.QPStateErr, CurState: verbs.QPStateRTS}, verbs.AttrState|verbs.AttrCurState)
			},
			nil, []string{"RESET"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := fresh(t)
			err := tt.do(q)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			checkText(t, err.Error(), tt.says)
			if attr, err := q.Query(); err != nil || attr.State != verbs.QPStateReset {
				t.Errorf("afterwards the queue pair is in %v, %v; want RESET", attr.State, err)
			}
		})
	}
}
