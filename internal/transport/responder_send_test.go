package transport

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestResponderReceivesSends(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 255, 256, 257, 511, 512, 513, 3*respMTU + 1} {
		t.Run(fmt.Sprint(n, " bytes"), func(t *testing.T) {
			r := newRespRig(t)
			r.post(11, 64, 1024)
			data := respFill(1, n)
			pkts := respSend(1000, data)
			r.arrive(pkts...)
			r.expect(respAck(pkts[len(pkts)-1].psn, 1))
			r.expectMemory(64, data)
			r.expectCompletions(respRecv(11, uint32(n)))
			r.expectCount(RcvdBytes, uint64(n))
			r.expectCount(RDMARecvs, 1)
			if r.mem[63] != 0 || r.mem[64+n] != 0 {
				t.Error("bytes around the payload have changed")
			}
		})
	}
}

func TestResponderSendCompletesAtItsLastPacket(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1024)
	pkts := respSend(1000, respFill(1, 3*respMTU))
	for _, p := range pkts[:2] {
		r.arrive(p)
		r.expect()
		r.expectCompletions()
	}
	if free := r.rq.FreeNow(); free != 63 {
		t.Errorf("%d free elements in the middle of a message, want 63", free)
	}
	r.arrive(pkts[2])
	r.expectCompletions(respRecv(1, 3*respMTU))
	if free := r.rq.FreeNow(); free != 64 {
		t.Errorf("%d free elements after the message, want 64", free)
	}
}

func TestResponderSendWithImmediate(t *testing.T) {
	for _, op := range []wire.Opcode{wire.SendOnlyImm, wire.SendLastImm} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRespRig(t)
			r.post(1, 0, 1024)
			p, n := respStart, uint32(2)
			if op == wire.SendLastImm {
				r.arrive(respPkt(wire.SendFirst, p).with(make([]byte, respMTU)))
				p, n = p.Next(), respMTU+2
			}
			r.arrive(respPkt(op, p).word(0x01020304).with([]byte("hi")))
			r.expectCompletions(queue.CQE{WRID: 1, ByteLen: n, Opcode: ibv.WCRecv, Flags: ibv.WCFlagWithImm, Imm: 0x01020304})
		})
	}
}

func TestResponderUsesReceivesInOrder(t *testing.T) {
	r := newRespRig(t)
	for i := range 5 {
		r.post(uint64(i), i*16, 16)
	}
	for i := range 5 {
		r.arrive(respSend(respStart.Add(i), []byte{byte(i + 1)})...)
		r.expectMemory(i*16, []byte{byte(i + 1)})
		r.expectCompletions(respRecv(uint64(i), 1))
	}
}

// The copy of a receive work request is what counts: a client that changes the
// shared element afterwards changes nothing.
func TestResponderReadsAReceiveOnce(t *testing.T) {
	conformance.Rule(t, "14-11")
	r := newRespRig(t)
	r.post(1, 0, 1024)
	slot := r.rq.Ring()
	pkts := respSend(1000, respFill(1, 2*respMTU))
	r.arrive(pkts[0])
	elem := queue.NewProducer(slot).Slot(0)
	queue.PutRecv(elem, &queue.RecvWQE{WRID: 99, NumSGE: 0xFFFF, Length: 1})
	queue.PutRecvSGE(elem, 0, queue.SGE{Addr: 1, Length: 1, LKey: 1})
	r.arrive(pkts[1])
	r.expectMemory(0, respFill(1, 2*respMTU))
	r.expectCompletions(respRecv(1, 2*respMTU))
}

// So it is when the request is flushed.
func TestResponderFlushesItsCopyOfAReceive(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1024)
	r.arrive(respSend(1000, respFill(1, 2*respMTU))[0])
	queue.PutRecv(queue.NewProducer(r.rq.Ring()).Slot(0), &queue.RecvWQE{WRID: 99})
	r.fail()
	r.expectCompletions(respFailed(1, ibv.WCWRFlushErr))
}

