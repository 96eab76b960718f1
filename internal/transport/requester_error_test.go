package transport

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Work requests that fail here: nothing of them is sent.
func TestReqBadWorkRequest(t *testing.T) {
	conformance.Rule(t, "10-21", "14-14")
	for _, c := range []struct {
		name string
		want string
		make func(r *reqRig) (queue.SendWQE, []queue.SGE)
	}{
		{"unknown opcode", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: 13}, nil
		}},
		{"opcode out of range", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: 255}, nil
		}},
		{"LOCAL_INV with data", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRLocalInv, NumSGE: 1, Length: 8}, []queue.SGE{r.sge(0, 8)}
		}},
		{"inline BIND_MW", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRBindMW, Flags: ibv.SendInline}, nil
		}},
		{"BIND_MW of no window", "MW_BIND_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRBindMW, BindRKey: 0x500, BindLKey: r.mr.LKey(), BindAddr: r.va(0), BindLength: 8}, nil
		}},
		{"REG_MR of no region", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRRegMR, BindRKey: 0x500, BindLKey: r.mr.LKey(), BindAddr: r.va(0), BindLength: 8}, nil
		}},
		{"more entries than the queue pair has", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 5, Length: 5}, []queue.SGE{r.sge(0, 1), r.sge(0, 1), r.sge(0, 1), r.sge(0, 1), r.sge(0, 1)}
		}},
		{"65535 entries", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 65535}, nil
		}},
		{"length is not the sum", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 1, Length: 5}, []queue.SGE{r.sge(0, 4)}
		}},
		{"longer than 2 GiB", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 2, Length: 1<<31 + 1}, []queue.SGE{r.sge(0, 1<<31), r.sge(0, 1)}
		}},
		{"sum wraps 32 bits", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 2, Length: 0}, []queue.SGE{r.sge(0, 1<<31), r.sge(0, 1<<31)}
		}},
		{"unknown lkey", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			s := r.sge(0, 4)
			s.LKey ^= 1
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 1, Length: 4}, []queue.SGE{s}
		}},
		{"second entry outside its region", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRRDMAWrite, NumSGE: 2, Length: 2004}, []queue.SGE{r.sge(0, 2000), r.sge(reqBytes-3, 4)}
		}},
		{"entry wraps the address space", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			s := r.sge(0, 1<<30)
			s.Addr = 1<<64 - 8
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 1, Length: 1 << 30}, []queue.SGE{s}
		}},
		{"region of another protection domain", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, NumSGE: 1, Length: 8}, []queue.SGE{r.other(reqPD+1, ibv.AccessLocalWrite)}
		}},
		{"READ into read-only memory", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRRDMARead, NumSGE: 1, Length: 8}, []queue.SGE{r.other(reqPD, 0)}
		}},
		{"atomic into read-only memory", "LOC_PROT_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRAtomicFetchAdd, NumSGE: 1, Length: 8}, []queue.SGE{r.other(reqPD, 0)}
		}},
		{"atomic with 7 bytes", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRAtomicCmpAndSwp, NumSGE: 1, Length: 7}, []queue.SGE{r.sge(0, 7)}
		}},
		{"atomic without memory", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRAtomicCmpAndSwp}, nil
		}},
		{"ATOMIC_WRITE of 9 bytes", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRAtomicWrite, NumSGE: 1, Length: 9}, []queue.SGE{r.sge(0, 9)}
		}},
		{"inline ATOMIC_WRITE of 4 bytes", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRAtomicWrite, Flags: ibv.SendInline, Length: 4}, nil
		}},
		{"inline READ", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRRDMARead, Flags: ibv.SendInline, Length: 4}, nil
		}},
		{"more inline data than the queue pair has", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, Flags: ibv.SendInline, Length: 65}, nil
		}},
		{"4 GiB of inline data", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRSend, Flags: ibv.SendInline, Length: 1<<32 - 1}, nil
		}},
		{"FLUSH with local memory", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRFlush, NumSGE: 1, Length: 4, FlushType: 1}, []queue.SGE{r.sge(0, 4)}
		}},
		{"FLUSH of no type", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRFlush}, nil
		}},
		{"FLUSH of more than 2 GiB", "LOC_LEN_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRFlush, FlushType: 1, Length: 1<<31 + 1}, nil
		}},
		{"FLUSH of an unknown level", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRFlush, FlushType: 1, FlushLevel: 256}, nil
		}},
		{"FLUSH of an unknown type", "LOC_QP_OP_ERR", func(r *reqRig) (queue.SendWQE, []queue.SGE) {
			return queue.SendWQE{Opcode: ibv.WRFlush, FlushType: 0x101}, nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				w, sges := c.make(r)
				r.send(1)
				r.post(w, sges...)
				r.send(1)
				// The one before it completes as usual, whatever is wrong behind.
				r.expect("SEND_ONLY 0 1B A")
				r.stopped(reqFailed)
				r.nak(0)
				r.expect("SEND_ONLY 0 1B A")
				r.done()
				r.ack(0)
				r.done("1 SUCCESS", "2 "+c.want, "3 WR_FLUSH_ERR")
				r.inState(ibv.QPStateErr)
			})
		})
	}
}

