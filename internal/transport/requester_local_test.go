package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// keyRig is a requester with windows of both types, a fast-registered region and
// a region that they may be bound to.
type keyRig struct {
	*reqRig
	src          *memory.Region
	w1, w2, fast *memory.Alias
}

func keyEach(t *testing.T, change func(*reqConfig), f func(*keyRig)) {
	t.Helper()
	reqEach(t, change, func(r *reqRig) { f(newKeyRig(r)) })
}

func newKeyRig(r *reqRig) *keyRig {
	k := &keyRig{reqRig: r}
	var err error
	k.src, err = r.env.Mem.Register(reqPD, 0x4000, make([]byte, 4096), ibv.AccessLocalWrite|ibv.AccessRemoteRead|ibv.AccessMWBind)
	must(r, err)
	k.w1, err = r.env.Mem.AllocWindow(reqPD, ibv.MWType1)
	must(r, err)
	k.w2, err = r.env.Mem.AllocWindow(reqPD, ibv.MWType2)
	must(r, err)
	k.fast, err = r.env.Mem.AllocFast(reqPD, 4096)
	must(r, err)
	return k
}

// bind posts the binding of a to 64 bytes at 0x4000, by its key with tag, and
// returns that key.
func (k *keyRig) bind(a *memory.Alias, tag uint32, flags ibv.SendFlags) uint32 {
	key := a.Key()&^0xff | tag
	w := queue.SendWQE{
		Opcode: ibv.WRBindMW, Flags: flags | ibv.SendSignaled,
		BindAddr: 0x4000, BindLength: 64, BindLKey: k.src.LKey(), BindRKey: key, BindAccess: ibv.AccessRemoteRead,
	}
	if a == k.fast {
		w.Opcode, w.BindAccess = ibv.WRRegMR, ibv.AccessLocalWrite
	}
	k.post(w)
	return key
}

func (k *keyRig) inval(key uint32) {
	k.post(queue.SendWQE{Opcode: ibv.WRLocalInv, Flags: ibv.SendSignaled, Imm: key})
}

// works wants the peer to reach the 64 bytes by key, or not.
func (k *keyRig) works(key uint32, want bool) {
	k.Helper()
	if _, ok := k.env.Mem.AccessRemote(key, reqPD, 0x11, 0, 0x4000, 64); ok != want {
		k.Fatalf("key %#x works: %v, want %v", key, ok, want)
	}
}

// tags are two that differ from the first of any alias of these tests.
func (k *keyRig) tags(a *memory.Alias) (uint32, uint32) {
	t := a.Key() & 0xff
	return (t + 1) & 0xff, (t + 2) & 0xff
}

func TestReqBindAndInvalidateAlone(t *testing.T) {
	conformance.Rule(t, "10-23", "10-26")
	keyEach(t, nil, func(k *keyRig) {
		for _, a := range []*memory.Alias{k.w2, k.fast} {
			k.id = 0
			t1, t2 := k.tags(a)
			key := k.bind(a, t1, 0)
			k.works(key, false)
			k.expect()
			k.works(key, true)
			k.done("1 SUCCESS")
			k.inval(key)
			again := k.bind(a, t2, 0)
			k.expect()
			k.works(key, false)
			k.works(again, true)
			k.done("2 SUCCESS", "3 SUCCESS")
			k.inval(again)
			k.expect()
			k.done("4 SUCCESS")
		}
		k.expect()
		k.deadline(0)
		k.send(1) // no PSN was used
		k.expect("SEND_ONLY 0 1B A")
	})
}

func TestReqType1IsBoundAgain(t *testing.T) {
	conformance.Rule(t, "10-17", "10-23")
	keyEach(t, nil, func(k *keyRig) {
		t1, t2 := k.tags(k.w1)
		first, second := k.bind(k.w1, t1, 0), k.bind(k.w1, t2, 0)
		k.expect()
		k.done("1 SUCCESS", "2 SUCCESS")
		k.works(first, false)
		k.works(second, true)
		k.inval(second)
		k.expect()
		k.failed("3 LOC_QP_OP_ERR", 4, 0)
		k.works(second, true)
	})
}

