package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Every length around the MTU lands in entries of every split.
func TestReqReadScatters(t *testing.T) {
	for _, n := range []int{1, 7, reqMTU - 1, reqMTU, reqMTU + 1, 2*reqMTU + 3, 5 * reqMTU} {
		for _, cut := range []int{0, 1, n / 3, n / 2, n - 1, n} {
			reqEach(t, nil, func(r *reqRig) {
				r.wr(ibv.WRRDMARead, n, r.sge(1000, cut), r.sge(0, 0), r.sge(9000, n-cut))
				before := bytes.Clone(r.local)
				r.poll()
				r.answer(0, n, 0, (n+reqMTU-1)/reqMTU)
				r.done(fmt.Sprintf("1 SUCCESS %dB", n))
				copy(before[1000:], reqRemote(n)[:cut])
				copy(before[9000:], reqRemote(n)[cut:])
				if !bytes.Equal(r.local, before) {
					r.Errorf("%d bytes cut at %d: memory differs", n, cut)
				}
			})
		}
	}
}

func TestReqReadOfNothing(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(0)
		r.expect("READ_REQUEST 0 [+0 0] A")
		r.answer(0, 0, 0, 1)
		r.done("1 SUCCESS")
	})
}

// A READ response acknowledges every SEND and WRITE before it.
func TestReqReadResponseAcknowledges(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.write(2 * reqMTU)
		r.read(4)
		r.poll()
		r.answer(3, 4, 0, 1)
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS 4B")
	})
}

// A READ of five packets, PSNs 0 to 4, of which `arrives` come first.
func TestReqReadGap(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrives []int
		again   string // what is then asked for
	}{
		{"first lost", []int{1}, "READ_REQUEST 0 [+0 1280] A"},
		{"middle lost", []int{0, 1, 3}, "READ_REQUEST 2 [+512 768] A"},
		{"last but one lost", []int{0, 1, 2, 4}, "READ_REQUEST 3 [+768 512] A"},
		{"many behind the gap", []int{0, 2, 3, 4}, "READ_REQUEST 1 [+256 1024] A"},
		{"all in order", []int{0, 1}, ""},
		{"repeated", []int{0, 0, 1, 0, 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				n := 5 * reqMTU
				r.read(n)
				r.poll()
				for _, k := range c.arrives {
					r.resp(reqRespOp(k, 5), k, reqRemote(n)[k*reqMTU:(k+1)*reqMTU])
				}
				if c.again == "" {
					r.expect()
					return
				}
				r.expect(c.again)
				r.counted(CompleterRetryErr, 1)
				// The rest of the first sending causes no further repetition.
				r.resp(wire.ReadRespLast, 4, reqRemote(n)[4*reqMTU:])
				r.expect()
				first := r.qp.req.una.Sub(r.start)
				r.answer(0, n, first, 5)
				r.done("1 SUCCESS 1280B")
				if !bytes.Equal(r.local[:n], reqRemote(n)) {
					r.Error("memory differs")
				}
			})
		})
	}
}

// Two responses change places: the repetition that the gap asks for goes on from
// where the late one leaves it.
func TestReqReadResponsesSwapped(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		const n = 5 * reqMTU
		r.read(n)
		r.poll()
		for _, k := range []int{0, 2, 1} {
			r.resp(reqRespOp(k, 5), k, reqRemote(n)[k*reqMTU:(k+1)*reqMTU])
		}
		r.expect("READ_REQUEST 2 [+512 768] A")
		r.serve(n, 2, 5)
		r.done("1 SUCCESS 1280B")
		if !bytes.Equal(r.local[:n], reqRemote(n)) {
			r.Error("memory differs")
		}
	})
}

