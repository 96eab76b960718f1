package main

import (
	"fmt"
	"math/bits"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Lengths around the pad, the path MTUs and several packets.
var sizes = []int{0, 1, 2, 3, 4, 63, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1 << 20}

const immediate = 0xa1b2c3d4

// guard is how many bytes on each side of a target must stay as they were.
const guard = 64

// operations are the rows that must succeed, each with all its sizes on one
// queue pair.
var operations = []struct {
	name string
	run  func(t *trial)
}{
	{"SEND", each(send(verbs.OpSend))},
	{"SEND_WITH_IMM", each(send(verbs.OpSendWithImm))},
	{"RDMA_WRITE", each(write(verbs.OpRDMAWrite))},
	{"RDMA_WRITE_WITH_IMM", each(write(verbs.OpRDMAWriteWithImm))},
	{"RDMA_READ", each(read)},
	{"ATOMIC_CMP_AND_SWP", compareSwap},
	{"ATOMIC_FETCH_AND_ADD", fetchAdd},
	{"ATOMIC_WRITE", atomicWrite},
	{"FLUSH", flush},
	{"MIXED", mixed},
}

// each runs one operation with each size.
func each(f func(t *trial, n int, seed string)) func(*trial) {
	return func(t *trial) {
		for _, n := range sizes {
			f(t, n, fmt.Sprintf("%s %d", t.req.name(), n))
			if t.err != nil {
				t.err = fmt.Errorf("%d bytes: %w", n, t.err)
				return
			}
		}
	}
}

// clear fills the target and its guards and returns what they hold.
func (t *trial) clear(s side, n int) []byte {
	const seed = "before"
	t.fill(s, t.to-guard, n+2*guard, seed)
	return data(seed, n+2*guard)
}

// placed demands the data of seed between untouched guards.
func (t *trial) placed(s side, before []byte, seed string) {
	n := len(before) - 2*guard
	copy(before[guard:], data(seed, n))
	t.same(s, t.to-guard, before)
}

func send(op verbs.Opcode) func(*trial, int, string) {
	return func(t *trial, n int, seed string) {
		t.fill(t.req, t.from, n, seed)
		before := t.clear(t.resp, n)
		r := t.recv(n)
		id := t.post(request{Op: op, Off: t.from, N: n, Imm: immediate})
		t.completesAs(t.req, id, verbs.WCSend)
		flags := verbs.WCFlags(0)
		if op == verbs.OpSendWithImm {
			flags = verbs.WCWithImm
		}
		t.receives(r, verbs.WCRecv, n, flags, immediate)
		t.placed(t.resp, before, seed)
	}
}

func write(op verbs.Opcode) func(*trial, int, string) {
	return func(t *trial, n int, seed string) {
		t.fill(t.req, t.from, n, seed)
		before := t.clear(t.resp, n)
		var r uint64
		if op == verbs.OpRDMAWriteWithImm {
			r = t.recv(0)
		}
		id := t.post(request{Op: op, Off: t.from, N: n, Addr: uint64(t.to), Imm: immediate})
		t.completesAs(t.req, id, verbs.WCRDMAWrite)
		if op == verbs.OpRDMAWriteWithImm {
			t.receives(r, verbs.WCRecvRDMAWithImm, n, verbs.WCWithImm, immediate)
		}
		t.placed(t.resp, before, seed)
	}
}

func read(t *trial, n int, seed string) {
	t.fill(t.resp, t.from, n, seed)
	before := t.clear(t.req, n)
	id := t.post(request{Op: verbs.OpRDMARead, Off: t.to, N: n, Addr: uint64(t.from)})
	t.completesAs(t.req, id, verbs.WCRDMARead)
	t.placed(t.req, before, seed)
}

func compareSwap(t *trial) {
	const old, swapped = 0x1122334455667788, 0xfedcba9876543210
	t.setWord(t.resp, old)
	for _, c := range []struct{ cmp, swap, want, then uint64 }{
		{old, swapped, old, swapped},
		{old, 1, swapped, swapped},
		{swapped, 0, swapped, 0},
	} {
		id := t.post(request{Op: verbs.OpAtomicCmpAndSwp, Off: target, N: 8, Addr: word, Cmp: c.cmp, Swap: c.swap})
		t.completesAs(t.req, id, verbs.WCCompSwap)
		t.sameWord(t.req, target, c.want)
		t.sameWord(t.resp, word, c.then)
	}
}

func fetchAdd(t *trial) {
	v := uint64(0xfffffffffffffffe)
	t.setWord(t.resp, v)
	for _, add := range []uint64{1, 1, 0, 0x123456789abcdef0} {
		id := t.post(request{Op: verbs.OpAtomicFetchAdd, Off: target, N: 8, Addr: word, Cmp: add})
		t.completesAs(t.req, id, verbs.WCFetchAdd)
		t.sameWord(t.req, target, v)
		v += add
		t.sameWord(t.resp, word, v)
	}
}

func atomicWrite(t *trial) {
	for i := range 3 {
		v := 0x0102030405060708 * uint64(i+1)
		t.setWord(t.req, v)
		id := t.post(request{Op: verbs.OpAtomicWrite, Off: word, N: 8, Addr: word})
		t.completesAs(t.req, id, verbs.WCAtomicWrite)
		t.sameWord(t.resp, word, v)
	}
}

func flush(t *trial) {
	const n = 5000
	for level := range 2 {
		before := t.clear(t.resp, n)
		seed := fmt.Sprint("flushed ", level)
		t.fill(t.req, source, n, seed)
		w := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: target})
		f := t.post(request{Op: verbs.OpFlush, N: n * (1 - level), Addr: target, Level: level})
		t.completesAs(t.req, w, verbs.WCRDMAWrite)
		t.completesAs(t.req, f, verbs.WCFlush)
		t.placed(t.resp, before, seed)
	}
}