func TestReqLocalCompletionOpcodes(t *testing.T) {
	k := newKeyRig(newReqRig(t, reqDefaults()))
	t1, _ := k.tags(k.w2)
	key := k.bind(k.w2, t1, 0)
	k.inval(key)
	t1, _ = k.tags(k.fast)
	k.bind(k.fast, t1, 0)
	k.expect()
	for i, want := range []ibv.WCOpcode{ibv.WCBindMW, ibv.WCLocalInv, ibv.WCRegMR} {
		var c queue.CQE
		queue.GetCQE(k.cq.Slot(i), &c)
		if c.Opcode != want || c.Status != ibv.WCSuccess {
			t.Errorf("completion %d: %v %v, want %v", i, c.Opcode, c.Status, want)
		}
	}
}

// A binding is executed in its turn, but completes after what was posted before.
func TestReqBindWithoutFenceDoesNotWait(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, _ := k.tags(k.w2)
		k.send(1)
		key := k.bind(k.w2, t1, 0)
		k.send(2)
		k.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 2B A")
		k.works(key, true)
		k.done()
		k.ack(1)
		k.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
		k.expect()
		k.deadline(0)
	})
}

func TestReqFencedBindWaitsForAll(t *testing.T) {
	for _, op := range []ibv.WROpcode{ibv.WRSend, ibv.WRRDMARead} {
		t.Run(op.String(), func(t *testing.T) {
			keyEach(t, nil, func(k *keyRig) {
				t1, _ := k.tags(k.w2)
				k.wr(op, 8)
				key := k.bind(k.w2, t1, ibv.SendFence)
				k.send(2)
				if got := k.poll(); len(got) != 1 {
					t.Fatalf("sent %v", got)
				}
				k.works(key, false)
				if op == ibv.WRRDMARead {
					k.stopped(reqFence)
					k.answer(0, 8, 0, 1)
					k.done("1 SUCCESS 8B")
				} else {
					k.stopped(reqOrder)
					k.ack(0)
					k.done("1 SUCCESS")
				}
				k.expect("SEND_ONLY 1 2B A")
				k.works(key, true)
				k.done("2 SUCCESS")
			})
		})
	}
}

// The key of an earlier request may be needed to send it again: LOCAL_INV waits
// for its acknowledgement.
func TestReqInvalidateWaitsForAll(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, _ := k.tags(k.fast)
		key := k.bind(k.fast, t1, 0)
		k.wr(ibv.WRSend, 8, queue.SGE{Addr: 0x4000, Length: 8, LKey: key})
		k.inval(key)
		k.send(1)
		k.expect("SEND_ONLY 0 8B A")
		k.stopped(reqOrder)
		k.works(key, true)
		k.done("1 SUCCESS")
		k.pass(reqTimeout)
		k.expect("SEND_ONLY 0 8B A")
		k.ack(0)
		k.done("2 SUCCESS")
		k.deadlineNow()
		k.expect("SEND_ONLY 1 1B A")
		k.works(key, false)
		k.done("3 SUCCESS")
	})
}

// deadlineNow wants Poll to be called at once.
func (k *keyRig) deadlineNow() {
	k.Helper()
	if got := k.qp.NextDeadline(); got != k.now {
		k.Fatalf("deadline in %v, want now", got.Sub(k.now))
	}
}

// Going back passes over what was executed: a second execution would fail.
func TestReqRepeatsPacketsNotBindings(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, _ := k.tags(k.w2)
		f1, _ := k.tags(k.fast)
		k.send(1)
		key := k.bind(k.w2, t1, 0)
		k.bind(k.fast, f1, 0)
		k.send(2)
		k.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 2B A")
		for _, lost := range []func(){
			func() { k.nak(0) },
			func() { k.pass(reqTimeout) },
			func() { k.pass(4 * reqTimeout) },
		} {
			lost()
			k.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 2B A")
		}
		k.works(key, true)
		k.done()
		k.ack(0)
		k.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
		k.ack(1)
		k.done("4 SUCCESS")
		k.expect()
		k.deadline(0)
	})
}

// An acknowledgement of what was sent before overtakes the repetition.
func TestReqAckOvertakesRepetitionWithBindings(t *testing.T) {
	keyEach(t, func(c *reqConfig) { c.batch = 1 }, func(k *keyRig) {
		t1, _ := k.tags(k.w2)
		k.send(1)
		k.bind(k.w2, t1, 0)
		k.send(2)
		k.send(3)
		k.expect("SEND_ONLY 0 1B A")
		k.expect("SEND_ONLY 1 2B A")
		k.nak(0)
		k.expect("SEND_ONLY 0 1B A")
		k.ack(1)
		k.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
		k.expect("SEND_ONLY 2 3B A")
		k.ack(2)
		k.done("4 SUCCESS")
	})
}

