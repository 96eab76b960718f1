package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestResponderAcksOnDemand(t *testing.T) {
	r := newRespRig(t)
	pkts := r.write(1000, 0, respFill(1, 3*respMTU))
	pkts[2].ask = false
	r.arrive(pkts...)
	r.expect()

	// A packet in the middle may ask as well.
	pkts = r.write(1003, 0, respFill(1, 3*respMTU))
	pkts[1].ask = true
	r.arrive(pkts[:2]...)
	r.expect(respAck(1004, 1))
}

// One ACK for what came in a batch, with the newest PSN.
func TestResponderCoalescesAcks(t *testing.T) {
	r := newRespRig(t)
	for i := range 5 {
		r.arrive(r.write(respStart.Add(i), i, []byte{1})...)
	}
	quiet := r.write(1005, 5, []byte{1})[0]
	quiet.ask = false
	r.arrive(quiet)
	r.expect(respAck(1005, 6))
	r.expect()
	r.expectCount(AckDeferred, 4)
	r.expectCount(SentAcks, 1)
}

// A NAK acknowledges what comes before it.
func TestResponderNakStandsForTheAck(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.arrive(r.write(1002, 0, []byte{1})...)
	r.expect(respNak(wire.NakPSNSeq, 1001, 1))
	r.expect()
}

func TestResponderCredits(t *testing.T) {
	tests := []struct {
		name   string
		posted int
		inUse  bool
		code   uint8
	}{
		{"none", 0, false, 0},
		{"one", 1, false, 1},
		{"five", 5, false, 4},
		{"six", 6, false, 5},
		{"one of one in use", 1, true, 0},
		{"one of six in use", 6, true, 4},
		{"all of the queue", 64, false, 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			for i := range tt.posted {
				r.post(uint64(i), 0, 1024)
			}
			req := r.write(1000, 0, []byte{1})[0]
			msn := uint32(1)
			if tt.inUse {
				req = respPkt(wire.SendFirst, 1000).with(make([]byte, respMTU)).asks()
				msn = 0
			}
			r.arrive(req)
			got := r.rawAnswers()
			want := respAck(1000, msn)
			want.Syn = wire.SynACK(tt.code)
			if len(got) != 1 || got[0] != want {
				t.Errorf("answers %+v, want %+v", got, want)
			}
		})
	}
}

// READ and atomic responses carry credits too.
func TestResponderCreditsOfResponses(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1)
	r.post(2, 0, 1)
	r.arrive(r.read(1000, 0, 3*respMTU), respPkt(wire.FetchAdd, 1003).atomic(r.at(0), r.mr.RKey(), 1, 0))
	for _, a := range r.rawAnswers() {
		want := wire.SynACK(2)
		if a.Op == wire.ReadRespMid {
			want = 0 // no AETH
		}
		if a.Syn != want {
			t.Errorf("%v has syndrome %#x, want %#x", a.Op, a.Syn, want)
		}
	}
}

func TestResponderDeadline(t *testing.T) {
	tests := []struct {
		name string
		req  func(r *respRig) respReq
		due  bool
		then time.Duration // when it is due again
	}{
		{"an ACK is due", func(r *respRig) respReq { return r.write(1000, 0, []byte{1})[0] }, true, 0},
		{"a response is due", func(r *respRig) respReq { return r.read(1000, 0, 1) }, true, 0},
		{"a NAK is due", func(r *respRig) respReq { return r.read(1001, 0, 1) }, true, gapFirstWait},
		{"an RNR NAK is due", func(*respRig) respReq { return respSend(1000, nil)[0] }, true, 0},
		{"an error NAK is due", func(*respRig) respReq { return respPkt(wire.SendLast, 1000) }, true, 0},
		{"nothing asked for", func(r *respRig) respReq {
			return respPkt(wire.WriteOnly, 1000).reth(0, 0, 0)
		}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			if got := r.q.NextDeadline(); got != mono.Never {
				t.Errorf("deadline %d before anything came", got)
			}
			r.arrive(tt.req(r))
			at := r.now
			r.now += 1000
			want := mono.Never
			if tt.due {
				want = at
			}
			if got := r.q.NextDeadline(); got != want {
				t.Errorf("deadline %d, want %d", got, want)
			}
			r.answers()
			want = mono.Never
			if tt.then != 0 {
				want = at.Add(tt.then)
			}
			if got := r.q.NextDeadline(); got != want {
				t.Errorf("deadline %d after everything was sent, want %d", got, want)
			}
		})
	}
}

// A batch without room loses nothing.
func TestResponderWaitsForRoom(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 1))
	r.arrive(r.write(1001, 0, []byte{1})...)
	for range 3 {
		r.tx.Reset(0)
		if !r.q.Poll(r.now, r.tx) {
			t.Error("Poll says that nothing is left")
		}
	}
	r.expect(respData(wire.ReadRespOnly, 1000, 2, []byte{1}), respAck(1001, 2))
}
