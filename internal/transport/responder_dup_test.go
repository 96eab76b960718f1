package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Duplicates of SEND and WRITE are always acknowledged, with the newest
// executed packet that is not of a READ, asked for or not.
func TestResponderDuplicateSend(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 16)
	r.post(2, 16, 16)
	send := respSend(1000, []byte{1})[0]
	r.arrive(send)
	r.expect(respAck(1000, 1))
	r.completions()

	send.ask = false
	send.data[0] = 2
	r.arrive(send)
	r.expect(respAck(1000, 1))
	r.expectCompletions()
	r.expectMemory(0, []byte{1})
	r.expectMemory(16, []byte{0})
	r.expectCount(DuplicateRequest, 1)
}

func TestResponderDuplicateAckNamesTheNewest(t *testing.T) {
	r := newRespRig(t)
	old := r.write(1000, 0, []byte{1})
	r.arrive(old...)
	r.arrive(r.write(1001, 0, []byte{2})...)
	r.expect(respAck(1001, 2))
	r.arrive(old...)
	r.expect(respAck(1001, 2))
	r.expectMemory(0, []byte{2})

	// A READ that follows does not move it: its responses may be lost.
	r.arrive(r.read(1002, 0, 1))
	r.expect(respData(wire.ReadRespOnly, 1002, 3, []byte{2}))
	r.arrive(old...)
	r.expect(respAck(1001, 3))

	// An atomic does.
	r.arrive(respPkt(wire.FetchAdd, 1003).atomic(r.at(64), r.mr.RKey(), 1, 0))
	r.answers()
	r.arrive(old...)
	r.expect(respAck(1003, 4))
}

// A duplicate is not checked at all.
func TestResponderDuplicateIsNotChecked(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.write(1000, 0, []byte{1})...)
	r.answers()
	r.arrive(
		respPkt(wire.WriteOnly, 1000).reth(1, 2, 3).with(make([]byte, 100)),
		respPkt(wire.SendMiddle, 1000),
		respPkt(wire.SendOnly, 999),
	)
	r.expect(respAck(1000, 1))
	r.expectState(ibv.QPStateRTR)
}

// A duplicate inside a message leaves the message alone.
func TestResponderDuplicateInsideAMessage(t *testing.T) {
	r := newRespRig(t)
	r.post(1, 0, 1024)
	data := respFill(1, 3*respMTU)
	pkts := respSend(1000, data)
	r.arrive(pkts[0], pkts[1], pkts[0], pkts[1], pkts[2])
	r.expect(respAck(1002, 1))
	r.expectMemory(0, data)
	r.expectCompletions(respRecv(1, 3*respMTU))
}

func TestResponderDuplicateRead(t *testing.T) {
	const size = 4*respMTU + 10
	tests := []struct {
		name  string
		from  int // packets into the READ
		bytes int // -1: to the end
		key   uint32
		shift int // bytes that the address is off
		found bool
	}{
		{"the whole", 0, -1, 0, 0, true},
		{"suffix", 1, -1, 0, 0, true},
		{"last packet", 4, -1, 0, 0, true},
		{"part of the middle", 1, 2 * respMTU, 0, 0, true},
		{"nothing of it", 2, 0, 0, 0, true},
		{"PSN after it", 5, 1, 0, 0, false},
		{"another key", 0, -1, 1, 0, false},
		{"address off by one", 1, respMTU, 0, 1, false},
		{"address before it", 0, respMTU, 0, -1, false},
		{"past the end", 1, size - respMTU + 1, 0, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.arrive(r.read(1000, 50, size))
			r.answers()
			r.arrive(r.write(1005, 5000, []byte{1})...)
			r.answers()
			data := respFill(1, size) // what is there now, not what was there
			copy(r.mem[50:], data)

			off, n := tt.from*respMTU, tt.bytes
			if n < 0 {
				n = size - off
			}
			p := respStart.Add(tt.from)
			r.arrive(respPkt(wire.ReadRequest, p).reth(r.at(50+off+tt.shift), r.mr.RKey()+tt.key, uint32(n)))
			if !tt.found {
				r.expect()
				r.expectCount(DropDuplicate, 1)
				return
			}
			r.expect(r.responses(p, 2, data[off:off+n])...)
			r.expectCount(DuplicateRead, 1)
			r.arrive(r.write(1006, 5000, []byte{1})...) // ePSN has not moved
			r.expect(respAck(1006, 3))
		})
	}
}

// The peer goes back in the middle of a READ: what was under way starts over,
// later READs follow in order, none is sent twice for one request.
func TestResponderDuplicateReadWhileAnswering(t *testing.T) {
	r := newRespRig(t)
	data := respFill(1, 4*respMTU)
	copy(r.mem, data)
	r.arrive(r.read(1000, 0, 2*respMTU), r.read(1002, 0, 4*respMTU))
	r.tx.Reset(4) // both of the first, two of the second
	r.q.Poll(r.now, r.tx)
	r.arrive(r.read(1001, respMTU, respMTU))
	want := r.responses(1001, 2, data[respMTU:2*respMTU])
	r.expect(append(want, r.responses(1002, 2, data)...)...)
	r.expect()
}