func TestReqUnsignaledBindings(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, t2 := k.tags(k.w1)
		for _, tag := range []uint32{t1, t2, t1} {
			key := k.w1.Key()&^0xff | tag
			k.post(queue.SendWQE{Opcode: ibv.WRBindMW, BindAddr: 0x4000, BindLength: 64, BindLKey: k.src.LKey(), BindRKey: key})
		}
		k.send(1)
		k.expect("SEND_ONLY 0 1B A")
		k.ack(0)
		k.done("4 SUCCESS")
		if free := k.sq.FreeNow(); free != k.reqConfig.wr {
			t.Errorf("%d places free, want all %d", free, k.reqConfig.wr)
		}
	})
}

func TestReqBindInSQD(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, _ := k.tags(k.w2)
		k.send(1)
		k.expect("SEND_ONLY 0 1B A")
		k.sqd(true)
		key := k.bind(k.w2, t1, 0)
		k.inval(key)
		k.expect()
		k.works(key, false)
		k.ack(0)
		k.done("1 SUCCESS")
		k.drained(1)
		k.qp.state = ibv.QPStateRTS
		k.expect()
		k.done("2 SUCCESS", "3 SUCCESS")
		k.works(key, false)
	})
}

func TestReqFlushedBindingsAreNotExecuted(t *testing.T) {
	keyEach(t, nil, func(k *keyRig) {
		t1, _ := k.tags(k.w2)
		f1, _ := k.tags(k.fast)
		k.send(1)
		done := k.bind(k.w2, t1, 0)
		waits := k.bind(k.fast, f1, ibv.SendFence)
		k.inval(done)
		k.expect("SEND_ONLY 0 1B A")
		k.qp.fail(k.now)
		k.failed("1 WR_FLUSH_ERR", 2, 3)
		k.works(done, true)
		k.works(waits, false)
	})
}

// Windows of UC are bound like those of RC; its messages end when they are sent.
func TestOneWayBindings(t *testing.T) {
	c := reqDefaults()
	c.typ = ibv.QPTypeUC
	k := newKeyRig(newReqRig(t, c))
	t1, t2 := k.tags(k.w2)
	key := k.bind(k.w2, t1, 0)
	k.send(300)
	k.inval(key)
	again := k.bind(k.w2, t2, 0)
	k.expect("SEND_FIRST 0 256B", "SEND_LAST 1 44B")
	k.works(key, true)
	k.done("1 SUCCESS")
	k.expect()
	k.done("2 SUCCESS", "3 SUCCESS", "4 SUCCESS")
	k.works(key, false)
	k.works(again, true)
	k.deadline(0)
}

func TestReqBindErrorOfOneWayLeadsToSQE(t *testing.T) {
	c := reqDefaults()
	c.typ = ibv.QPTypeUC
	k := newKeyRig(newReqRig(t, c))
	k.send(1)
	k.bind(k.w2, k.w2.Key()&0xff, 0) // the key that it has
	k.send(1)
	k.expect("SEND_ONLY 0 1B")
	k.expect()
	k.done("1 SUCCESS", "2 MW_BIND_ERR", "3 WR_FLUSH_ERR")
	k.inState(ibv.QPStateSQE)
}

// A binding makes one object, which others may still look at after the next; an
// invalidation makes nothing.
func TestReqBindingsAllocateOneObject(t *testing.T) {
	k := newKeyRig(newReqRig(t, reqDefaults()))
	tag := k.w2.Key()
	w := queue.SendWQE{
		Opcode: ibv.WRBindMW, Flags: ibv.SendSignaled,
		BindAddr: 0x4000, BindLength: 64, BindLKey: k.src.LKey(), BindAccess: ibv.AccessRemoteRead,
	}
	round := func() {
		tag = tag&^0xff | (tag+1)&0xff
		w.BindRKey = tag
		k.post(w)
		k.inval(tag)
		k.tx.Reset(k.batch)
		k.qp.Poll(k.now, k.tx)
		n, _ := k.cq.Avail()
		k.cq.Release(n)
	}
	if n := testing.AllocsPerRun(200, round); n > 1 {
		t.Errorf("%v allocations", n)
	}
	k.inState(ibv.QPStateRTS)
	if k.w2.Key() != tag {
		t.Error("the rounds did not bind")
	}
}
