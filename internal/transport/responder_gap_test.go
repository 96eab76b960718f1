package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// The NAK is sent again when the repetition is overdue, ever more rarely, and not
// for ever.
func TestResponderRenewsNak(t *testing.T) {
	for budget, end := range map[int]respAnswer{0: respAck(1000, 1), 8: respAck(1001, 2)} {
		r := newRespRig(t)
		r.env.KeepBudget = budget
		r.arriveOne(r.write(1001, 1, []byte{2})[0])
		nak := respNak(wire.NakPSNSeq, 1000, 0)
		r.expect(nak)
		for k := range gapMaxNaks {
			wait := gapFirstWait << k
			r.now = r.now.Add(wait - 1)
			r.expect()
			r.now = r.now.Add(1)
			r.expect(nak)
		}
		r.now = r.now.Add(gapFirstWait << gapMaxNaks)
		r.expect()
		if d := r.q.NextDeadline(); d != mono.Never {
			t.Errorf("due at %d after the last NAK", d)
		}
		r.expectCount(RenewedNaks, gapMaxNaks)
		// The timer of the peer, at last.
		r.arrive(r.write(1000, 0, []byte{1})[0])
		r.expect(end)
	}
}

// The wait follows the time that repetitions have taken.
func TestResponderMeasuresRepetitions(t *testing.T) {
	r := newRespRig(t)
	gap := func(p int) {
		r.arriveOne(r.write(respStart.Add(p+1), 1, []byte{2})[0])
		r.answers()
	}
	for p := range 40 {
		gap(p)
		r.now = r.now.Add(500 * time.Microsecond)
		r.arriveOne(r.write(respStart.Add(p), 0, []byte{1})[0])
		r.answers()
	}
	gap(40)
	d := r.q.NextDeadline().Sub(r.now)
	if d < time.Millisecond || d > 1100*time.Microsecond {
		t.Errorf("the NAK is renewed in %v, repetitions take 0.5 ms", d)
	}
	// Which of two NAKs has brought the packet nobody knows.
	before := r.q.resp.gap.rtt
	r.now = r.now.Add(d)
	r.expect(respNak(wire.NakPSNSeq, respStart.Add(40), 40))
	r.now = r.now.Add(time.Second)
	r.arriveOne(r.write(respStart.Add(40), 0, []byte{1})[0])
	if r.q.resp.gap.rtt != before {
		t.Error("a repetition after two NAKs was measured")
	}
}

// Nothing is renewed when there is no gap, when the peer was told to wait, or when
// the connection is over.
func TestResponderRenewsNoOtherNak(t *testing.T) {
	later := func(r *respRig, d time.Duration) { r.now = r.now.Add(d) }
	t.Run("gap closed", func(t *testing.T) {
		r := newRespRig(t)
		r.arriveOne(r.write(1001, 1, []byte{2})[0])
		r.answers()
		r.arriveOne(r.write(1000, 0, []byte{1})[0])
		r.answers()
		later(r, time.Second)
		r.expect()
	})
	t.Run("RNR", func(t *testing.T) {
		r := newRespRig(t)
		r.arriveOne(respSend(1000, []byte{1})[0])
		r.answers()
		r.arriveOne(respSend(1001, []byte{1})[0])
		later(r, time.Second)
		r.expect()
	})
	t.Run("ERR", func(t *testing.T) {
		r := newRespRig(t)
		r.arriveOne(r.write(1001, 1, []byte{2})[0])
		r.answers()
		r.modify(ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
		if d := r.q.NextDeadline(); d != mono.Never {
			t.Errorf("due at %d in ERR", d)
		}
	})
}

// A part of a READ is sent again on the side: responses under way go on where they
// were.
func TestResponderPatchesARead(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 4*respMTU), r.read(1004, 4*respMTU, 4*respMTU))
	data := respFill(3, 8*respMTU)
	copy(r.mem, data)
	r.tx.Reset(6) // up to the middle of the second
	r.q.Poll(r.now, r.tx)
	r.arrive(r.read(1001, respMTU, 2*respMTU), r.read(1005, 5*respMTU, respMTU))
	part := func(p, n int) []byte { return data[p*respMTU:][:n*respMTU] }
	r.expect(
		respData(wire.ReadRespFirst, 1001, 2, part(1, 1)), respData(wire.ReadRespLast, 1002, 2, part(2, 1)),
		respData(wire.ReadRespOnly, 1005, 2, part(5, 1)),
		respData(wire.ReadRespMid, 1006, 0, part(6, 1)), respData(wire.ReadRespLast, 1007, 2, part(7, 1)),
	)
	r.expectCount(DuplicateRead, 2)
}

// More parts than there are places: one more is sent in the place of the READ.
func TestResponderManyPatches(t *testing.T) {
	r := newRespRig(t)
	n := maxPatches + 2
	copy(r.mem, respFill(3, 2*n*respMTU))
	r.arrive(r.read(1000, 0, 2*n*respMTU))
	r.answers()
	var want []respAnswer
	for i := range maxPatches + 1 {
		r.arrive(r.read(respStart.Add(2*i), 2*i*respMTU, respMTU))
		want = append(want, respData(wire.ReadRespOnly, respStart.Add(2*i), 1, r.mem[2*i*respMTU:][:respMTU]))
	}
	r.expect(want...)
}

// A part whose memory has gone away is not answered, and nothing else suffers.
func TestResponderPatchWithoutMemory(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 3*respMTU))
	r.answers()
	r.arrive(r.read(1001, respMTU, respMTU))
	must(t, r.env.Mem.Deregister(r.mr))
	r.expect()
	if r.q.State() != ibv.QPStateRTR {
		t.Errorf("state is %v", r.q.State())
	}
}
