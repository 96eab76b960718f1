package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func newUCRig(t *testing.T, opts ...respOption) *respRig {
	t.Helper()
	return newRespRig(t, append([]respOption{respOn(ibv.QPTypeUC)}, opts...)...)
}

// quiet wants that the peer is told nothing and that the queue pair is well.
func (r *respRig) quiet() {
	r.t.Helper()
	r.expect()
	r.expectState(ibv.QPStateRTR)
}

func TestUCReceives(t *testing.T) {
	for _, n := range []int{0, 1, 3, 255, 256, 257, 512, 3*respMTU + 1} {
		t.Run(fmt.Sprint(n, " bytes"), func(t *testing.T) {
			r := newUCRig(t)
			r.post(11, 64, 1024)
			r.arrive(respUC(respSend(1000, respFill(1, n)))...) // it asks for an ACK
			r.expectCompletions(respRecv(11, uint32(n)))
			r.expectMemory(64, respFill(1, n))
			next := r.q.resp.st.ePSN
			r.arrive(respUC(r.write(next, 4096, respFill(2, n)))...)
			r.expectCompletions()
			r.expectMemory(4096, respFill(2, n))
			r.quiet()
			r.expectCount(OutOfSeqRequest, 0)
			r.expectCount(AbandonedMessages, 0)
			r.expectCount(RcvdBytes, uint64(2*n))
			r.expectEvents(ibv.EventCommEst)
		})
	}
}

func TestUCImmediate(t *testing.T) {
	r := newUCRig(t)
	r.post(1, 0, 1024)
	r.post(2, 0, 1024)
	r.post(3, 0, 1024)
	w := respUC(r.write(1001, 2048, respFill(1, respMTU+2)))
	w[1].op = wire.UC | wire.WriteLastImm
	r.arrive(respPkt(wire.UC|wire.SendOnlyImm, 1000).word(0xA1B2C3D4).with([]byte("x")), w[0], w[1].word(5),
		respPkt(wire.UC|wire.WriteOnlyImm, 1003).reth(r.at(3000), r.mr.RKey(), 2).word(6).with([]byte("yz")))
	r.expectCompletions(
		queue.CQE{WRID: 1, ByteLen: 1, Opcode: ibv.WCRecv, Flags: ibv.WCFlagWithImm, Imm: 0xA1B2C3D4},
		queue.CQE{WRID: 2, ByteLen: respMTU + 2, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 5},
		queue.CQE{WRID: 3, ByteLen: 2, Opcode: ibv.WCRecvRDMAWithImm, Flags: ibv.WCFlagWithImm, Imm: 6})
	r.expectMemory(2048, respFill(1, respMTU+2))
	r.expectMemory(3000, []byte("yz"))
	r.quiet()
}

// ucPacket makes the packet that a word says: FIRST, MIDDLE, LAST or ONLY, of a
// SEND or in lower case of a WRITE, and its PSN. Payloads tell packets apart.
func (r *respRig) ucPacket(word string) respReq {
	var k int
	if _, err := fmt.Sscan(word[1:], &k); err != nil {
		r.t.Fatal(err)
	}
	p := psn.PSN(0xFFFFFA).Add(k)
	w := r.write(p, 0x8000, respFill(byte(k), 2*respMTU))[0] // the RETH of a WRITE FIRST
	switch word[0] {
	case 'F':
		return respPkt(wire.UC|wire.SendFirst, p).with(respFill(byte(k), respMTU))
	case 'M':
		return respPkt(wire.UC|wire.SendMiddle, p).with(respFill(byte(k), respMTU))
	case 'L':
		return respPkt(wire.UC|wire.SendLast, p).with(respFill(byte(k), 5))
	case 'O':
		return respPkt(wire.UC|wire.SendOnly, p).with(respFill(byte(k), 5))
	case 'f':
		w.op = wire.UC | wire.WriteFirst
		return w
	case 'm':
		return respPkt(wire.UC|wire.WriteMiddle, p).with(respFill(byte(k), respMTU))
	case 'l':
		return respPkt(wire.UC|wire.WriteLast, p).with(respFill(byte(k), respMTU))
	default:
		return respUC(r.write(p, 0x8000, respFill(byte(k), 5)))[0]
	}
}