// A repeated READ may be answered from FIRST or ONLY on, or as rxe does it, from
// MIDDLE or LAST on.
func TestReqReadAfterRepetition(t *testing.T) {
	for _, c := range []struct {
		name string
		from int
		ops  []wire.Opcode
	}{
		{"FIRST", 1, []wire.Opcode{wire.ReadRespFirst, wire.ReadRespLast}},
		{"MIDDLE", 1, []wire.Opcode{wire.ReadRespMid, wire.ReadRespLast}},
		{"ONLY", 2, []wire.Opcode{wire.ReadRespOnly}},
		{"LAST", 2, []wire.Opcode{wire.ReadRespLast}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				const n = 3 * reqMTU
				r.read(n)
				r.poll()
				for k := range c.from {
					r.resp(reqRespOp(k, 3), k, reqRemote(n)[k*reqMTU:(k+1)*reqMTU])
				}
				r.pass(4096 << 14)
				r.expect(fmt.Sprintf("READ_REQUEST %d [+%d %d] A", c.from, c.from*reqMTU, n-c.from*reqMTU))
				for i, op := range c.ops {
					k := c.from + i
					r.resp(op, k, reqRemote(n)[k*reqMTU:(k+1)*reqMTU])
				}
				r.done("1 SUCCESS 768B")
				r.inState(ibv.QPStateRTS)
			})
		})
	}
}

// Several READs are outstanding and the first response of the second arrives
// before the last of the first.
func TestReqReadGapAcrossReads(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(2 * reqMTU)
		r.wr(ibv.WRRDMARead, 4, r.sge(5000, 4))
		r.expect("READ_REQUEST 0 [+0 512] A", "READ_REQUEST 2 [+0 4] A")
		r.answer(0, 2*reqMTU, 0, 1)
		r.answer(2, 4, 0, 1)
		r.done()
		r.expect("READ_REQUEST 1 [+256 256] A", "READ_REQUEST 2 [+0 4] A")
		r.answer(0, 2*reqMTU, 1, 2)
		r.answer(2, 4, 0, 1)
		r.done("1 SUCCESS 512B", "2 SUCCESS 4B")
	})
}

// The repetition of a READ that went as several requests stays inside them: a
// responder serves no range that spans two.
func TestReqReadChunksKeepTheirBounds(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rd, c.window = 2, 8 }, func(r *reqRig) {
		const n = 8 * reqMTU
		r.read(n)
		r.expect("READ_REQUEST 0 [+0 1024] A", "READ_REQUEST 4 [+1024 1024] A")
		r.serve(n, 0, 2) // FIRST, LAST would be wrong: see below
		r.inState(ibv.QPStateErr)
	})
	reqEach(t, func(c *reqConfig) { c.rd, c.window = 2, 8 }, func(r *reqRig) {
		const n = 8 * reqMTU
		r.read(n)
		r.expect("READ_REQUEST 0 [+0 1024] A", "READ_REQUEST 4 [+1024 1024] A")
		r.resp(wire.ReadRespFirst, 0, reqRemote(n)[:reqMTU])
		r.pass(4096 << 14)
		r.expect("READ_REQUEST 1 [+256 768] A", "READ_REQUEST 4 [+1024 1024] A")
		r.serve(n, 1, 4)
		r.serve(n, 4, 8)
		r.done("1 SUCCESS 2048B")
		if !bytes.Equal(r.local[:n], reqRemote(n)) {
			r.Error("memory differs")
		}
	})
}

