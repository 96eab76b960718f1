package transport

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func (r *respRig) expectReleased(want ...uint64) {
	r.t.Helper()
	got := slices.Clone(r.env.Released)
	r.env.Released = r.env.Released[:0]
	if d := cmp.Diff(want, got); len(got)+len(want) > 0 && d != "" {
		r.t.Errorf("released frames (-want +got):\n%s", d)
	}
}

func TestResponderKeepsPacketsAfterAGap(t *testing.T) {
	for _, first := range []psn.PSN{1000, psn.Mask - 1, psn.Mask, 0} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			r := newRespRig(t, respAt(first))
			r.env.KeepBudget = 8
			r.post(1, 0, 2048)
			data := respFill(1, 5*respMTU)
			pkts := respSend(first, data)
			r.arriveKept(pkts[2])
			r.arriveKept(pkts[1])
			r.arriveKept(pkts[4])
			r.arriveKept(pkts[3])
			r.expect(respNak(wire.NakPSNSeq, first, 0))
			r.expectReleased()

			r.arrive(pkts[0])
			r.expect(respAck(first.Add(4), 1))
			r.expectMemory(0, data)
			r.expectCompletions(respRecv(1, 5*respMTU))
			r.expectReleased(2, 1, 4, 3) // in the order of execution
			r.expectCount(OutOfOrderKept, 4)
			r.expectCount(OutOfOrderUsed, 4)

			// What the peer repeats meanwhile is an ordinary duplicate.
			r.arrive(pkts[1], pkts[4])
			r.expect(respAck(first.Add(4), 1))
			r.expectMemory(0, data)
		})
	}
}

func TestResponderKeepsWithinTheBudget(t *testing.T) {
	tests := []struct {
		name    string
		budget  int
		arrives []int // distance from the expected PSN
		kept    []bool
	}{
		{"none", 0, []int{1, 2}, []bool{false, false}},
		{"one", 1, []int{1, 2}, []bool{true, false}},
		{"up to the budget", 3, []int{3, 1, 2, 4}, []bool{true, true, true, false}},
		{"the same again", 4, []int{1, 1, 2}, []bool{true, false, true}},
		{"at the end of the window", 4, []int{4, 1}, []bool{true, true}},
		{"beyond the window", 4, []int{5, 100, psn.Half - 1}, []bool{false, false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.env.KeepBudget = tt.budget
			for i, d := range tt.arrives {
				v := r.arriveOne(r.write(respStart.Add(d), d, []byte{1})[0])
				if got := v == Keep; got != tt.kept[i] {
					t.Errorf("packet at +%d kept: %v, want %v", d, got, tt.kept[i])
				}
			}
		})
	}
}

// Two gaps: the second is reported as soon as the first is filled, since what comes
// after it is here already.
func TestResponderKeepsBehindTwoGaps(t *testing.T) {
	r := newRespRig(t)
	r.env.KeepBudget = 8
	w := func(d int) respReq { return r.write(respStart.Add(d), d, []byte{byte(d + 1)})[0] }
	r.arriveKept(w(1))
	r.arriveKept(w(3))
	r.expect(respNak(wire.NakPSNSeq, 1000, 0))
	r.arrive(w(0))
	r.expect(respNak(wire.NakPSNSeq, 1002, 2))
	r.arriveKept(w(4))
	r.expect()
	r.arrive(w(2))
	r.expect(respAck(1004, 5))
	r.expectMemory(0, []byte{1, 2, 3, 4, 5})
	r.expectReleased(1, 2, 4)
}

// A kept packet asks for its ACK only when it is executed, if it does at all.
func TestResponderKeptPacketsAskForTheirAcks(t *testing.T) {
	r := newRespRig(t)
	r.env.KeepBudget = 4
	quiet := r.write(1000, 0, []byte{1})[0]
	quiet.ask = false
	later := r.write(1001, 1, []byte{2})[0]
	r.arriveKept(later)
	r.answers()
	r.arrive(quiet)
	r.expect(respAck(1001, 2))
}