// What arrives, and of which packets the messages are made that complete. PSNs
// count from one that wraps.
func TestUCSynchronizes(t *testing.T) {
	tests := []struct {
		name, arrives, delivered string
		abandoned                uint64
	}{
		{"in order", "F0 M1 L2 O3 F4 L5", "012 3 45", 0},
		{"begins at another PSN", "O7 F8 L9", "7 89", 0},
		{"begins inside a message", "M0 L1 O2", "2", 0},
		{"FIRST lost", "O0 M2 L3 O4", "0 4", 0},
		{"MIDDLE lost", "F0 M1 L3 O4", "4", 1},
		{"LAST lost", "F0 M1 F3 L4", "34", 1},
		{"LAST lost, ONLY follows", "F0 M1 O3 O4", "3 4", 1},
		{"only the FIRST arrives, twice", "F0 F0 L1", "01", 1},
		{"MIDDLE twice", "F0 M1 M1 L2 O3", "3", 1},
		{"late MIDDLE", "F0 L2 M1 O3", "3", 1},
		{"FIRST in the middle at the expected PSN", "F0 F1 L2", "12", 1},
		{"ONLY in the middle at the expected PSN", "F0 O1 L2", "1", 1},
		{"WRITE goes on as SEND", "f0 M1 L2 O3", "3", 1},
		{"SEND goes on as WRITE", "F0 m1 l2 O3", "3", 1},
		{"WRITE abandoned by a SEND", "f0 F1 L2", "12", 1},
		{"SEND abandoned by a WRITE", "F0 o1 O2", "2", 1},
		{"a large gap", "F0 M1 O9 O4", "9 4", 1},
		{"nothing begins", "M0 M1 L2 m3 l4", "", 0},
		{"MIDDLE at the PSN after one that was dropped", "M0 M1 F2 L3", "23", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newUCRig(t, respAt(0xFFFFFA))
			for i := range 4 {
				r.post(uint64(i), i*4096, 4096)
			}
			for _, w := range strings.Fields(tt.arrives) {
				r.arrive(r.ucPacket(w))
			}
			var want []queue.CQE
			for i, msg := range strings.Fields(tt.delivered) {
				var data []byte
				for j, k := range msg {
					n := respMTU
					if j == len(msg)-1 {
						n = 5
					}
					data = append(data, respFill(byte(k-'0'), n)...)
				}
				r.expectMemory(i*4096, data)
				want = append(want, respRecv(uint64(i), uint32(len(data))))
			}
			r.expectCompletions(want...)
			r.expectCount(AbandonedMessages, tt.abandoned)
			r.quiet()
			r.fail() // every receive completes once
			for i := len(want); i < 4; i++ {
				r.expectCompletionOf(uint64(i))
			}
		})
	}
}

// expectCompletionOf wants that the next completion is a flush of wrid.
func (r *respRig) expectCompletionOf(wrid uint64) {
	r.t.Helper()
	var c queue.CQE
	if n, ok := r.cq.Avail(); n == 0 || !ok {
		r.t.Fatalf("no completion of %d", wrid)
	}
	queue.GetCQE(r.cq.Slot(0), &c)
	r.cq.Release(1)
	if c.WRID != wrid || c.Status != ibv.WCWRFlushErr {
		r.t.Errorf("completion %+v, want %d flushed", c, wrid)
	}
}

