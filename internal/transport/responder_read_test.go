package transport

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestResponderAnswersReads(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 255, 256, 257, 511, 512, 513, 4*respMTU + 1} {
		t.Run(fmt.Sprint(n, " bytes"), func(t *testing.T) {
			r := newRespRig(t, respAt(psn.Mask-1))
			data := respFill(3, n)
			copy(r.mem[77:], data)
			r.arrive(r.read(psn.Mask-1, 77, n))
			want := r.responses(psn.Mask-1, 1, data)
			r.expect(want...)
			r.expectCount(SentBytes, uint64(n))

			// The next request comes after the PSNs of all responses.
			next := psn.PSN(psn.Mask - 1).Add(len(want))
			r.arrive(r.write(next, 0, []byte{1})...)
			r.expect(respAck(next, 2))
		})
	}
}

func TestResponderReadOfNothingNeedsNoKey(t *testing.T) {
	r := newRespRig(t)
	r.arrive(respPkt(wire.ReadRequest, 1000).reth(0xDEAD, 0xBAD, 0))
	r.expect(respData(wire.ReadRespOnly, 1000, 1, nil))
}

// The MSN counts a READ when it is accepted, so it is ahead of the responses.
func TestResponderReadsInOrder(t *testing.T) {
	r := newRespRig(t)
	data := respFill(1, 1024)
	copy(r.mem, data)
	r.arrive(r.read(1000, 0, 600), r.read(1003, 100, 10), r.read(1004, 200, 300))
	want := r.responses(1000, 3, data[:600])
	want = append(want, r.responses(1003, 3, data[100:110])...)
	want = append(want, r.responses(1004, 3, data[200:500])...)
	r.expect(want...)
	r.expect()
}

// An ACK waits for the responses of all earlier READs; one that a response
// implies is not sent.
func TestResponderAckDoesNotOvertakeReads(t *testing.T) {
	r := newRespRig(t)
	copy(r.mem, respFill(1, 1024))
	r.arrive(r.write(1000, 2000, []byte{1})...)
	r.arrive(r.read(1001, 0, 3*respMTU))
	r.arrive(r.write(1004, 2001, []byte{1})...)

	var got []respAnswer
	for i := range 5 {
		r.tx.Reset(1)
		more := r.q.Poll(r.now, r.tx)
		for j := range r.tx.Intents {
			got = append(got, r.decode(&r.tx.Intents[j]))
		}
		if want := i < 3; more != want {
			t.Errorf("Poll %d: more is %v, want %v", i, more, want)
		}
	}
	for i := range got {
		got[i].Syn = 0
	}
	want := append(r.responses(1001, 3, respFill(1, 3*respMTU)), respAck(1004, 3))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
}

// The same holds for the NAK of a gap.
func TestResponderNakDoesNotOvertakeReads(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 4))
	r.arrive(r.write(1005, 0, []byte{1})...)
	r.expect(respData(wire.ReadRespOnly, 1000, 1, make([]byte, 4)), respNak(wire.NakPSNSeq, 1001, 1))
}

// An error NAK leaves after the responses that come before it, although the
// queue pair is in ERR by then.
func TestResponderAnswersReadsBeforeItFails(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 2*respMTU))
	r.arrive(respPkt(wire.WriteMiddle, 1002).with(make([]byte, respMTU)))
	r.expectState(ibv.QPStateErr)
	if due := r.q.NextDeadline(); due > r.now {
		t.Errorf("deadline %d, now is %d", due, r.now)
	}
	want := append(r.responses(1000, 1, make([]byte, 2*respMTU)), respNak(wire.NakInvalidRequest, 1002, 1))
	r.expect(want...)
	r.expect()
}

func TestResponderReadKeyIsCheckedForEveryPacket(t *testing.T) {
	conformance.Rule(t, "10-13")
	r := newRespRig(t)
	data := respFill(1, 4*respMTU)
	copy(r.mem, data)
	r.arrive(r.read(1000, 0, 10), r.read(1001, 0, 4*respMTU), r.read(1005, 0, 10))
	r.arrive(r.write(1006, 0, []byte{1})...)
	r.tx.Reset(3)
	if !r.q.Poll(r.now, r.tx) {
		t.Fatal("Poll has sent everything within 3 packets")
	}
	if err := r.env.Mem.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
	// The NAK takes the place of the next response and of what was to follow.
	r.expect(respNak(wire.NakRemoteAccess, 1003, 4))
	r.expectState(ibv.QPStateErr)
	r.expectEvents(ibv.EventCommEst, ibv.EventQPAccessErr)
	r.expect()
}