// Wrong positions and lengths of a response to a READ of 2 1/2 packets.
func TestReqReadWrongResponse(t *testing.T) {
	const n = 2*reqMTU + 128
	for _, c := range []struct {
		name string
		good int // responses accepted before
		op   wire.Opcode
		n    int
		want string
	}{
		{"FIRST too short", 0, wire.ReadRespFirst, reqMTU - 1, "LOC_LEN_ERR"},
		{"FIRST too long", 0, wire.ReadRespFirst, reqMTU + 1, "LOC_LEN_ERR"},
		{"FIRST empty", 0, wire.ReadRespFirst, 0, "LOC_LEN_ERR"},
		{"ONLY for several packets", 0, wire.ReadRespOnly, reqMTU, "LOC_LEN_ERR"},
		{"ONLY with all of it", 0, wire.ReadRespOnly, n, "LOC_LEN_ERR"},
		{"begins with MIDDLE", 0, wire.ReadRespMid, reqMTU, "BAD_RESP_ERR"},
		{"begins with LAST", 0, wire.ReadRespLast, 128, "BAD_RESP_ERR"},
		{"FIRST again", 1, wire.ReadRespFirst, reqMTU, "BAD_RESP_ERR"},
		{"ONLY in the middle", 1, wire.ReadRespOnly, reqMTU, "BAD_RESP_ERR"},
		{"LAST too early", 1, wire.ReadRespLast, 128, "LOC_LEN_ERR"},
		{"MIDDLE too short", 1, wire.ReadRespMid, 128, "LOC_LEN_ERR"},
		{"MIDDLE at the end", 2, wire.ReadRespMid, reqMTU, "LOC_LEN_ERR"},
		{"LAST too long", 2, wire.ReadRespLast, 129, "LOC_LEN_ERR"},
		{"LAST too short", 2, wire.ReadRespLast, 127, "LOC_LEN_ERR"},
		{"LAST empty", 2, wire.ReadRespLast, 0, "LOC_LEN_ERR"},
		{"ATOMIC_ACKNOWLEDGE", 0, wire.AtomicAck, 0, "BAD_RESP_ERR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				r.read(n)
				r.send(1)
				r.poll()
				r.answer(0, n, 0, c.good)
				before := bytes.Clone(r.local)
				r.resp(c.op, c.good, make([]byte, c.n))
				r.failed("1 "+c.want, 2, 1)
				r.counted(DropResponse, 1)
				if !bytes.Equal(r.local, before) {
					r.Error("memory was written")
				}
			})
		})
	}
}

// A READ response whose AETH is no ACK is wrong; with a reserved syndrome it is
// dropped.
func TestReqReadResponseSyndrome(t *testing.T) {
	for syn, want := range map[wire.Syndrome]string{0x60: "1 BAD_RESP_ERR", 0x25: "1 BAD_RESP_ERR", 0x45: "", 0x80: "", 0x00: "1 SUCCESS 4B"} {
		r := newReqRig(t, reqDefaults())
		r.read(4)
		r.poll()
		r.packet(wire.ReadRespOnly, 0, make([]byte, 4), withSyndrome(syn))
		if want == "" {
			r.done()
			r.counted(DropSyndrome, 1)
		} else {
			r.done(want)
		}
	}
}

// Responses that the oldest work request does not ask for.
func TestReqWrongKindOfResponse(t *testing.T) {
	for _, c := range []struct {
		op   ibv.WROpcode
		resp wire.Opcode
	}{
		{ibv.WRSend, wire.ReadRespOnly},
		{ibv.WRSend, wire.AtomicAck},
		{ibv.WRRDMAWrite, wire.ReadRespFirst},
		{ibv.WRRDMARead, wire.AtomicAck},
		{ibv.WRAtomicFetchAdd, wire.ReadRespOnly},
		{ibv.WRAtomicWrite, wire.AtomicAck},
		{ibv.WRAtomicWrite, wire.ReadRespFirst},
	} {
		t.Run(fmt.Sprintf("%v answered by %v", c.op, c.resp), func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				r.send(1)
				r.wr(c.op, 8)
				r.poll()
				r.resp(c.resp, 1, make([]byte, 8*min(1, int(c.resp&1^1))))
				r.done("1 SUCCESS", "2 BAD_RESP_ERR")
				r.inState(ibv.QPStateErr)
			})
		})
	}
}

func TestReqStaleReadResponseIsDropped(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(4)
		r.read(4)
		r.poll()
		r.answer(0, 4, 0, 1)
		r.answer(0, 4, 0, 1)
		r.atomicAck(0, 1)
		r.answer(2, 4, 0, 1)
		r.done("1 SUCCESS 4B")
		r.counted(DropStaleResponse, 3)
		r.inState(ibv.QPStateRTS)
	})
}

// Memory that is deregistered while a READ is under way.
func TestReqReadIntoDeregisteredMemory(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(2 * reqMTU)
		r.poll()
		r.answer(0, 2*reqMTU, 0, 1)
		must(r, r.env.Mem.Deregister(r.mr))
		r.resp(wire.ReadRespLast, 1, make([]byte, reqMTU))
		r.failed("1 LOC_PROT_ERR", 2, 0)
	})
	reqEach(t, nil, func(r *reqRig) {
		r.fadd()
		r.poll()
		must(r, r.env.Mem.Deregister(r.mr))
		r.atomicAck(0, 1)
		r.failed("1 LOC_PROT_ERR", 2, 0)
	})
}