// other registers 8 bytes more.
func (r *reqRig) other(pd memory.PD, access ibv.Access) queue.SGE {
	b := make([]byte, 8)
	mr, err := r.env.Mem.Register(pd, memory.AddressOf(b), b, access)
	must(r, err)
	return queue.SGE{Addr: mr.Start(), Length: 8, LKey: mr.LKey()}
}

// A work request that is alone and wrong fails at once.
func TestReqBadWorkRequestAlone(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.post(queue.SendWQE{Opcode: 13})
		r.expect()
		r.failed("1 LOC_QP_OP_ERR", 2, 0)
	})
}

// Entries of no bytes are not looked at.
func TestReqEmptyEntriesNeedNoKey(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.wr(ibv.WRSend, 4, queue.SGE{Addr: 1, LKey: 99}, r.sge(0, 4), queue.SGE{})
		r.expect("SEND_ONLY 0 4B A")
	})
}

func TestReqReadsAllowedByNobody(t *testing.T) {
	for _, op := range []ibv.WROpcode{ibv.WRRDMARead, ibv.WRAtomicFetchAdd, ibv.WRAtomicWrite} {
		reqEach(t, func(c *reqConfig) { c.rd = 0 }, func(r *reqRig) {
			r.wr(op, 8)
			r.expect()
			r.failed("1 LOC_QP_OP_ERR", 2, 0)
		})
	}
}

// A type that has no transport service here sends nothing.
func TestReqOtherTransport(t *testing.T) {
	c := reqDefaults()
	c.typ = ibv.QPType(8)
	r := newReqRig(t, c)
	r.send(1)
	r.expect()
	r.done("1 LOC_QP_OP_ERR")
	r.inState(ibv.QPStateSQE)
}

// Memory that is deregistered between the packets of a message.
func TestReqMemoryGoesAway(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch = 2 }, func(r *reqRig) {
		r.send(0)
		r.write(3 * reqMTU)
		r.expect("SEND_ONLY 0 A", "WRITE_FIRST 1 [+0 768] 256B A")
		must(r, r.env.Mem.Deregister(r.mr))
		r.expect()
		r.done()
		r.ack(0)
		r.done("1 SUCCESS", "2 LOC_PROT_ERR")
		r.inState(ibv.QPStateErr)
	})
}

// The driver could not read the payload of a packet: the message fails, in
// order.
func TestReqPayloadFault(t *testing.T) {
	setup := func(r *reqRig) {
		r.send(2 * reqMTU)
		r.write(2 * reqMTU)
		r.send(1)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 256B A", "WRITE_FIRST 2 [+0 512] 256B", "WRITE_LAST 3 256B A", "SEND_ONLY 4 1B A")
	}
	for _, c := range []struct {
		name  string
		fault int
		want  []string // at once
		ack   int
		rest  []string
	}{
		{"oldest message", 1, []string{"1 LOC_PROT_ERR", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR"}, 1, nil},
		{"second message", 3, nil, 1, []string{"1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR"}},
		{"last message", 4, nil, 3, []string{"1 SUCCESS", "2 SUCCESS", "3 LOC_PROT_ERR"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				setup(r)
				r.qp.PayloadFault(r.now, &r.tx.Intents[c.fault])
				r.done(c.want...)
				r.send(1)
				r.expect()
				r.ack(c.ack)
				if c.rest != nil {
					r.done(append(c.rest, "4 WR_FLUSH_ERR")...)
				}
				r.inState(ibv.QPStateErr)
				r.counted(PayloadFault, 1)
			})
		})
	}
	reqEach(t, nil, func(r *reqRig) { // the responder notices first
		setup(r)
		r.qp.PayloadFault(r.now, &r.tx.Intents[2])
		r.nak(0)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 256B A")
		r.nak(2)
		r.done("1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR")
		r.inState(ibv.QPStateErr)
	})
	reqEach(t, nil, func(r *reqRig) { // the requester has gone back meanwhile
		setup(r)
		in := r.tx.Intents[2]
		r.nak(0)
		r.qp.PayloadFault(r.now, &in)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 256B A")
	})
	for _, answer := range []func(*reqRig){
		func(r *reqRig) { r.ack(4) },
		func(r *reqRig) { r.answer(2, 4, 0, 1) },
	} { // a peer answers what it never got
		reqEach(t, nil, func(r *reqRig) {
			setup(r)
			r.qp.PayloadFault(r.now, &r.tx.Intents[2])
			answer(r)
			r.done("1 SUCCESS", "2 LOC_PROT_ERR", "3 WR_FLUSH_ERR")
		})
	}
	reqEach(t, nil, func(r *reqRig) { // of a packet acknowledged since
		setup(r)
		in := r.tx.Intents[0]
		r.ack(4)
		r.qp.PayloadFault(r.now, &in)
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
		r.inState(ibv.QPStateRTS)
	})
}