func TestResponderReadWhosePayloadFaults(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 3*respMTU))
	r.tx.Reset(2)
	r.q.Poll(r.now, r.tx)
	r.q.PayloadFault(r.now, &r.tx.Intents[1])
	r.expect(respNak(wire.NakRemoteAccess, 1001, 1))
	r.expectState(ibv.QPStateErr)
	r.expectCount(PayloadFault, 1)

	// The others of the same batch fault too and say nothing new.
	r.q.PayloadFault(r.now, &r.tx.Intents[0])
	r.expect()
}

// Of several responses that fault before the NAK has left, the first one counts,
// in whatever order the driver reports them.
func TestResponderReadWhosePayloadFaultsTwice(t *testing.T) {
	for _, order := range [][]int{{1, 2}, {2, 1}, {2, 1, 2}} {
		r := newRespRig(t)
		r.arrive(r.read(1000, 0, 3*respMTU))
		r.tx.Reset(3)
		r.q.Poll(r.now, r.tx)
		for _, i := range order {
			r.q.PayloadFault(r.now, &r.tx.Intents[i])
		}
		r.expect(respNak(wire.NakRemoteAccess, 1001, 1))
		r.expectEvents(ibv.EventCommEst, ibv.EventQPAccessErr)
	}
}

// A duplicate gets no NAK, even when its fault is found late.
func TestResponderDuplicateReadWhosePayloadFaults(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 4))
	r.answers()
	r.arrive(r.read(1000, 0, 4))
	r.tx.Reset(2)
	r.q.Poll(r.now, r.tx)
	r.q.PayloadFault(r.now, &r.tx.Intents[0])
	r.expect()
	r.expectState(ibv.QPStateRTR)
}

func TestResponderReadFaultAfterReset(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 4))
	r.tx.Reset(2)
	r.q.Poll(r.now, r.tx)
	r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	r.q.PayloadFault(r.now, &r.tx.Intents[0])
	r.expect()
	r.expectState(ibv.QPStateReset)
}

// rdma_rxe rounds the number agreed up to a power of two, so that many are taken.
func TestResponderLimitsOutstandingReads(t *testing.T) {
	tests := []struct {
		agreed uint8
		taken  int
	}{{0, 0}, {1, 1}, {2, 2}, {3, 4}, {4, 4}, {5, 8}, {128, 128}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.agreed), func(t *testing.T) {
			r := newRespRig(t, respDest(tt.agreed))
			p := respStart
			for range tt.taken {
				r.arrive(r.read(p, 0, 0))
				p = p.Next()
			}
			r.expectState(ibv.QPStateRTR)
			r.arrive(r.read(p, 0, 0))
			r.expectState(ibv.QPStateErr)
			got := r.answers()
			if len(got) != tt.taken+1 {
				t.Fatalf("%d answers, want %d", len(got), tt.taken+1)
			}
			if d := cmp.Diff(respNak(wire.NakInvalidRequest, p, uint32(tt.taken)), got[tt.taken]); d != "" {
				t.Errorf("last answer (-want +got):\n%s", d)
			}
		})
	}
}

func TestResponderAnsweredReadsFreeTheirPlaces(t *testing.T) {
	r := newRespRig(t, respDest(1))
	for i := range 300 {
		p := respStart.Add(i)
		r.arrive(r.read(p, 0, 4))
		r.expect(respData(wire.ReadRespOnly, p, uint32(i+1), make([]byte, 4)))
	}
}

// A higher limit, set while the connection is drained, keeps the saved results.
func TestResponderLimitGrows(t *testing.T) {
	r := newRespRig(t, respDest(1))
	copy(r.mem, "abcd")
	r.arrive(r.read(1000, 0, 4))
	r.expect(respData(wire.ReadRespOnly, 1000, 1, []byte("abcd")))
	r.q.attr.MaxDestRDAtomic = 8
	for i := range 8 {
		r.arrive(r.read(respStart.Add(1+i), 0, 0))
	}
	if got := len(r.answers()); got != 8 {
		t.Errorf("%d answers, want 8", got)
	}
	r.arrive(r.read(1000, 0, 4))
	r.expect(respData(wire.ReadRespOnly, 1000, 9, []byte("abcd")))
}

func TestResponderReadOfIndirectMemory(t *testing.T) {
	r := newRespRig(t)
	ind := &respBrokenMemory{data: []byte("indirect")}
	mr, err := r.env.Mem.RegisterIndirect(respPD, 0x9000, 8, ind, ibv.AccessRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	r.arrive(respPkt(wire.ReadRequest, 1000).reth(0x9000, mr.RKey(), 8))
	r.expect(respData(wire.ReadRespOnly, 1000, 1, []byte("indirect")))
}