// That a PSN was once asked for twice is forgotten before PSNs come round.
func TestReqRepetitionIsForgotten(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(2 * reqMTU)
		r.poll()
		r.pass(reqTimeout)
		r.poll()
		r.answer(0, 2*reqMTU, 0, 2)
		q := &r.qp.req
		at := 2
		for range 3 {
			// Some million packets later, as far as PSNs can tell.
			at += 1 << 22
			q.una, q.nxt, q.max, q.assign = r.start.Add(at), r.start.Add(at), r.start.Add(at), r.start.Add(at)
			r.send(1)
			r.poll()
			r.ack(at)
			at++
		}
		r.read(2 * reqMTU)
		r.poll()
		r.resp(wire.ReadRespMid, at, make([]byte, reqMTU))
		r.done("1 SUCCESS 512B", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 BAD_RESP_ERR")
	})
}

func TestReqAtomicResult(t *testing.T) {
	for _, op := range []ibv.WROpcode{ibv.WRAtomicCmpAndSwp, ibv.WRAtomicFetchAdd} {
		reqEach(t, nil, func(r *reqRig) {
			before := bytes.Clone(r.local)
			r.wr(op, 8, r.sge(403, 3), r.sge(800, 5))
			r.wr(op, 16, r.sge(1600, 16)) // more than a result needs
			r.poll()
			r.atomicAck(0, 0x1122334455667788)
			r.atomicAck(1, 0xFFFFFFFFFFFFFFFE)
			r.done("1 SUCCESS 8B", "2 SUCCESS 8B")
			one := nativeWord(0x1122334455667788)
			copy(before[403:], one[:3])
			copy(before[800:], one[3:])
			copy(before[1600:], nativeWord(0xFFFFFFFFFFFFFFFE))
			if !bytes.Equal(r.local, before) {
				r.Error("memory differs")
			}
		})
	}
}

// An atomic's answer must have its PSN: an earlier one is stale, a later one
// shows a loss.
func TestReqAtomicPSN(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.fadd()
		r.fadd()
		r.fadd()
		r.expect("FETCH_ADD 0 A", "FETCH_ADD 1 A", "FETCH_ADD 2 A")
		r.atomicAck(0, 1)
		r.atomicAck(0, 2)
		r.done("1 SUCCESS 8B")
		if !bytes.Equal(r.local[:8], nativeWord(1)) {
			r.Error("the stale result was stored")
		}
		r.atomicAck(2, 3)
		r.done()
		r.expect("FETCH_ADD 1 A", "FETCH_ADD 2 A")
		r.atomicAck(1, 2)
		r.atomicAck(2, 3)
		r.done("2 SUCCESS 8B", "3 SUCCESS 8B")
	})
}

func TestReqFlushAndAtomicWriteAnswers(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		flush := queue.SendWQE{Opcode: ibv.WRFlush, Flags: ibv.SendSignaled, RemoteAddr: reqVA, Length: 8, FlushType: 1}
		r.write(8)
		r.post(flush)
		r.wr(ibv.WRAtomicWrite, 8)
		r.expect("WRITE_ONLY 0 [+0 8] 8B A", "FLUSH 1 [+0 8] A", "ATOMIC_WRITE 2 [+0 8] 8B A")
		r.ack(2) // is not their answer
		r.done("1 SUCCESS")
		r.expect("FLUSH 1 [+0 8] A", "ATOMIC_WRITE 2 [+0 8] 8B A")
		r.answer(1, 0, 0, 1)
		r.answer(2, 0, 0, 1)
		r.done("2 SUCCESS", "3 SUCCESS")
		r.post(flush)
		r.expect("FLUSH 3 [+0 8] A")
		r.resp(wire.ReadRespOnly, 3, []byte{1})
		r.done("4 LOC_LEN_ERR")
	})
}