// mixed posts different requests before the first completes, READs and atomics
// among them: their answers overtake nothing.
func mixed(t *trial) {
	const n = 3000
	t.fill(t.req, source, n, "mixed")
	before := t.clear(t.resp, n)
	t.fill(t.resp, source, n, "to read")
	t.setWord(t.resp, 7)
	const scratch = target + 100_000 // at the requester, two of them
	first, second := t.recv(n), t.recv(n)
	ids := []uint64{
		t.post(request{Op: verbs.OpSend, Off: source, N: n}),
		t.post(request{Op: verbs.OpRDMARead, Off: scratch, N: n, Addr: source}),
		t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: target}),
		t.post(request{Op: verbs.OpAtomicFetchAdd, Off: scratch + n, N: 8, Addr: word, Cmp: 3}),
		t.post(request{Op: verbs.OpRDMARead, Off: scratch + 2*n, N: n, Addr: target}),
		t.post(request{Op: verbs.OpSendWithImm, Off: source, N: 0, Imm: immediate}),
	}
	for i, op := range []verbs.WCOpcode{
		verbs.WCSend, verbs.WCRDMARead, verbs.WCRDMAWrite, verbs.WCFetchAdd, verbs.WCRDMARead, verbs.WCSend,
	} {
		t.completesAs(t.req, ids[i], op)
	}
	t.receives(first, verbs.WCRecv, n, 0, 0)
	t.receives(second, verbs.WCRecv, 0, verbs.WCWithImm, immediate)
	t.placed(t.resp, before, "mixed")
	t.same(t.req, scratch, data("to read", n))
	t.sameWord(t.req, scratch+n, 7)
	t.sameWord(t.resp, word, 10)
	t.same(t.req, scratch+2*n, data("mixed", n))
}

// invalidated are the lengths of SENDs with invalidate: one packet, and several.
var invalidated = []int{8, 5000}

// sendInvalidate writes through each of two windows of the responder, then sends
// what ends it.
func sendInvalidate(t *trial) { t.endWindows() }

// endWindows is sendInvalidate; it returns the last window's key.
func (t *trial) endWindows() (key uint32) {
	for _, n := range invalidated {
		t.fill(t.req, source, n, "window")
		before := t.clear(t.resp, n)
		if t.err != nil {
			return 0
		}
		var err error
		key, err = t.resp.window(0, regionLen)
		t.try(t.resp, "bind window", err)
		w := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: target, RKey: key})
		t.completesAs(t.req, w, verbs.WCRDMAWrite)
		t.placed(t.resp, before, "window")
		r := t.recv(n)
		s := t.post(request{Op: verbs.OpSendWithInv, Off: source, N: n, RKey: key})
		t.completesAs(t.req, s, verbs.WCSend)
		imm := key
		if t.resp.name() == rxeName {
			imm = bits.ReverseBytes32(key) // ops.py reads all keys as immediates
		}
		t.receives(r, verbs.WCRecv, n, verbs.WCWithInv, imm)
	}
	return key
}

// sendInvalidateForGood is sendInvalidate, after which the key is of no use.
func sendInvalidateForGood(t *trial) {
	key := t.endWindows()
	w := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: 8, Addr: target, RKey: key})
	t.completes(t.req, w, verbs.WCRemoteAccess)
}