func TestResponderKeptReadAndAtomic(t *testing.T) {
	r := newRespRig(t)
	r.env.KeepBudget = 8
	r.arriveKept(r.read(1001, 0, 300))
	r.arriveKept(respPkt(wire.FetchAdd, 1003).atomic(r.at(0), r.mr.RKey(), 1, 0))
	r.answers()
	r.arrive(r.write(1000, 0, []byte{1})...)
	want := r.responses(1001, 3, append([]byte{2}, make([]byte, 299)...))
	// The responses are read when they are sent: after the atomic.
	r.expect(append(want, respAtomicAnswer(3, 3, 1))...)
}

// A kept packet that claims a PSN of a READ before it can never be in order.
func TestResponderKeptPacketInsideARead(t *testing.T) {
	r := newRespRig(t)
	r.env.KeepBudget = 8
	r.arriveKept(r.write(1002, 0, []byte{1})[0])
	r.answers()
	r.arrive(r.read(1000, 0, 3*respMTU))
	r.expect(r.responses(1000, 1, make([]byte, 3*respMTU))...)
	r.expectReleased(1)
}

func TestResponderLetsGoOfKeptPackets(t *testing.T) {
	keep := func(t *testing.T) *respRig {
		r := newRespRig(t)
		r.env.KeepBudget = 8
		r.post(1, 0, 16)
		r.arriveKept(respSend(1001, nil)[0])
		r.arriveKept(respSend(1002, nil)[0])
		r.arriveKept(respSend(1004, nil)[0])
		r.answers()
		return r
	}
	t.Run("to RESET", func(t *testing.T) {
		r := keep(t)
		r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
		r.expectReleased(1, 2, 3)
	})
	t.Run("to ERR", func(t *testing.T) {
		r := keep(t)
		r.modify(ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
		r.expectReleased(1, 2, 3)
	})
	t.Run("an error among them", func(t *testing.T) {
		r := keep(t)
		r.arrive(respPkt(wire.SendMiddle, 1000))
		r.expect(respNak(wire.NakInvalidRequest, 1000, 0))
		r.expectReleased(1, 2, 3)
	})
	t.Run("not ready for one of them", func(t *testing.T) {
		r := keep(t)
		r.arrive(r.write(1000, 0, []byte{1})...) // then the receive of 1001, none for 1002
		r.expect(respNak(respRNR, 1002, 2))
		r.expectCompletions(respRecv(1, 0))
		r.expectReleased(1, 2, 3)
	})
}

// Packets in any order, within the budget, give what the right order gives.
func TestResponderKeepModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRespRig(t, respAt(psn.Mask-3))
		r.env.KeepBudget = 16
		r.post(1, 0, 8192)
		n := rapid.IntRange(1, 16).Draw(rt, "packets")
		data := respFill(1, n*respMTU)
		pkts := respSend(psn.Mask-3, data)
		for _, i := range rapid.Permutation(respIndices(n)).Draw(rt, "order") {
			r.arriveOne(pkts[i])
			if rapid.Bool().Draw(rt, "twice") {
				r.arriveOne(pkts[i])
			}
		}
		last := respAck(psn.PSN(psn.Mask-3).Add(n-1), 1)
		if got := r.answers(); len(got) != 1 || got[0] != last {
			rt.Errorf("answers %+v, want %+v", got, last)
		}
		if string(r.mem[:len(data)]) != string(data) {
			rt.Error("payload is not in place")
		}
		if d := cmp.Diff([]queue.CQE{respRecv(1, uint32(len(data)))}, r.completions()); d != "" {
			rt.Error(d)
		}
		if len(r.env.Released) != int(r.env.Counters[OutOfOrderKept]) {
			rt.Errorf("%d frames released, %d kept", len(r.env.Released), r.env.Counters[OutOfOrderKept])
		}
	})
}

func respIndices(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}