// A good ONLY after what is dropped shows that nothing is left of it.
func TestUCDrops(t *testing.T) {
	no := func(f ibv.Access) respOption { return respAccessFlags(respAllAccess &^ f) }
	uc := func(op wire.Opcode, p psn.PSN) respReq { return respPkt(wire.UC|op, p) }
	bad := func(r *respRig, n int) []respReq { // WRITE with a key of nobody
		w := respUC(r.write(1000, 0, respFill(1, n)))
		w[0].ext = nil
		w[0] = w[0].reth(r.at(0), r.mr.RKey()^1, uint32(n))
		return w
	}
	tests := []struct {
		name    string
		opts    []respOption
		pkts    func(*respRig) []respReq
		counter Counter
		more    uint64 // packets dropped because they begin nothing
	}{
		{"WRITE not granted", []respOption{no(ibv.AccessRemoteWrite)},
			func(r *respRig) []respReq { return respUC(r.write(1000, 0, respFill(1, 600))) }, DropAccess, 2},
		{"wrong key", nil, func(r *respRig) []respReq { return bad(r, 600) }, DropAccess, 2},
		{"wrong key, ONLY", nil, func(r *respRig) []respReq { return bad(r, 6) }, DropAccess, 0},
		{"out of range", nil, func(r *respRig) []respReq {
			return respUC(r.write(1000, respSize-100, respFill(1, 600)))
		}, DropAccess, 2},
		{"SEND longer than the buffer", nil, func(*respRig) []respReq {
			return respUC(respSend(1000, respFill(1, 5*respMTU)))
		}, DropBufferSize, 0},
		{"ONLY longer than the MTU", nil, func(*respRig) []respReq {
			return []respReq{uc(wire.SendOnly, 1000).with(respFill(1, respMTU+1))}
		}, DropLength, 0},
		{"FIRST shorter than the MTU", nil, func(*respRig) []respReq {
			return []respReq{uc(wire.SendFirst, 1000).with(respFill(1, respMTU-1)), uc(wire.SendLast, 1001).with([]byte{1})}
		}, DropLength, 1},
		{"empty LAST", nil, func(*respRig) []respReq {
			return []respReq{uc(wire.SendFirst, 1000).with(respFill(1, respMTU)), uc(wire.SendLast, 1001)}
		}, DropLength, 0},
		{"wrong pad", nil, func(*respRig) []respReq {
			return []respReq{uc(wire.SendOnly, 1000).with([]byte{1}).padded(0)}
		}, DropLength, 0},
		{"WRITE of more than 2 GiB", nil, func(r *respRig) []respReq {
			return []respReq{uc(wire.WriteFirst, 1000).reth(r.at(0), r.mr.RKey(), 1<<31+1).with(respFill(1, respMTU))}
		}, DropLength, 0},
		{"WRITE of another length than its RETH", nil, func(r *respRig) []respReq {
			return []respReq{uc(wire.WriteOnly, 1000).reth(r.at(0), r.mr.RKey(), 5).with(respFill(1, 4))}
		}, DropLength, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newUCRig(t, tt.opts...)
			r.post(1, 0x4000, 4*respMTU)
			r.arrive(tt.pkts(r)...)
			r.expectCompletions()
			r.expectCount(tt.counter, 1)
			r.expectCount(DropOutOfOrder, tt.more)
			r.quiet()
			r.arrive(respUC(respSend(1010, []byte("next")))...)
			r.expectCompletions(respRecv(1, 4))
			r.expectMemory(0x4000, []byte("next"))
			r.quiet()
		})
	}
}

// A message that finds no receive work request is lost, also if one is posted
// before its end.
func TestUCNoReceive(t *testing.T) {
	r := newUCRig(t)
	pkts := respUC(respSend(1000, respFill(1, 3*respMTU)))
	r.arrive(pkts[0])
	r.post(1, 0, 1024)
	r.arrive(pkts[1], pkts[2])
	r.expectCompletions()
	r.expectCount(DropNoReceive, 1)
	r.expectCount(DropOutOfOrder, 2)
	r.arrive(respUC(respSend(1003, []byte("x")))...)
	r.expectCompletions(respRecv(1, 1))

	// The data of a WRITE is in place when its immediate finds none.
	w := respUC(r.write(1004, 2048, respFill(1, respMTU+1)))
	w[1].op = wire.UC | wire.WriteLastImm
	r.arrive(w[0], w[1].word(1))
	r.expectCompletions()
	r.expectMemory(2048, respFill(1, respMTU))
	r.expectCount(DropNoReceive, 2)
	r.quiet()
}