// In ERR everything that is posted flushes, in order, once.
func TestReqFlush(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		reqThree(r)
		r.post(queue.SendWQE{Opcode: 13})
		r.ack(0)
		r.qp.fail(r.now)
		r.done("1 SUCCESS", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR", "4 WR_FLUSH_ERR")
		r.qp.fail(r.now)
		r.qp.reqFlush(r.now)
		r.done()
		r.send(1)
		r.read(1)
		r.expect()
		r.done("5 WR_FLUSH_ERR", "6 WR_FLUSH_ERR")
		if n := r.sq.FreeNow(); n != r.places() {
			r.Errorf("%d places free after the flush", n)
		}
		r.ack(3)
		r.done()
		r.deadline(0)
	})
}

func (r *reqRig) places() int { return r.sq.Ring().Entries() }

func TestReqReset(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		reqThree(r)
		r.fadd()
		r.qp.state = ibv.QPStateReset
		r.qp.reqReset()
		r.done()
		if n := r.sq.FreeNow(); n != r.places() {
			r.Errorf("%d places free after RESET", n)
		}
		r.deadline(0)
		r.qp.state = ibv.QPStateRTS
		r.qp.reqStart(r.now)
		r.send(1)
		r.expect("SEND_ONLY 0 1B A")
		r.ack(0)
		r.done("5 SUCCESS")
	})
}

// A program that corrupts the shared ring loses its queue pair, nothing else.
func TestReqCorruptRing(t *testing.T) {
	conformance.Rule(t, "14-10")
	for _, c := range []struct {
		name string
		move int // of the producer index, from 3
	}{{"far ahead", 1000}, {"one too many", 62}, {"backwards", -2}, {"behind the start", -4}} {
		t.Run(c.name, func(t *testing.T) {
			r := newReqRig(t, reqDefaults())
			reqThree(r)
			r.sq.Publish(c.move)
			r.expect()
			r.done("1 WR_FLUSH_ERR", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR")
			r.inState(ibv.QPStateErr)
			want := []Event{{Type: ibv.EventQPFatal, QP: r.qp}}
			if len(r.env.Events) != 1 || r.env.Events[0] != want[0] {
				t.Errorf("events: %v", r.env.Events)
			}
			r.expect()
			r.done()
		})
	}
}

// A completion queue without room ends the queue pair in the middle of an ACK.
func TestReqCompletionQueueOverflows(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.cqe = 2 }, func(r *reqRig) {
		for range 5 {
			r.send(1)
		}
		r.poll()
		r.ack(3)
		r.done("1 SUCCESS", "2 SUCCESS")
		r.inState(ibv.QPStateErr)
		var types []ibv.EventType
		for _, e := range r.env.Events {
			types = append(types, e.Type)
		}
		if d := cmp.Diff([]ibv.EventType{ibv.EventCQErr, ibv.EventQPFatal}, types); d != "" {
			r.Errorf("events (-want +got):\n%s", d)
		}
		if n := r.sq.FreeNow(); n != r.places() {
			r.Errorf("%d places free", n)
		}
	})
}

func TestReqWithoutSendQueue(t *testing.T) {
	env := NewEnv(memory.NewTable(1, func() uint32 { return 1 }))
	q := NewQP(env, Config{QPN: 1, Type: ibv.QPTypeRC})
	q.state, q.mtu = ibv.QPStateRTS, 256
	q.reqStart(1)
	tx := NewBatch(4)
	if q.reqPoll(1, tx) || tx.Room() != 4 {
		t.Error("something was sent")
	}
	q.reqFlush(1)
	q.reqReset()
	var p wire.Packet
	p.Info, p.Opcode = wire.Acknowledge.Info(), wire.Acknowledge
	p.BTH = bytes.Repeat([]byte{0}, p.Info.HeaderLen)
	q.reqHandle(1, &p)
}