func TestResponderSolicitedEvents(t *testing.T) {
	tests := []struct {
		name  string
		arm   uint32
		se    bool
		wakes bool
	}{
		{"not armed", queue.ArmNone, true, false},
		{"armed for any", queue.ArmNext, false, true},
		{"armed for solicited, is not", queue.ArmSolicited, false, false},
		{"armed for solicited, is", queue.ArmSolicited, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.post(1, 0, 16)
			r.q.cfg.RecvCQ.prod.Ring().Arm().Store(tt.arm)
			p := respPkt(wire.SendOnly, 1000).with([]byte{1})
			if tt.se {
				p = p.solicited()
			}
			r.arrive(p)
			if got := len(r.env.Woken) == 1; got != tt.wakes {
				t.Errorf("woken: %v, want %v", got, tt.wakes)
			}
		})
	}
}

// A small message in segments cut at every pair of offsets, into entries cut at
// every pair of offsets.
func TestResponderScattersAnySplit(t *testing.T) {
	const n = 9
	data := respFill(3, n)
	for cut1 := 0; cut1 <= n; cut1++ {
		for cut2 := cut1; cut2 <= n; cut2++ {
			for sge1 := 0; sge1 <= n; sge1++ {
				for sge2 := sge1; sge2 <= n; sge2++ {
					r := newRespRig(t)
					r.post(1, 100, sge1, 200, sge2-sge1, 300, n-sge2)
					r.arrive(respPkt(wire.SendOnly, 1000).with(data).cut(cut1, cut2))
					r.expectMemory(100, data[:sge1])
					r.expectMemory(200, data[sge1:sge2])
					r.expectMemory(300, data[sge2:])
					if t.Failed() {
						t.Fatalf("segments cut at %d, %d, entries at %d, %d", cut1, cut2, sge1, sge2)
					}
				}
			}
		}
	}
}

func TestResponderScattersOver32Entries(t *testing.T) {
	conformance.Rule(t, "7.3-2")
	r := newRespRig(t)
	var pairs []int
	for i := range ibv.MaxSGE {
		pairs = append(pairs, i*100, 17)
	}
	r.post(1, pairs...)
	data := respFill(1, 32*17)
	r.arrive(respSend(1000, data)...)
	for i := range ibv.MaxSGE {
		r.expectMemory(i*100, data[i*17:(i+1)*17])
	}
	r.expectCompletions(respRecv(1, 32*17))
}

// Random messages, segment cuts and entries against a byte array.
func TestResponderScatterModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRespRig(t)
		model := make([]byte, respSize)
		p := respStart
		for msg := range rapid.IntRange(1, 4).Draw(rt, "messages") {
			n := rapid.IntRange(0, 4*respMTU+1).Draw(rt, "length")
			data := respFill(byte(msg*31), n)
			var pairs []int
			off := rapid.IntRange(0, 64).Draw(rt, "offset")
			for left := n; left > 0 && len(pairs) < 2*(ibv.MaxSGE-1); {
				l := rapid.IntRange(0, left).Draw(rt, "entry")
				pairs = append(pairs, off, l)
				copy(model[off:], data[n-left:n-left+l])
				left -= l
				off += l + rapid.IntRange(0, 5).Draw(rt, "hole")
				if len(pairs) == 2*(ibv.MaxSGE-1) {
					pairs = append(pairs, off, left)
					copy(model[off:], data[n-left:])
				}
			}
			r.post(uint64(msg), pairs...)
			for _, q := range respSend(p, data) {
				cuts := rapid.SliceOfN(rapid.IntRange(0, len(q.data)), 0, 4).Draw(rt, "cuts")
				r.arrive(q.cut(cuts...))
				p = p.Next()
			}
			r.expectCompletions(respRecv(uint64(msg), uint32(n)))
		}
		if string(model) != string(r.mem) {
			rt.Fatal("memory differs from the model")
		}
	})
}

func TestResponderSendWithInvalidateOfAPlainKey(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 16)
	r.post(2, 0, 16)
	r.arrive(r.write(1000, 100, []byte{1})...) // earlier requests are still answered
	r.arrive(respPkt(wire.SendOnlyInv, 1001).word(r.mr.RKey()).with([]byte("data")).asks())
	r.expectMemory(0, []byte("data"))
	r.expect(respAck(1000, 1))
	r.expectCompletions(respFailed(1, ibv.WCRemInvReqErr), respFailed(2, ibv.WCWRFlushErr))
	r.expectEvents(ibv.EventCommEst, ibv.EventQPReqErr)
	r.expectState(ibv.QPStateErr)
	r.expectCount(DropInvalidate, 1)
}