// What is wrong with the receive queue is no fault of the peer's.
func TestUCLocalErrors(t *testing.T) {
	tests := []struct {
		name string
		post func(*respRig)
		want ibv.WCStatus
	}{
		{"wrong key", func(r *respRig) { r.postSGE(1, queue.SGE{Addr: r.at(0), Length: 8, LKey: r.mr.LKey() ^ 1}) }, ibv.WCLocProtErr},
		{"impossible entry", func(r *respRig) {
			queue.PutRecv(r.rq.Slot(0), &queue.RecvWQE{WRID: 1, NumSGE: 0xFFFF})
			r.rq.Publish(1)
		}, ibv.WCLocQPOpErr},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newUCRig(t)
			tt.post(r)
			r.post(2, 0, 8)
			r.arrive(respUC(respSend(1000, []byte("x")))...)
			r.expectCompletions(respFailed(1, tt.want), respFailed(2, ibv.WCWRFlushErr))
			r.expectEvents(ibv.EventCommEst, ibv.EventQPFatal)
			r.expectState(ibv.QPStateErr)
			r.expect()
		})
	}
}

// The copy of a receive work request that an abandoned message has left is what
// the next message uses.
func TestUCReadsAReceiveOnce(t *testing.T) {
	r := newUCRig(t)
	r.post(1, 0, 1024)
	r.arrive(r.ucPacket("F0"))
	elem := queue.NewProducer(r.rq.Ring()).Slot(0)
	queue.PutRecv(elem, &queue.RecvWQE{WRID: 99, NumSGE: 0xFFFF, Length: 1})
	r.arrive(r.ucPacket("O8"))
	r.expectCompletions(respRecv(1, 5))
	r.expectMemory(0, respFill(8, 5))
}

// The receive work request that an abandoned message has left is checked anew.
func TestUCMemoryOfALeftReceiveGoesAway(t *testing.T) {
	r := newUCRig(t)
	r.post(1, 0, 1024)
	r.arrive(r.ucPacket("F0"), r.ucPacket("M7"))
	if err := r.env.Mem.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
	r.arrive(r.ucPacket("O8"))
	r.expectCompletions(respFailed(1, ibv.WCLocProtErr))
	r.expectState(ibv.QPStateErr)
}

func TestUCCorruptReceiveQueue(t *testing.T) {
	conformance.Rule(t, "14-10")
	r := newUCRig(t)
	r.post(1, 0, 1024)
	r.arrive(r.ucPacket("F0"), r.ucPacket("M7"))
	r.rq.Publish(1000)
	r.arrive(r.ucPacket("O8"))
	r.expectCompletions(respFailed(1, ibv.WCWRFlushErr))
	r.expectState(ibv.QPStateErr)
	r.expect()
}

// Packets of other services, addresses and partitions have no effect.
func TestOneWayDropsStrangers(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD, ibv.QPTypeGSI} {
		t.Run(typ.String(), func(t *testing.T) {
			r := newRespRig(t, respOn(typ))
			r.post(1, 0, 1024)
			n := uint64(0)
			for _, p := range []respReq{
				respSend(1000, []byte("x"))[0], respUC(respSend(1000, []byte("x")))[0],
				respPkt(wire.UD|wire.SendOnly, 1000).deth(respQKey), respPkt(wire.CNP, 0).extend(make([]byte, 16)),
			} {
				if p.op.Transport() != r.q.service && (p.op != wire.CNP || r.q.datagrams()) {
					r.arrive(p)
					n++
				}
			}
			r.expectCount(DropOpcode, n)
			r.expectCompletions()
			if want := map[bool]uint64{true: 3, false: 2}[r.q.datagrams()]; n != want {
				t.Errorf("%d packets were of another service", n)
			}
		})
	}
	r := newUCRig(t)
	r.post(1, 0, 1024)
	r.arrive(respUC(respSend(1000, []byte("x")))[0].source(ibv.GID{15: 3}))
	r.expectCount(DropPeer, 1)
	r.expectCompletions()
}

// In SQE the receive queue goes on.
func TestUCReceivesInSQE(t *testing.T) {
	r := newUCRig(t)
	r.q.state = ibv.QPStateSQE
	r.post(1, 0, 1024)
	r.arrive(respUC(respSend(1000, []byte("x")))...)
	r.expectCompletions(respRecv(1, 1))
}