func TestResponderDuplicateReadsOfABurst(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 300), r.read(1002, 0, 300))
	r.answers()
	for range 3 {
		r.arrive(r.read(1000, 0, 300), r.read(1002, 0, 300))
	}
	want := r.responses(1000, 2, make([]byte, 300))
	r.expect(append(want, r.responses(1002, 2, make([]byte, 300))...)...)
}

// The key is looked up again; a duplicate gets no NAK.
func TestResponderDuplicateReadOfAGoneRegion(t *testing.T) {
	r := newRespRig(t)
	r.arrive(r.read(1000, 0, 300))
	r.answers()
	if err := r.env.Mem.Deregister(r.mr); err != nil {
		t.Fatal(err)
	}
	r.arrive(r.read(1000, 0, 300))
	r.expect()
	r.expectState(ibv.QPStateRTR)
	r.arrive(respPkt(wire.WriteOnly, 1002).reth(0, 0, 0).asks())
	r.expect(respAck(1002, 2))
}

func TestResponderDuplicateAtomics(t *testing.T) {
	for _, op := range []wire.Opcode{wire.CompareSwap, wire.FetchAdd} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRespRig(t)
			r.setWord(0, 5)
			req := respPkt(op, 1000).atomic(r.at(0), r.mr.RKey(), 6, 5)
			r.arrive(req)
			r.expect(respAtomicAnswer(0, 1, 5))
			after := r.mem[0]
			r.setWord(0, 77)
			r.arrive(req, req)
			r.expect(respAtomicAnswer(0, 1, 5))
			r.expectWord(0, 77)
			r.expectCount(DuplicateAtomic, 2)
			if after == 5 {
				t.Error("the first request changed nothing")
			}
		})
	}
}

func TestResponderDuplicatesWithoutASavedResult(t *testing.T) {
	tests := []struct {
		name string
		req  func(r *respRig) respReq
	}{
		{"atomic of another kind", func(r *respRig) respReq {
			return respPkt(wire.CompareSwap, 1000).atomic(r.at(0), r.mr.RKey(), 1, 1)
		}},
		{"READ of an atomic's PSN", func(r *respRig) respReq { return r.read(1000, 0, 8) }},
		{"atomic inside a READ", func(r *respRig) respReq {
			return respPkt(wire.FetchAdd, 1002).atomic(r.at(0), r.mr.RKey(), 1, 0)
		}},
		{"FLUSH never seen", func(r *respRig) respReq {
			return respPkt(wire.Flush, 1000).word(1).reth(0, r.mr.RKey(), 0)
		}},
		{"ATOMIC WRITE never seen", func(r *respRig) respReq {
			return respPkt(wire.AtomicWrite, 900).reth(r.at(0), r.mr.RKey(), 8).with(make([]byte, 8))
		}},
		{"READ before the connection", func(r *respRig) respReq { return r.read(999, 0, 8) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			r.arrive(respPkt(wire.FetchAdd, 1000).atomic(r.at(0), r.mr.RKey(), 1, 0), r.read(1001, 0, 3*respMTU))
			r.answers()
			r.arrive(tt.req(r))
			r.expect()
			r.expectWord(0, 1)
			r.expectCount(DropDuplicate, 1)
			r.expectState(ibv.QPStateRTR)
		})
	}
}

func TestResponderDuplicateFlushAndAtomicWrite(t *testing.T) {
	r := newRespRig(t)
	aw := respPkt(wire.AtomicWrite, 1000).reth(r.at(0), r.mr.RKey(), 8).with(respFill(1, 8))
	flush := respPkt(wire.Flush, 1001).word(respFETH(wire.PlacementGlobal, wire.SelectRegion)).reth(0, r.mr.RKey(), 0)
	r.arrive(aw, flush)
	want := []respAnswer{respData(wire.ReadRespOnly, 1000, 2, nil), respData(wire.ReadRespOnly, 1001, 2, nil)}
	r.expect(want...)
	r.setWord(0, 1)
	r.arrive(aw, flush)
	r.expect(want...)
	r.expectWord(0, 1)
}

// Old requests that the network repeats take no place of the peer's new ones.
func TestResponderStaleDuplicatesTakeNoCredit(t *testing.T) {
	r := newRespRig(t, respDest(2))
	for i := range 4 {
		r.arrive(r.read(respStart.Add(i), 0, 1))
		r.answers()
	}
	for i := range 4 {
		r.arrive(r.read(respStart.Add(i), 0, 1))
	}
	r.arrive(r.read(1004, 0, 1), r.read(1005, 0, 1))
	r.expectState(ibv.QPStateRTR)
	got := r.answers()
	if n := len(got); n != 4 || got[3].PSN != 1005 || got[2].PSN != 1004 || got[0].PSN != 1002 {
		t.Errorf("answers %+v, want those of PSN 1002 to 1005", got)
	}
}

// As many results as the peer may have outstanding stay known.
func TestResponderRemembersEnoughResults(t *testing.T) {
	r := newRespRig(t, respDest(4))
	add := func(i int) respReq {
		return respPkt(wire.FetchAdd, respStart.Add(i)).atomic(r.at(0), r.mr.RKey(), 1, 0)
	}
	for i := range 20 {
		r.arrive(add(i))
		r.answers()
	}
	for i := 16; i < 20; i++ {
		r.arrive(add(i))
		r.expect(respAtomicAnswer(uint32(i), 20, uint64(i)))
	}
	r.arrive(add(0)) // long forgotten
	r.expect()
	r.expectWord(0, 20)
}
